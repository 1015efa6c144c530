import { jsonNamesMax } from '../../../core/bounds.ts';
import { invalidRequest } from '../../../core/errors.ts';
import { exceededLimit, isObject } from '../../../core/json.ts';
import type { Prompt, Tool, ToolCallPart, Turn } from '../../../core/prompt.ts';
import { parseArguments } from '../exact-json.ts';

/** Whether the model must call a tool, be it any tool or the one that is named. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}

/** Lists of tools, each with the fields that vendors refuse without it. */
export const listsOfTools = [
  ['tools', 'tool_choice', 'parallel_tool_calls'],
  ['functions', 'function_call'],
] as const;

/** These names, and those of the fields that cannot be sent without them. */
export function withDependents(names: readonly string[]): ReadonlySet<string> {
  const lost = listsOfTools.filter(([list]) => names.includes(list));
  return new Set([...names, ...lost.flat()]);
}

/** The calls of tools that are in a conversation already. */

export function callsIn(turns: readonly Turn[]): readonly ToolCallPart[] {
  return turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_call'));
}

/** The least characters per name: its two quotes, its colon, a value and a comma. */
const nameLengthMin = 5;

/**
 * The arguments of calls are JSON inside JSON, so reading the request did not count their names,
 * and some upstreams want them parsed. All together may have as many names as a whole request.
 */
export function rejectTooManyArguments({ turns }: Prompt): void {
  const texts = callsIn(turns).map((call) => call.arguments);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (length <= jsonNamesMax * nameLengthMin) return;
  const limits = { levels: Number.POSITIVE_INFINITY, names: jsonNamesMax };
  const counted = { names: 0 };
  for (const text of texts) {
    if (exceededLimit(text, limits, counted) === undefined) continue;
    throw invalidRequest(`The arguments of tool calls have more than ${jsonNamesMax} fields.`);
  }
}

/**
 * Changes ids of calls that came from another provider into ones that a provider takes. The same
 * id always gets the same replacement, so calls and results still match.
 */

export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces the dots, colons and the like that some providers put into their ids. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const nineCharacterPattern = /^[A-Za-z0-9]{9}$/;

/** For Mistral, which wants nine letters and digits. */
export function nineCharacterCallId(id: string): string {
  if (nineCharacterPattern.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}

/** Gives tools whose names an upstream refuses other names, which all upstreams take. */

/** The names that clients may give a tool, in all dialects. */
export const toolNamePattern = '^[A-Za-z0-9_.:-]{1,128}$';
/** The pattern above in words. */
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

  /** The names of the tools at the upstream. */
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

  /** The client's own name for a tool. */
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

/** OpenAI takes two tools of the same name; Anthropic and Google refuse them. */
function isFirstOfName({ name }: Tool, at: number, tools: readonly Tool[]): boolean {
  return tools.findIndex((tool) => tool.name === name) === at;
}

/** Only some upstreams take dots and colons; Google takes no name that begins with a digit. */
function isAccepted(name: string, lengthMax: number): boolean {
  return name.length <= lengthMax && /^[A-Za-z_][\w-]*$/.test(name);
}

/** The same name always becomes the same short one, so that earlier turns agree with later ones. */
function shorten(name: string, lengthMax: number): string {
  const digest = new Bun.CryptoHasher('sha256').update(name).digest('hex');
  const plain = name.replace(/[^\w-]/g, '_').replace(/^[\d-]/, '_$&');
  const start = plain.slice(0, lengthMax - digestLength - 1);
  return `${start}_${digest.slice(0, digestLength)}`;
}

/**
 * Turns tools that take any text into functions with one text, which every upstream knows, and
 * turns their calls back.
 */

const inputInstruction = 'The whole text for this tool goes into `input`, as it is.';

interface FreeFormTool {
  readonly description?: string | null | undefined;
  readonly format?:
    | { readonly syntax?: string | null; readonly definition?: string | null }
    | null
    | undefined;
}

/** A grammar cannot be enforced on a function, but the description can state it. */
export function freeFormFunction({ description: toolDescription, format }: FreeFormTool) {
  const { syntax, definition } = format ?? {};
  const grammar = definition
    ? `It has to follow this${syntax ? ` ${syntax}` : ''} grammar:\n${definition}`
    : '';
  const texts = [toolDescription ?? '', inputInstruction, grammar].filter((part) => part !== '');
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

/** The text in a call of such a function, which a model may write without the JSON around it. */
export function freeFormInput(json: string): string {
  const value = parseArguments(json);
  if (!isObject(value)) return json;
  if (typeof value.input === 'string') return value.input;
  return Object.keys(value).length === 0 ? '' : json;
}
