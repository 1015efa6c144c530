/**
 * The blocks of an answer as clients can put them together: each begins once and ends once, holds
 * words of one kind, and they are numbered without a gap. That is how Anthropic sends them. Servers
 * that speak like it leave beginnings or ends out, number every block alike, or say words in the
 * middle of a call, and clients lose those words or fail at them.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import type { AnthropicEvent } from './block-order.ts';
import { inputText, toolInput } from './tool-input.ts';

/** What the deltas of a block bring, by its type. Of these a beginning can be made up. */
const wordsByBlock: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['thinking', ['thinking', 'signature']],
]);

/** The blocks that hold one kind of words, by the deltas that bring them. */
const kindsOfWords: ReadonlyMap<unknown, string> = new Map([
  ['text_delta', 'text'],
  ['citations_delta', 'text'],
  ['thinking_delta', 'thinking'],
  ['signature_delta', 'thinking'],
  ['input_json_delta', 'tool_use'],
]);

const ofOneKind: ReadonlySet<unknown> = new Set(kindsOfWords.values());

interface OpenBlock {
  readonly kind: unknown;
  /** Of a call, as its upstream wrote it. */
  readonly id: unknown;
  /** What the upstream numbers it, and what the client does. */
  readonly place: unknown;
  readonly number: number;
  /** Its beginning, until it is told: a text waits for its first word. */
  start: AnthropicEvent | undefined;
  /** All of a call's input came with its beginning; what follows says it once more. */
  readonly isComplete: boolean;
}

const none: readonly never[] = [];

export class SoundBlocks {
  #open: OpenBlock | undefined;
  #next = 0;
  /** Words that came in the middle of a call. */
  #beside: Fields[] = [];
  #besideLength = 0;

  /** Whether an event can be told as it came, as nearly all can; any other is to be mended. */
  passes({ fields }: AnthropicEvent): boolean {
    const open = this.#open;
    if (open === undefined || fields.type !== 'content_block_delta') return false;
    if (open.place !== fields.index || open.number !== fields.index) return false;
    if (open.start !== undefined || open.isComplete) return false;
    return isObject(fields.delta) && isOfKind(open.kind, fields.delta.type);
  }

  /** The events to tell in the place of this one. */
  mend(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { type, index, content_block: block, delta } = event.fields;
    if (type === 'content_block_start') return isObject(block) ? this.#start(event, block) : none;
    if (type === 'content_block_delta') return isObject(delta) ? this.#say(event, delta) : none;
    return this.#open?.place === index ? this.end(event) : none;
  }

