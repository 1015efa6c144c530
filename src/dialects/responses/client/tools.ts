import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { invalidRequest } from '../../../core/errors.ts';
import { fieldsOf, isNonEmptyString } from '../../../core/json.ts';
import type { Tool } from '../../../core/prompt.ts';
import { oneOf, optional, validationError } from '../../../core/schema.ts';
import type { RawBody } from '../../dialect.ts';
import { parseArguments } from '../../normalize/exact-json.ts';
import { withExactNumbers } from '../../normalize/requests/exact-numbers.ts';
import { type OneOf, SchemasByType } from '../../normalize/requests/schemas-by-type.ts';
import { isSearchTool, searchToolSchema } from '../../normalize/requests/search-options.ts';
import { toolNameDescription, toolNamePattern } from '../../normalize/requests/tool-identifiers.ts';
import { noParameters } from '../../normalize/requests/tool-schema.ts';
import { freeFormFunction } from '../../normalize/requests/tools.ts';
import type { UnsupportedNames } from '../../normalize/requests/unsupported.ts';
import { anyTyped, type ResponsesBody } from './schema.ts';

// Tool search: the model searches for tools, and the client runs the search. Codex sends the tools
// of its MCP servers only after the model has searched for them, and only the tools that were
// found.

/** The name of the function that the model calls to search for tools. */
export const toolSearchName = 'tool_search';

/** Tool searches that OpenAI runs have a different `execution`. Other upstreams can't run those. */
const byClient = { execution: Type.Literal('client') };
const answered = { ...byClient, call_id: Type.String({ minLength: 1 }) };

