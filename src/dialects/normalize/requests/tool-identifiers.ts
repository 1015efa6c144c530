import type { Prompt, Tool, Turn } from '../../../core/prompt.ts';
import { callsIn } from './tools.ts';

// Replaces tool names that an upstream rejects with names that all upstreams accept.

/** The tool names that clients may use, in all dialects. */
export const toolNamePattern = '^[A-Za-z0-9_.:-]{1,128}$';
/** Describes `toolNamePattern` in error messages. */
export const toolNameDescription =
  'a tool name of 1 to 128 letters, digits, or the characters _ . : -';

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

  /** Returns the client's name for a tool. */
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

/** OpenAI accepts two tools with the same name; Anthropic and Google reject them. */
function isFirstOfName({ name }: Tool, at: number, tools: readonly Tool[]): boolean {
  return tools.findIndex((tool) => tool.name === name) === at;
}

/** Only some upstreams accept dots and colons. Google rejects names that start with a digit. */
function isAccepted(name: string, lengthMax: number): boolean {
  return name.length <= lengthMax && /^[A-Za-z_][\w-]*$/.test(name);
}

/**
 * Shortens a name. The result is always the same for the same name, so calls in earlier turns still
 * match.
 */
function shorten(name: string, lengthMax: number): string {
  const plain = name.replace(/[^\w-]/g, '_').replace(/^[\d-]/, '_$&');
  const start = plain.slice(0, lengthMax - digestLength - 1);
  return `${start}_${digestOf(name).slice(0, digestLength)}`;
}

/**
 * Replaces a call ID that is too long for a provider. The same ID always gets the same replacement,
 * so calls and results still match.
 */
export function shortCallId(id: string, lengthMax: number): string {
  return id.length <= lengthMax ? id : `call_${digestOf(id).slice(0, 24)}`;
}

/** Replaces dots, colons, and other characters in a call ID that not every provider accepts. */
export function plainCallId(id: string): string {
  if (/^[\w-]+$/.test(id)) return id;
  return `${id.replace(/[^\w-]/g, '_')}_${digestOf(id).slice(0, 8)}`;
}

const nineCharacterPattern = /^[A-Za-z0-9]{9}$/;

/** Returns an ID for Mistral, which requires exactly 9 letters and digits. */
export function nineCharacterCallId(id: string): string {
  if (nineCharacterPattern.test(id)) return id;
  const number = BigInt(`0x${digestOf(id).slice(0, 16)}`);
  return number.toString(36).padStart(9, '0').slice(-9);
}

function digestOf(id: string): string {
  return new Bun.CryptoHasher('sha256').update(id).digest('hex');
}
