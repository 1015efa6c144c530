/**
 * Tells the blocks of an answer in our words; the same for a whole one and for its pieces. Those of
 * Anthropic's own streams are sound by then, see block-events.ts; Bedrock's come as they are.
 */
import type { AnswerListener, Citation } from '../../core/answer.ts';
import { citationsMax, openBlocksMax } from '../../core/bounds.ts';
import { type Fields, isObject, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import { markSignature } from '../signature.ts';
import { inputText } from './tool-input.ts';

interface OpenBlock {
  readonly kind: 'text' | 'thinking' | 'tool' | 'silent';
  /** Counts the calls of this answer; only for tools. */
  readonly call: number;
  /** Whether its input came whole with the block, or in pieces since. */
  input: 'none' | 'whole' | 'pieces';
  signature: string;
  /** Where its text begins in the text of the answer. */
  readonly start: number;
  readonly citations: Omit<Citation, 'range'>[];
}

/** Bedrock announces its calls only: of what else it says, the first words open the block. */
const blocksByDelta: ReadonlyMap<unknown, string> = new Map([
  ['text_delta', 'text'],
  ['thinking_delta', 'thinking'],
]);

export class BlockTeller {
  readonly #to: AnswerListener;
  readonly #open = new Map<unknown, OpenBlock>();
  #calls = 0;
  #textLength = 0;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** Answers the characters told; NaN when more blocks are open than any answer has. */
  open(index: unknown, block: Fields): number {
    this.close(index);
    if (this.#open.size >= openBlocksMax) return Number.NaN;
    this.#endThoughts();
    switch (block.type) {
      case 'text': {
        const { citations } = this.#enter(index, 'text');
        if (Array.isArray(block.citations)) for (const one of block.citations) cite(citations, one);
        return this.#tell('text', block.text);
      }
      case 'thinking':
        this.#enter(index, 'thinking').signature = textOf(block.signature);
        return this.#tell('reasoning', block.thinking);
      case 'redacted_thinking':
        this.#enter(index, 'silent');
        return this.#tell('redactedReasoning', block.data);
      case 'tool_use':
        return this.#tellCall(this.#enter(index, 'tool'), block);
      default:
        // Tools that the provider runs itself, and types that are new to us.
        this.#enter(index, 'silent');
        return 0;
    }
  }

  delta(index: unknown, delta: Fields): number {
    let block = this.#open.get(index);
    if (!block || endsUnsaid(block, delta)) {
      const type = blocksByDelta.get(delta.type);
      if (!type) return 0;
      const told = this.open(index, { type });
      block = this.#open.get(index);
      if (!block) return told;
    }
    switch (delta.type) {
      case 'text_delta':
        return block.kind === 'text' ? this.#tell('text', delta.text) : 0;
      case 'thinking_delta':
        return block.kind === 'thinking' ? this.#tell('reasoning', delta.thinking) : 0;
      case 'signature_delta':
        block.signature += textOf(delta.signature);
        return 0;
      case 'citations_delta':
        cite(block.citations, delta.citation);
        return 0;
      case 'input_json_delta':
        return block.kind === 'tool' ? this.#tellInput(block, textOf(delta.partial_json)) : 0;
      default:
        return 0;
    }
  }

  close(index: unknown): void {
    const block = this.#open.get(index);
    if (!block) return;
    this.#open.delete(index);
    if (block.kind === 'thinking' && block.signature !== '') {
      this.#to.reasoningSignature(markSignature('anthropic', block.signature));
    }
    if (block.kind === 'tool' && block.input === 'none') this.#to.toolArguments(block.call, '{}');
    const range = { start: block.start, end: this.#textLength };
    for (const citation of block.citations) this.#to.citation({ ...citation, range });
  }

  /** For an answer that leaves out the end of its last blocks. */
  closeAll(): void {
    for (const index of [...this.#open.keys()]) this.close(index);
  }

  /** A thought ends where something else begins, even if the upstream does not say so. */
  #endThoughts(): void {
    for (const [index, { kind }] of this.#open) if (kind === 'thinking') this.close(index);
  }

  #enter(index: unknown, kind: OpenBlock['kind']): OpenBlock {
    const block: OpenBlock = {
      kind,
      call: this.#calls,
      input: 'none',
      signature: '',
      start: this.#textLength,
      citations: [],
    };
    this.#open.set(index, block);
    return block;
  }

  #tell(how: 'text' | 'reasoning' | 'redactedReasoning', given: unknown): number {
    const words = textOf(given);
    if (words !== '') this.#to[how](words);
    if (how === 'text') this.#textLength += words.length;
    return words.length;
  }

  #tellCall(block: OpenBlock, { id, name, input }: Fields): number {
    this.#calls += 1;
    this.#to.toolCall(block.call, textOf(id) || newCallId('toolu'), textOf(name));
    const json = inputText(input);
    if (json !== '') {
      block.input = 'whole';
      this.#to.toolArguments(block.call, json);
    }
    return textOf(name).length + json.length;
  }

  /** Some proxies send the whole input at the start and then its pieces once more. */
  #tellInput(block: OpenBlock, json: string): number {
    if (json === '' || block.input === 'whole') return 0;
    block.input = 'pieces';
    this.#to.toolArguments(block.call, json);
    return json.length;
  }
}

/** Whether words follow a thought, or a thought words, although nobody ended the block. */
function endsUnsaid({ kind }: OpenBlock, { text, thinking }: Fields): boolean {
  if (kind === 'thinking') return textOf(text) !== '';
  return kind === 'text' && textOf(thinking) !== '';
}

/** Only sources with an address: the others are documents that the client sent itself. */
function cite(citations: Omit<Citation, 'range'>[], raw: unknown): void {
  if (!isObject(raw) || citations.length >= citationsMax) return;
  const url = textOf(raw.url) || textOf(raw.source);
  if (!/^https?:\/\//.test(url)) return;
  citations.push({ url, title: textOf(raw.title), quote: textOf(raw.cited_text) });
}
