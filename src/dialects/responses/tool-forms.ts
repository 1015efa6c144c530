/**
 * Turns the tools of a Responses client into functions, which every upstream knows, and calls back
 * into the client's form. A free-form tool becomes a function of one text; a tool in a namespace
 * gets a longer name.
 */
import type { Tool } from '../../core/dialogue.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { ForeignNames } from '../ask/foreign-names.ts';
import { freeFormFunction } from '../ask/tools/free-form.ts';
import type { ResponsesBody } from './request-schema.ts';
import {
  type AnyTool,
  type FunctionTool,
  isOwnTool,
  toolLists,
  type WithTools,
} from './tool-schema.ts';
import { isToolSearch, toolSearchName } from './tool-search.ts';

/** How the client knows the tool that the model calls. */
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
  readonly #foreign: ForeignNames | undefined;

  constructor(body: WithTools, foreign?: ForeignNames) {
    this.#foreign = foreign;
    for (const { tools, path } of toolLists(body)) {
      for (const [at, tool] of tools.entries()) this.#add(tool, `${path}[${at}]`);
    }
  }

  /** The names of all functions, and of namespaced tools also the names inside their namespace. */
  get names(): ReadonlySet<string> {
    return new Set([...this.#forms].flatMap(([flat, form]) => [flat, form.name]));
  }

  formOf(called: string): ToolForm {
    return this.#forms.get(called) ?? { type: 'function', name: called };
  }

  #add(tool: AnyTool, path: string, namespace?: string): void {
    if (isToolSearch.Check(tool) && namespace === undefined) {
      const { type, ...fields } = tool;
      this.#keep({ type, name: toolSearchName }, readFunction(fields));
      return;
    }
    if (!isOwnTool(tool) || (tool.type === 'namespace' && namespace !== undefined)) {
      // The managed search replaces a tool of the client, which it finds by this path.
      this.#foreign?.add(path);
      return;
    }
    if (tool.type === 'namespace') {
      for (const [at, inner] of tool.tools.entries()) {
        this.#add(inner, `${path}.tools[${at}]`, tool.name);
      }
      return;
    }
    const { type, name: own } = tool;
    const read = type === 'function' ? readFunction(tool, this.#foreign) : freeFormFunction(tool);
    this.#keep({ type, name: own, ...(namespace ? { namespace } : {}) }, read);
  }

  /** Keeps a tool once: a search may find it again, and upstreams refuse a name that is doubled. */
  #keep(form: ToolForm, tool: Omit<Tool, 'name'>): void {
    const flat = flatName(form.name, form.namespace);
    if (this.#forms.has(flat)) return;
    this.#forms.set(flat, form);
    this.tools.push({ ...tool, name: flat });
  }
}

const functionFields = new Set(['type', 'name', 'description', 'parameters', 'strict']);

function readFunction(tool: Partial<FunctionTool>, foreign?: ForeignNames): Omit<Tool, 'name'> {
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

/** Refuses a choice of functions that do not exist; other choices are left to the upstream. */
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
