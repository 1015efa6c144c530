/**
 * The blocks of an answer as clients expect them: each begins once, ends once and holds words of
 * one kind, and the numbers have no gap. Anthropic sends them so. Other servers of this dialect
 * leave out beginnings or ends, number every block alike, or put words in the middle of a call;
 * clients would lose such words or fail.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText, textOf } from '../../core/json.ts';
import { newCallId } from '../answer/answer-ids.ts';
import type { AnthropicEvent } from './block-order.ts';
import { inputText, toolInput } from './tool-input.ts';

/** The fields that deltas add to, by the type of block. Only these blocks can be begun by us. */
const wordsByBlock: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['thinking', ['thinking', 'signature']],
]);

/** The type of block that each type of delta belongs to. */
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
  /** The id of a call as the upstream wrote it. */
  readonly id: unknown;
  /** The block's number at the upstream, and below it the one that the client gets. */
  readonly place: unknown;
  readonly number: number;
  /** The start event until it is told: a text block is not begun before its first word. */
  start: AnthropicEvent | undefined;
  /** The start event had all of the call's input; deltas that follow only repeat it. */
  readonly isComplete: boolean;
}

const none: readonly never[] = [];

export class SoundBlocks {
  #open: OpenBlock | undefined;
  #next = 0;
  /** Words that came in the middle of a call. */
  #beside: Fields[] = [];
  #besideLength = 0;

  /** Whether an event can be told as it came, as nearly all can; any other goes to `mend`. */
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

  /** Ends the open block. `own` is the upstream's stop event, which some servers leave out. */
  end(own?: AnthropicEvent): readonly AnthropicEvent[] {
    const open = this.#open;
    if (open === undefined) return none;
    this.#open = undefined;
    // An empty text block is not told: a request that sent it back would be refused.
    const isEmpty = open.start !== undefined;
    if (isEmpty) this.#next = open.number;
    const isOwn = own !== undefined && own.fields.index === open.number;
    const stop = isOwn ? own : eventOf({ type: 'content_block_stop', index: open.number });
    return [...(isEmpty ? none : [stop]), ...this.#tellBeside(open.place)];
  }

  #start(event: AnthropicEvent, block: Fields): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const words = takeWords(block).map((delta) => deltaEvent(index, delta));
    // Some servers repeat the start event of a block with every piece.
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
    // A citation may come before the first word of its text, or without any words.
    const isSaid = wordsIn(delta) !== '' || (!isHere && isObject(delta.citation));
    if (!wordsByBlock.has(type) || !isSaid) return none;
    if (isHere && open.kind === 'tool_use') return this.#keep(delta);
    // The block was never begun, or its words change between text and thought: begin a new one.
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
    // With this many words inside it, the call counts as over, even if its input is incomplete.
    return this.#besideLength > waitingArgumentsMax ? this.end() : none;
  }

  /** Tells words from inside a call in new blocks; but not mere line breaks, as SGLang sends. */
  #tellBeside(place: unknown): readonly AnthropicEvent[] {
    const beside = this.#beside;
    this.#beside = [];
    this.#besideLength = 0;
    if (beside.every((delta) => wordsIn(delta).trim() === '')) return none;
    const told = beside.flatMap((delta) => this.mend(deltaEvent(place, delta)));
    return [...told, ...this.end()];
  }
}

/** Whether a delta fits a block; unknown types of blocks and deltas always fit. */
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
 * Adds, in place, what some servers leave out of a block: the id and the input of a call, and the
 * empty text that clients append to without checking. Returns whether anything was missing.
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

/** Moves the words in a start event into deltas: many clients read words only there. */
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
