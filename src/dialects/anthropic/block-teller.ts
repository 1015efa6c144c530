/**
 * Tells the blocks of an answer in our words, whether the answer is whole or a stream. The events
 * of a stream are mended first, see block-events.ts. Bedrock's blocks come here as Anthropic's.
 */
import type { AnswerListener, Citation } from '../../core/answer.ts';
import { citationsMax } from '../../core/bounds.ts';
import { type Fields, fieldsOf, isObject, itemsOf, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import { pointsIn } from '../answer/points.ts';
import { markSignature } from '../signature.ts';
import { BlockEvents } from './block-events.ts';
import type { AnthropicEvent } from './block-order.ts';
import { inputText } from './tool-input.ts';

interface OpenBlock {
  /** The number of the block's tool call, as long as no input of that call has come. */
  callWithoutInput: number | undefined;
  signature: string;
  /** Where the block's text begins in the text of the whole answer. */
  readonly start: number;
  readonly citations: Omit<Citation, 'range'>[];
}

export class BlockTeller {
  readonly #to: AnswerListener;
  readonly #events = new BlockEvents();
  /** Undefined between blocks, and in a block of which nothing more can be told. */
  #open: OpenBlock | undefined;
  #calls = 0;
  #textLength = 0;

  constructor(to: AnswerListener) {
    this.#to = to;
  }

  get hasCalls(): boolean {
    return this.#calls > 0;
  }

  /** Returns how many characters were told, as `rest` and `end` do. */
  take(event: AnthropicEvent): number {
    return this.#tellAll(this.#events.take(event));
  }

  /** Tells the events that still wait for their turn; called when no more blocks follow. */
  rest(): number {
    return this.#tellAll(this.#events.rest());
  }

  /** Does what `rest` does, and ends the last block where the answer did not. */
  end(): number {
    return this.rest() + this.#tellAll(this.#events.end());
  }

  /** A block of a whole answer. */
  tellWhole(block: Fields): void {
    this.#begin(block);
    this.#end();
  }

  #tellAll(events: readonly AnthropicEvent[]): number {
    let told = 0;
    for (const { fields } of events) {
      if (fields.type === 'content_block_start')
        told += this.#begin(fieldsOf(fields.content_block));
      else if (fields.type === 'content_block_stop') this.#end();
      else if (this.#open) told += this.#add(this.#open, fieldsOf(fields.delta));
    }
    return told;
  }

  #begin(block: Fields): number {
    const { signature, citations } = block;
    const open: OpenBlock = {
      callWithoutInput: undefined,
      signature: '',
      start: this.#textLength,
      citations: [],
    };
    this.#open = open;
    switch (block.type) {
      case 'text':
        for (const one of itemsOf(citations)) cite(open, one);
        return this.#tell('text', block.text);
      case 'thinking':
        open.signature = textOf(signature);
        return this.#tell('reasoning', block.thinking);
      case 'tool_use':
        return this.#tellCall(open, block);
      default:
        this.#open = undefined;
        // Blocks of other types are about the provider's own tools, or are unknown to us.
        return block.type === 'redacted_thinking' ? this.#tell('redactedReasoning', block.data) : 0;
    }
  }

  #add(open: OpenBlock, delta: Fields): number {
    const { type } = delta;
    if (type === 'text_delta') return this.#tell('text', delta.text);
    if (type === 'thinking_delta') return this.#tell('reasoning', delta.thinking);
    if (type === 'input_json_delta') return this.#tellInput(open, textOf(delta.partial_json));
    if (type === 'signature_delta') open.signature += textOf(delta.signature);
    else if (type === 'citations_delta') cite(open, delta.citation);
    return 0;
  }

  #end(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    const { signature, citations, start, callWithoutInput } = open;
    if (signature !== '') this.#to.reasoningSignature(markSignature('anthropic', signature));
    if (callWithoutInput !== undefined) this.#to.toolArguments(callWithoutInput, '{}');
    const range = { start, end: this.#textLength };
    for (const citation of citations) this.#to.citation({ ...citation, range });
  }

  #tell(how: 'text' | 'reasoning' | 'redactedReasoning', given: unknown): number {
    const words = textOf(given);
    if (words !== '') this.#to[how](words);
    if (how === 'text') this.#textLength += pointsIn(words);
    return words.length;
  }

  #tellCall(open: OpenBlock, { id, name, input }: Fields): number {
    open.callWithoutInput = this.#calls;
    this.#to.toolCall(this.#calls, textOf(id) || newCallId('toolu'), textOf(name));
    this.#calls += 1;
    return textOf(name).length + this.#tellInput(open, inputText(input));
  }

  /** Tells a piece of the input of the call that began last. */
  #tellInput(open: OpenBlock, json: string): number {
    if (json === '') return 0;
    open.callWithoutInput = undefined;
    this.#to.toolArguments(this.#calls - 1, json);
    return json.length;
  }
}

/** Keeps only sources with a web address: the others are documents that the client itself sent. */
function cite({ citations }: OpenBlock, raw: unknown): void {
  if (!isObject(raw) || citations.length >= citationsMax) return;
  const url = textOf(raw.url) || textOf(raw.source);
  if (!/^https?:\/\//.test(url)) return;
  citations.push({ url, title: textOf(raw.title), quote: textOf(raw.cited_text) });
}
