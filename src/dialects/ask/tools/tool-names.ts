/** Gives tools whose names an upstream refuses other names, which all upstreams take. */
import type { Dialogue, Tool, Turn } from '../../../core/dialogue.ts';
import { callsIn } from './earlier-calls.ts';

/** The names that clients may give a tool, in all dialects. */
export const toolNamePattern = '^[A-Za-z0-9_.:-]{1,128}$';
/** The pattern above in words. */
export const toolNameWords = 'a name for a tool of 1 to 128 letters, digits or _.:-';

const digestLength = 8;

export class ToolNames {
  readonly #shortByLong = new Map<string, string>();
  readonly #longByShort = new Map<string, string>();
  readonly #hasDoubles: boolean;
  readonly #named: readonly string[];

  constructor({ tools, turns }: Pick<Dialogue, 'tools' | 'turns'>, lengthMax: number) {
    const called = callsIn(turns).map((call) => call.name);
    const named = tools.map((tool) => tool.name);
    this.#named = named;
    this.#hasDoubles = new Set(named).size < named.length;
    for (const name of [...named, ...called]) {
      if (isTaken(name, lengthMax) || this.#shortByLong.has(name)) continue;
      const short = shorten(name, lengthMax);
      this.#shortByLong.set(name, short);
      this.#longByShort.set(short, name);
    }
  }

  /** The names of the tools at the upstream. */
  get offered(): readonly string[] {
    return this.#named.map((name) => this.#short(name));
  }

  shortenIn(dialogue: Dialogue): Dialogue {
    if (this.#shortByLong.size === 0 && !this.#hasDoubles) return dialogue;
    const { tools, turns, toolChoice } = dialogue;
    const offered = this.#hasDoubles ? tools.filter(isFirstOfName) : tools;
    return {
      ...dialogue,
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
function isTaken(name: string, lengthMax: number): boolean {
  return name.length <= lengthMax && /^[A-Za-z_][\w-]*$/.test(name);
}

/** The same name always becomes the same short one, so that earlier turns agree with later ones. */
function shorten(name: string, lengthMax: number): string {
  const digest = new Bun.CryptoHasher('sha256').update(name).digest('hex');
  const plain = name.replace(/[^\w-]/g, '_').replace(/^[\d-]/, '_$&');
  const start = plain.slice(0, lengthMax - digestLength - 1);
  return `${start}_${digest.slice(0, digestLength)}`;
}
