/** The tools of a Responses client, wherever they stand, and what is checked of them. */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { misfit } from '../../core/misfit.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import { type OneOf, SchemasByType } from '../ask/schemas-by-type.ts';
import { isSearchTool, searchToolSchema } from '../ask/search-wish.ts';
import { toolNamePattern, toolNameWords } from '../ask/tools/tool-names.ts';
import { anyTyped, type ResponsesBody } from './request-schema.ts';
import { isSearchOutput, isToolSearch } from './tool-search.ts';

const name = Type.String({ pattern: toolNamePattern, expected: toolNameWords });
const description = optional(Type.String());

const functionTool = Type.Object({
  type: Type.Literal('function'),
  name,
  description,
  parameters: optional(Type.Object({})),
  strict: optional(Type.Boolean()),
});
export type FunctionTool = Static<typeof functionTool>;
export const grammarFields = {
  syntax: optional(Type.String()),
  definition: optional(Type.String()),
};
export const customTool = Type.Object({
  type: Type.Literal('custom'),
  name,
  description,
  format: optional(Type.Object({ type: oneOf('text', 'grammar'), ...grammarFields })),
});
const namespaceTool = Type.Object({
  type: Type.Literal('namespace'),
  name,
  description,
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
/** The item in which Codex sends its tools to OpenAI's newest models. */
const addedTools = Type.Object({
  type: Type.Literal('additional_tools'),
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
export type AnyTool = Static<typeof anyTyped>;

const ownSchemas = { function: functionTool, custom: customTool, namespace: namespaceTool };
const ownKinds = new SchemasByType(ownSchemas);
const isSearch = Compile(searchToolSchema);
const isAdded = Compile(addedTools);

/** Throws at the first tool that does not fit the schema of its type. */
export function checkTools(tools: readonly AnyTool[], path: string): void {
  for (const [at, tool] of tools.entries()) {
    const place = `${path}[${at}]`;
    if (typeof tool.type !== 'string') {
      throw misfit(Type.Object({ type: Type.String() }), tool, place);
    }
    ownKinds.check(tool.type, tool, place);
    if (isSearchTool(tool) && !isSearch.Check(tool)) throw misfit(searchToolSchema, tool, place);
    if (isOwnTool(tool) && tool.type === 'namespace') checkTools(tool.tools, `${place}.tools`);
  }
}

export type WithTools = Partial<Pick<ResponsesBody, 'tools' | 'input'>>;

export interface ToolList {
  readonly tools: readonly AnyTool[];
  readonly path: string;
}

/** The lists of tools in a request: its own, and those that items of its input add. */
export function toolLists({ tools, input }: WithTools): readonly ToolList[] {
  const lists: ToolList[] = [{ tools: tools ?? [], path: 'tools' }];
  const items = typeof input === 'string' ? [] : (input ?? []);
  for (const [at, item] of items.entries()) {
    const isFound = isSearchOutput.Check(item);
    if (!isFound && item.type !== 'additional_tools') continue;
    if (!isFound && !isAdded.Check(item)) throw misfit(addedTools, item, `input[${at}]`);
    lists.push({ tools: item.tools, path: `input[${at}].tools` });
  }
  return lists;
}

/** Whether there are tools that the client runs, not only tools of the provider. */
export function hasOwnTools(body: ResponsesBody): boolean {
  return toolLists(body).some(({ tools }) =>
    tools.some((tool) => isOwnTool(tool) || isToolSearch.Check(tool)),
  );
}

/** Decided by the type alone; `checkTools` makes sure that the tool fits its schema. */
export function isOwnTool(tool: AnyTool): tool is OneOf<typeof ownSchemas> {
  return ownKinds.has(tool.type ?? '');
}

/** The tools, each that is no search tool replaced by an empty object, so that places stay. */
export function searchesIn({ tools }: ResponsesBody): readonly object[] {
  return (tools ?? []).map((tool) => (isSearchTool(tool) && isSearch.Check(tool) ? tool : {}));
}
