import { jsonNamesMax } from '../../../core/bounds.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { exceededLimit, isObject } from '../../../core/json.ts';
import type { Prompt, Tool, ToolCallPart, Turn } from '../../../core/prompt.ts';
import { parseArguments } from '../exact-json.ts';

/** Returns true if the model must call a tool, either any tool or a named one. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}

/** The tool lists, each with the fields that vendors reject without it. */
export const listsOfTools = [
  ['tools', 'tool_choice', 'parallel_tool_calls'],
  ['functions', 'function_call'],
] as const;

/** Adds the names of the fields that can't be sent without these. */
export function withDependents(names: readonly string[]): ReadonlySet<string> {
  const lost = listsOfTools.filter(([list]) => names.includes(list));
  return new Set([...names, ...lost.flat()]);
}

export function callsIn(turns: readonly Turn[]): readonly ToolCallPart[] {
  return turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_call'));
}

/** The minimum length of a field in JSON: 2 quotes, a colon, a value, and a comma. */
const fieldLengthMin = 5;

/**
 * Throws 400 if the arguments of all calls have too many fields. They are JSON inside JSON, so
 * their fields weren't counted with the request's, and some upstreams need them parsed.
 */
export function rejectTooManyArguments({ turns }: Prompt): void {
  const texts = callsIn(turns).map((call) => call.arguments);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= jsonNamesMax * fieldLengthMin) return;
  const limits = { levels: Number.POSITIVE_INFINITY, names: jsonNamesMax };
  const counted = { names: 0 };
  for (const text of texts) {
    if (exceededLimit(text, limits, counted) === undefined) continue;
    throw invalidRequest(`The arguments of tool calls have more than ${jsonNamesMax} fields.`);
  }
}

/**
 * Converts call ids of another provider to ids that a provider accepts. The same id always gets the
 * same replacement, so calls and results still match.
 */

export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces the dots, colons, and other characters that some providers use in ids. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const nineCharacterPattern = /^[A-Za-z0-9]{9}$/;

/** For Mistral, which requires 9 letters and digits. */
export function nineCharacterCallId(id: string): string {
  if (nineCharacterPattern.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}

/** Renames tools whose names an upstream rejects to names that all upstreams accept. */

/** The tool names that clients may use, in all dialects. */
export const toolNamePattern = '^[A-Za-z0-9_.:-]{1,128}$';
/** Describes the pattern above in error messages. */
export const toolNameDescription = 'a name for a tool of 1 to 128 letters, digits or _.:-';

const digestLength = 8;

export class ToolNames {
  readonly #shortByLong = new Map<string, string>();
  readonly #longByShort = new Map<string, string>();
  readonly #hasDuplicates: boolean;
  readonly #names: readonly string[];

  constructor({ tools, turns }: Pick<Prompt, 'tools' | 'turns'>, lengthMax: number) {
    const called = callsIn(turns).map((call) => call.name);
    const named = tools.map((tool) => tool.name);
    this.#names = named;
    this.#hasDuplicates = new Set(named).size < named.length;
    for (const name of [...named, ...called]) {
      if (isAccepted(name, lengthMax) || this.#shortByLong.has(name)) continue;
      const short = shorten(name, lengthMax);
      this.#shortByLong.set(name, short);
      this.#longByShort.set(short, name);
    }
  }

  /** The tool names that are sent upstream. */
  get offered(): readonly string[] {
    return this.#names.map((name) => this.#short(name));
  }

  shortenIn(prompt: Prompt): Prompt {
    if (this.#shortByLong.size === 0 && !this.#hasDuplicates) return prompt;
    const { tools, turns, toolChoice } = prompt;
    const offered = this.#hasDuplicates ? tools.filter(isFirstOfName) : tools;
    return {
      ...prompt,
      tools: offered.map((tool) => ({ ...tool, name: this.#short(tool.name) })),
      turns: turns.map((turn) => this.#shortenTurn(turn)),
      toolChoice:
        toolChoice && typeof toolChoice === 'object'
          ? { name: this.#short(toolChoice.name) }
          : toolChoice,
    };
  }

  /** Returns the client's own name of a tool. */
  restore(name: string): string {
    return this.#longByShort.get(name) ?? name;
  }

  #shortenTurn(turn: Turn): Turn {
    if (turn.role !== 'assistant') return turn;
    const parts = turn.parts.map((part) =>
      part.kind === 'tool_call' ? { ...part, name: this.#short(part.name) } : part,
    );
    return { ...turn, parts };
  }

  #short(name: string): string {
    return this.#shortByLong.get(name) ?? name;
  }
}

/** OpenAI accepts two tools of the same name; Anthropic and Google reject them. */
function isFirstOfName({ name }: Tool, at: number, tools: readonly Tool[]): boolean {
  return tools.findIndex((tool) => tool.name === name) === at;
}

/** Only some upstreams accept dots and colons. Google accepts no name that starts with a digit. */
function isAccepted(name: string, lengthMax: number): boolean {
  return name.length <= lengthMax && /^[A-Za-z_][\w-]*$/.test(name);
}

/**
 * Shortens a name. The same name always becomes the same short one, so earlier turns match later
 * ones.
 */
function shorten(name: string, lengthMax: number): string {
  const digest = new Bun.CryptoHasher('sha256').update(name).digest('hex');
  const plain = name.replace(/[^\w-]/g, '_').replace(/^[\d-]/, '_$&');
  const start = plain.slice(0, lengthMax - digestLength - 1);
  return `${start}_${digest.slice(0, digestLength)}`;
}

/**
 * Converts custom tools to functions with one text parameter, which every upstream supports, and
 * converts their calls back.
 */

const inputInstruction = 'The whole text for this tool goes into `input`, as it is.';

interface FreeFormTool {
  readonly description?: string | null | undefined;
  readonly format?:
    | { readonly syntax?: string | null; readonly definition?: string | null }
    | null
    | undefined;
}

/**
 * Returns the function for a custom tool. A grammar can't be enforced on a function, but the
 * description can state it.
 */
export function freeFormFunction({ description, format }: FreeFormTool) {
  const { syntax, definition } = format ?? {};
  const grammar = definition
    ? `It has to follow this${syntax ? ` ${syntax}` : ''} grammar:\n${definition}`
    : '';
  const texts = [description ?? '', inputInstruction, grammar].filter((part) => part !== '');
  return {
    description: texts.join('\n\n'),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string' } },
      required: ['input'],
      additionalProperties: false,
    },
  };
}

export function freeFormArguments(input: string): string {
  return JSON.stringify({ input });
}

/** Reads the text in a call of such a function. A model may write it without the JSON around it. */
export function freeFormInput(json: string): string {
  const value = parseArguments(json);
  if (!isObject(value)) return json;
  if (typeof value.input === 'string') return value.input;
  return Object.keys(value).length === 0 ? '' : json;
}