const isToolSearch = Compile(
  Type.Object({
    type: Type.Literal('tool_search'),
    ...byClient,
    description: optional(Type.String()),
    parameters: optional(Type.Object({})),
  }),
);
const searchCall = Type.Object({
  type: Type.Literal('tool_search_call'),
  ...answered,
  arguments: Type.Optional(Type.Unknown()),
});
const searchOutput = Type.Object({
  type: Type.Literal('tool_search_output'),
  ...answered,
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
export const isSearchCall = Compile(searchCall);
export const isSearchOutput = Compile(searchOutput);
const items = new SchemasByType({ tool_search_call: searchCall, tool_search_output: searchOutput });

/**
 * Throws 400 for an invalid search call or result. Dropping it would leave a result without its
 * call, or a call without its result.
 */
export function checkSearch(item: Static<typeof anyTyped>, path: string): void {
  if ('execution' in item && item.execution === 'client') items.check(item.type ?? '', item, path);
}

/** Returns an empty object for arguments that aren't an object. */
export function searchArguments(json: string): object {
  return fieldsOf(parseArguments(json));
}

/**
 * Returns the search result for the model. It contains only names, because the tools themselves are
 * added to the request's tools.
 */
export function foundNames(tools: readonly object[]): string {
  const names = tools.map((tool) => fieldsOf(tool).name).filter(isNonEmptyString);
  return names.length > 0 ? `Found: ${names.join(', ')}` : 'No tools found.';
}

const name = Type.String({ pattern: toolNamePattern, expected: toolNameDescription });
const description = optional(Type.String());

const functionTool = Type.Object({
  type: Type.Literal('function'),
  name,
  description,
  parameters: optional(Type.Object({})),
  strict: optional(Type.Boolean()),
});
type FunctionTool = Static<typeof functionTool>;
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
/** The input item that Codex sends its tools in, for OpenAI's newest models. */
const addedTools = Type.Object({
  type: Type.Literal('additional_tools'),
  tools: Type.Array(anyTyped, { maxItems: 1024 }),
});
export type AnyTool = Static<typeof anyTyped>;

export const clientToolSchemas = {
  function: functionTool,
  custom: customTool,
  namespace: namespaceTool,
};
const clientToolTypes = new SchemasByType(clientToolSchemas);
const isSearch = Compile(searchToolSchema);
const isAdded = Compile(addedTools);

/** Throws 400 for the first invalid tool. */
export function checkTools(tools: readonly AnyTool[], path: string): void {
  for (const [index, tool] of tools.entries()) {
    const toolPath = `${path}[${index}]`;
    if (typeof tool.type !== 'string') {
      throw validationError(Type.Object({ type: Type.String() }), tool, toolPath);
    }
    clientToolTypes.check(tool.type, tool, toolPath);
    if (isSearchTool(tool) && !isSearch.Check(tool))
      throw validationError(searchToolSchema, tool, toolPath);
    if (isClientTool(tool) && tool.type === 'namespace')
      checkTools(tool.tools, `${toolPath}.tools`);
  }
}

export type WithTools = Partial<Pick<ResponsesBody, 'tools' | 'input'>>;

export interface ToolList {
  readonly tools: readonly AnyTool[];
  readonly path: string;
}

/** Returns the tools in `tools` and the tools that input items add. */
export function toolLists({ tools, input }: WithTools): readonly ToolList[] {
  const lists: ToolList[] = [{ tools: tools ?? [], path: 'tools' }];
  const items = typeof input === 'string' ? [] : (input ?? []);
  for (const [index, item] of items.entries()) {
    const isFound = isSearchOutput.Check(item);
    if (!isFound && item.type !== 'additional_tools') continue;
    if (!isFound && !isAdded.Check(item))
      throw validationError(addedTools, item, `input[${index}]`);
    lists.push({ tools: item.tools, path: `input[${index}].tools` });
  }
  return lists;
}

/** True if the request has tools that the client runs, and not only the provider's own tools. */
export function hasClientTools(body: ResponsesBody): boolean {
  return toolLists(body).some(({ tools }) =>
    tools.some((tool) => isClientTool(tool) || isToolSearch.Check(tool)),
  );
}

/** Checks only the type. `checkTools` validates the tool against its schema. */
export function isClientTool(tool: AnyTool): tool is OneOf<typeof clientToolSchemas> {
  return clientToolTypes.has(tool.type ?? '');
}

/**
 * Replaces all tools other than web search with empty objects, so that the indexes don't change.
 */
export function searchesIn({ tools }: ResponsesBody): readonly object[] {
  return (tools ?? []).map((tool) => (isSearchTool(tool) && isSearch.Check(tool) ? tool : {}));
}

/** A tool as the client declared it. */
export interface ClientTool {
  readonly type: 'function' | 'custom' | 'tool_search';
  readonly name: string;
  readonly namespace?: string;
}

export function flatName(toolName: string, namespace: string | null | undefined): string {
  if (!namespace) return toolName;
  return namespace.endsWith('__') ? namespace + toolName : `${namespace}__${toolName}`;
}

/**
 * Converts a Responses client's tools to functions, which every upstream supports, and converts
 * calls of those functions back to calls of the client's tools. A custom tool becomes a function
 * with one text parameter. A tool in a namespace gets a longer name.
 */
export class ClientTools {
  readonly tools: Tool[] = [];
  readonly #clientTools = new Map<string, ClientTool>();
  readonly #unsupported: UnsupportedNames | undefined;

  constructor(body: WithTools, unsupported?: UnsupportedNames) {
    this.#unsupported = unsupported;
    for (const { tools, path } of toolLists(body)) {
      for (const [index, tool] of tools.entries()) this.#add(tool, `${path}[${index}]`);
    }
  }

  /** The names of all functions, and the names that tools have inside their namespaces. */
  get names(): ReadonlySet<string> {
    return new Set([...this.#clientTools].flatMap(([flat, { name }]) => [flat, name]));
  }

  clientToolFor(called: string): ClientTool {
    return this.#clientTools.get(called) ?? { type: 'function', name: called };
  }

  #add(tool: AnyTool, path: string, namespace?: string): void {
    if (isToolSearch.Check(tool) && namespace === undefined) {
      const { type, ...fields } = tool;
      this.#register({ type, name: toolSearchName }, readFunction(fields));
      return;
    }
    if (!isClientTool(tool) || (tool.type === 'namespace' && namespace !== undefined)) {
      // The gateway's own web search later finds the client's search tool by this path and replaces
      // it.
      this.#unsupported?.add(path);
      return;
    }
    if (tool.type === 'namespace') {
      for (const [index, inner] of tool.tools.entries()) {
        this.#add(inner, `${path}.tools[${index}]`, tool.name);
      }
      return;
    }
    const { type, name: toolName } = tool;
    const converted =
      type === 'function' ? readFunction(tool, this.#unsupported) : freeFormFunction(tool);
    this.#register({ type, name: toolName, ...(namespace ? { namespace } : {}) }, converted);
  }

  /** Skips duplicates: a search may find a tool again, and upstreams reject duplicate names. */
  #register(clientTool: ClientTool, converted: Omit<Tool, 'name'>): void {
    const flat = flatName(clientTool.name, clientTool.namespace);
    if (this.#clientTools.has(flat)) return;
    this.#clientTools.set(flat, clientTool);
    this.tools.push({ ...converted, name: flat });
  }
}

const functionFields = new Set(['type', 'name', 'description', 'parameters', 'strict']);

function readFunction(
  tool: Partial<FunctionTool>,
  unsupported?: UnsupportedNames,
): Omit<Tool, 'name'> {
  for (const field of Object.keys(tool)) {
    if (!functionFields.has(field)) unsupported?.add(`tools.${field}`);
  }
  const { description, parameters, strict } = tool;
  return {
    parameters: parameters ? { ...parameters } : null,
    description: description || undefined,
    strict: strict ?? undefined,
  };
}

/**
 * Adds a schema to functions without parameters, because OpenAI requires one. Returns the same body
 * if no function lacks it.
 */
export function withParameters({
  body,
  source,
}: {
  readonly body: ResponsesBody;
  readonly source: RawBody | null;
}): ResponsesBody {
  if (!body.tools?.some(lacksParameters)) return body;
  const { tools } = withExactNumbers(body, source);
  return { ...body, tools: tools?.map(addParameters) ?? null };
}

function lacksParameters(tool: AnyTool): boolean {
  if (!isClientTool(tool)) return false;
  if (tool.type === 'namespace') return tool.tools.some(lacksParameters);
  return tool.type === 'function' && !tool.parameters;
}

/** OpenAI's functions are strict unless the client says otherwise. */
function addParameters(tool: AnyTool): AnyTool {
  if (!isClientTool(tool) || !lacksParameters(tool)) return tool;
  if (tool.type === 'namespace') {
    const namespace = { ...tool, tools: tool.tools.map(addParameters) };
    return namespace;
  }
  const { strict = null } = fieldsOf(tool);
  const completed = { ...tool, parameters: noParameters(strict !== false) };
  return completed;
}

/**
 * Throws 400 if the choice allows functions that don't exist. The upstream validates other choices.
 */
export function checkAllowedTools(body: ResponsesBody): void {
  const { tool_choice: choice } = body;
  if (typeof choice !== 'object' || choice?.type !== 'allowed_tools') return;
  const { names } = new ClientTools(body);
  for (const [index, { type, name: allowed }] of (choice.tools ?? []).entries()) {
    if (!allowed || names.has(allowed)) continue;
    if (type && type !== 'function' && type !== 'custom') continue;
    const param = `tool_choice.tools[${index}].name`;
    throw invalidRequest(`${param} isn't the name of any tool.`, param);
  }
}
