/**
 * The tools of a Responses client as functions, which every upstream knows, and the way back: a
 * free-form tool is a function with one text, a tool of a namespace one with a longer name.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Tool } from '../../core/dialogue.ts';
import { invalidRequest } from '../../core/errors.ts';
import { misfit } from '../../core/misfit.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import type { ForeignNames } from '../ask/foreign-names.ts';
import { freeFormFunction } from '../ask/free-form.ts';
import { type OneOf, SchemasByType } from '../ask/schemas-by-type.ts';
import { domains, isSearchTool, searchToolSchema } from '../ask/search-wish.ts';
import { anyTyped, type ResponsesBody } from './request-schema.ts';
import { isSearchOutput, isToolSearch, toolSearchName } from './tool-search.ts';

const name = Type.String({ pattern: '^[A-Za-z0-9_.:-]{1,128}$', expected: 'a name for a tool' });
const description = optional(Type.String());

const functionTool = Type.Object({
  type: Type.Literal('function'),
  name,
  description,
  parameters: optional(Type.Object({})),
  strict: optional(Type.Boolean()),
});
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
const searchTool = Type.Object({
  ...searchToolSchema.properties,
  filters: optional(Type.Object({ allowed_domains: domains })),
  external_web_access: optional(Type.Boolean()),
});
/** Where Codex puts the tools for OpenAI's newest models. */
const addedTools = Type.Object({
  type: Type.Literal('additional_tools'),
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
type AnyTool = Static<typeof anyTyped>;

const ownSchemas = { function: functionTool, custom: customTool, namespace: namespaceTool };
const ownKinds = new SchemasByType(ownSchemas);
const isSearch = Compile(searchTool);
const isAdded = Compile(addedTools);

/** Throws at the first tool that is not what its type says. */
export function checkTools(tools: readonly AnyTool[], path: string): void {
  for (const [at, tool] of tools.entries()) {
    const place = `${path}[${at}]`;
    if (typeof tool.type !== 'string') {
      throw misfit(Type.Object({ type: Type.String() }), tool, place);
    }
    ownKinds.check(tool.type, tool, place);
    if (isSearchTool(tool) && !isSearch.Check(tool)) throw misfit(searchTool, tool, place);
    if (isOwnTool(tool) && tool.type === 'namespace') checkTools(tool.tools, `${place}.tools`);
  }
}

/** Refuses a choice of functions that are not there. What else may be chosen, upstreams know. */
export function checkAllowed(body: ResponsesBody): void {
  const { tool_choice: choice } = body;
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return;
  const { names } = new ToolForms(body);
  for (const [at, { type, name: allowed }] of (choice.tools ?? []).entries()) {
    if (!allowed || names.has(allowed)) continue;
    if (type && type !== 'function' && type !== 'custom') continue;
    const param = `tool_choice.tools[${at}].name`;
    throw invalidRequest(`${param} is the name of none of the tools.`, param);
  }
}

type WithTools = Partial<Pick<ResponsesBody, 'tools' | 'input'>>;

interface ToolList {
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

/** The tools that the client runs, as opposed to those that are the provider's own. */
export function hasOwnTools(body: ResponsesBody): boolean {
  return toolLists(body).some(({ tools }) =>
    tools.some((tool) => isOwnTool(tool) || isToolSearch.Check(tool)),
  );
}

/** By its type; sound, once `checkTools` has looked at it. */
export function isOwnTool(tool: AnyTool): tool is OneOf<typeof ownSchemas> {
  return ownKinds.has(tool.type ?? '');
}

/**
 * In the words of the managed search. A client that forbids the open web gets no search of ours.
 */
export function searchesIn({ tools }: ResponsesBody): readonly object[] {
  return (tools ?? []).map((tool) => {
    if (!isSearchTool(tool) || !isSearch.Check(tool)) return {};
    const { filters, external_web_access: isOpen, ...wish } = tool;
    if (isOpen === false) return {};
    return filters?.allowed_domains ? { ...wish, allowed_domains: filters.allowed_domains } : wish;
  });
}

/** What a call of the model is to the client. */
export interface ToolForm {
  readonly type: 'function' | 'custom' | 'tool_search';
  readonly name: string;
  readonly namespace?: string;
}

export function flatName(toolName: string, namespace: string | null | undefined): string {
  if (!namespace) return toolName;
  return namespace.endsWith('__') ? namespace + toolName : `${namespace}__${toolName}`;
}

export class ToolForms {
  readonly tools: Tool[] = [];
  readonly #forms = new Map<string, ToolForm>();

  constructor(body: WithTools, foreign?: ForeignNames) {
    for (const { tools, path } of toolLists(body)) {
      for (const [at, tool] of tools.entries()) {
        this.#add(tool, `${path}[${at}]`, undefined, foreign);
      }
    }
  }

  /** With those by which a namespace knows its own. */
  get names(): ReadonlySet<string> {
    return new Set([...this.#forms].flatMap(([flat, form]) => [flat, form.name]));
  }

  formOf(called: string): ToolForm {
    return this.#forms.get(called) ?? { type: 'function', name: called };
  }

  #add(
    tool: AnyTool,
    path: string,
    namespace: string | undefined,
    foreign: ForeignNames | undefined,
  ): void {
    if (isToolSearch.Check(tool) && namespace === undefined) {
      const { type, ...fields } = tool;
      this.#keep({ type, name: toolSearchName }, readFunction(fields));
      return;
    }
    if (!isOwnTool(tool) || (tool.type === 'namespace' && namespace !== undefined)) {
      // The managed search finds the tool that it replaces by this name.
      foreign?.add(path);
      return;
    }
    if (tool.type === 'namespace') {
      for (const [at, inner] of tool.tools.entries()) {
        this.#add(inner, `${path}.tools[${at}]`, tool.name, foreign);
      }
      return;
    }
    const { type, name: own } = tool;
    const read = type === 'function' ? readFunction(tool, foreign) : freeFormFunction(tool);
    this.#keep({ type, name: own, ...(namespace ? { namespace } : {}) }, read);
  }

  /** Once: what a search finds may have been found before, and names are refused twice. */
  #keep(form: ToolForm, tool: Omit<Tool, 'name'>): void {
    const flat = flatName(form.name, form.namespace);
    if (this.#forms.has(flat)) return;
    this.#forms.set(flat, form);
    this.tools.push({ ...tool, name: flat });
  }
}

const functionFields = new Set(['type', 'name', 'description', 'parameters', 'strict']);

function readFunction(
  tool: Partial<Static<typeof functionTool>>,
  foreign?: ForeignNames,
): Omit<Tool, 'name'> {
  for (const field of Object.keys(tool)) {
    if (!functionFields.has(field)) foreign?.add(`tools.${field}`);
  }
  const { description: told, parameters, strict } = tool;
  return {
    parameters: parameters ? { ...parameters } : null,
    description: told || undefined,
    strict: strict ?? undefined,
  };
}