  /** What is left to tell of the open block. Some servers leave its end out, which `own` is. */
  end(own?: AnthropicEvent): readonly AnthropicEvent[] {
    const open = this.#open;
    if (open === undefined) return none;
    this.#open = undefined;
    // A text without a word is none, and a request that brings it back is refused.
    const isEmpty = open.start !== undefined;
    if (isEmpty) this.#next = open.number;
    const isOwn = own !== undefined && own.fields.index === open.number;
    const stop = isOwn ? own : eventOf({ type: 'content_block_stop', index: open.number });
    return [...(isEmpty ? none : [stop]), ...this.#tellBeside(open.place)];
  }

  #start(event: AnthropicEvent, block: Fields): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const words = takeWords(block).map((delta) => deltaEvent(index, delta));
    // Some servers start a block again with every piece of it.
    if (this.#isOpen(index, block)) return words.flatMap((said) => this.mend(said));
    const { type: kind, id } = block;
    const isMended = completeBlock(block) || words.length > 0;
    const ended = this.end();
    const isComplete = kind === 'tool_use' && words.length > 0;
    const number = this.#next;
    this.#next += 1;
    const start =
      isMended || index !== number ? eventOf({ ...event.fields, index: number }) : event;
    this.#open = { kind, id, place: index, number, start, isComplete };
    const begun = kind === 'text' ? none : this.#began();
    return [...ended, ...begun, ...words.flatMap((said) => this.#tell(said))];
  }

  #isOpen(place: unknown, { type, id }: Fields): boolean {
    const open = this.#open;
    return open !== undefined && open.place === place && open.kind === type && open.id === id;
  }

  #say(event: AnthropicEvent, delta: Fields): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const open = this.#open;
    const isHere = open !== undefined && open.place === index;
    if (isHere && isOfKind(open.kind, delta.type)) {
      return open.isComplete ? none : this.#tell(event);
    }
    const type = kindsOfWords.get(delta.type);
    // A citation may come before all words of its text, or in the place of them.
    const isSaid = wordsIn(delta) !== '' || (!isHere && isObject(delta.citation));
    if (!wordsByBlock.has(type) || !isSaid) return none;
    if (isHere && open.kind === 'tool_use') return this.#keep(delta);
    // A block that nobody began, or in which words follow a thought, or a thought words.
    const start = eventOf({ type: 'content_block_start', index, content_block: { type } });
    return [...this.mend(start), ...this.#tell(event)];
  }

  #tell(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { index, delta } = event.fields;
    const open = this.#open;
    const isNothing = open?.start !== undefined && isObject(delta) && delta.text === '';
    if (open === undefined || isNothing) return none;
    const isOwn = open.number === index;
    const own = isOwn ? event : eventOf({ ...event.fields, index: open.number });
    return [...this.#began(), own];
  }

  #began(): readonly AnthropicEvent[] {
    const start = this.#open?.start;
    if (this.#open === undefined || start === undefined) return none;
    this.#open.start = undefined;
    return [start];
  }

  #keep(delta: Fields): readonly AnthropicEvent[] {
    this.#beside.push(delta);
    this.#besideLength += wordsIn(delta).length;
    // By then the call has ended, whatever its input looks like.
    return this.#besideLength > waitingArgumentsMax ? this.end() : none;
  }

  /** As blocks of their own. SGLang says the line ends between two calls there, no words. */
  #tellBeside(place: unknown): readonly AnthropicEvent[] {
    const beside = this.#beside;
    this.#beside = [];
    this.#besideLength = 0;
    if (beside.every((delta) => wordsIn(delta).trim() === '')) return none;
    const told = beside.flatMap((delta) => this.mend(deltaEvent(place, delta)));
    return [...told, ...this.end()];
  }
}

/** Blocks and deltas that nobody here has heard of are of any kind. */
function isOfKind(kind: unknown, deltaType: unknown): boolean {
  return !ofOneKind.has(kind) || (kindsOfWords.get(deltaType) ?? kind) === kind;
}

function wordsIn({ text, thinking }: Fields): string {
  return textOf(text) || textOf(thinking);
}

function eventOf(fields: Fields): AnthropicEvent {
  return { fields, data: JSON.stringify(fields) };
}

function deltaEvent(index: unknown, delta: Fields): AnthropicEvent {
  return eventOf({ type: 'content_block_delta', index, delta });
}

/**
 * Gives a block what Anthropic's own always has and some servers leave out, in place: the id and
 * the input of a call, and the words, to which clients add others unseen. True if something was
 * missing.
 */
export function completeBlock(block: Fields): boolean {
  const names = wordsByBlock.get(block.type) ?? [];
  const missing = names.filter((name) => typeof block[name] !== 'string');
  for (const name of missing) block[name] = '';
  if (block.type !== 'tool_use' || (isText(block.id) && isObject(block.input))) {
    return missing.length > 0;
  }
  if (!isText(block.id)) block.id = newCallId('toolu');
  if (!isObject(block.input)) block.input = toolInput(textOf(block.input));
  return true;
}

/** Takes out what a block begins with, as deltas: many clients read it only there. */
function takeWords(block: Fields): readonly Fields[] {
  if (block.type === 'tool_use') return takeInput(block);
  const names = wordsByBlock.get(block.type) ?? [];
  return names.flatMap((name) => {
    const words = block[name];
    if (!isText(words)) return [];
    block[name] = '';
    return [{ type: `${name}_delta`, [name]: words }];
  });
}

function takeInput(block: Fields): readonly Fields[] {
  const json = inputText(block.input);
  if (json === '') return none;
  block.input = {};
  return [{ type: 'input_json_delta', partial_json: json }];
}
