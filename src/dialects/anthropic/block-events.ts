import { bufferedArgumentsMax } from '../../core/bounds.ts';
import { type Fields, isObject, isText, lengthOf, objectsIn, textOf } from '../../core/json.ts';
import type { SseMessage } from '../dialect.ts';
import { newCallId } from '../normalize/responses/identity.ts';
import { inputText, toolInput } from './tool-input.ts';

/** The events of an answer's blocks, one block after the other and mended for the client. */
export class BlockEvents {
  readonly #order = new BlockOrder();
  readonly #normalizer = new BlockNormalizer();

  /** The events that can be told now that this one came. */
  take(event: AnthropicEvent): readonly AnthropicEvent[] {
    const now = this.#order.defers(event) ? [] : this.#normalize(event);
    const due = this.#order.due();
    return due.length === 0 ? now : [...now, ...due.flatMap((queued) => this.#normalize(queued))];
  }

  /** The events that still wait for their turn; asked for when no more blocks follow. */
  flush(): readonly AnthropicEvent[] {
    return this.#order.due(true).flatMap((queued) => this.#normalize(queued));
  }

  /** The end of the block that is still open, for an answer that left this end out. */
  end(): readonly AnthropicEvent[] {
    return this.#normalizer.end();
  }

  #normalize(event: AnthropicEvent): readonly AnthropicEvent[] {
    return this.#normalizer.passes(event) ? [event] : this.#normalizer.normalize(event);
  }
}

/**
 * Puts the events of an answer's blocks in order, one block after the other, as Anthropic sends
 * them. Some servers mix the pieces of several blocks: then the later blocks wait until the first
 * is over. Otherwise clients would mix up their words, or end a block where the next one begins.
 */

export interface AnthropicEvent {
  readonly fields: Record<string, unknown>;
  /** The JSON text that `fields` was read from. */
  readonly data: string;
}

/** Some servers leave out the end of a block: after this many events of others it has ended. */
const silentEventsMax = 16;

const noEvents: readonly never[] = [];

export class BlockOrder {
  /** The number of the block that is being told. */
  #current: unknown;
  /** Events of other blocks since the last one of the current block. */
  #silence = 0;
  readonly #waiting = new Map<unknown, AnthropicEvent[]>();
  #waitingLength = 0;

  /** Whether this event has to wait for its turn; then it is kept for `due`. */
  defers(event: AnthropicEvent): boolean {
    const { type, index } = event.fields;
    if (this.#current === undefined || this.#current === index) {
      this.#current = type === 'content_block_stop' ? undefined : index;
      this.#silence = 0;
      return false;
    }
    const before = this.#waiting.get(index);
    if (before === undefined) this.#waiting.set(index, [event]);
    else before.push(event);
    this.#waitingLength += event.data.length;
    this.#silence += 1;
    return true;
  }

  /** The events whose turn has come; at the end of an answer, all that wait. */
  due(isEnd = false): readonly AnthropicEvent[] {
    if (this.#waiting.size === 0) return noEvents;
    const isLong = this.#waitingLength > bufferedArgumentsMax;
    const isAll = isEnd || isLong || this.#silence >= silentEventsMax;
    if (!isAll && this.#current !== undefined) return noEvents;
    const due: AnthropicEvent[] = [];
    for (const [index, events] of this.#waiting) {
      this.#waiting.delete(index);
      for (const event of events) {
        due.push(event);
        this.#waitingLength -= event.data.length;
      }
      const isOver = events.at(-1)?.fields.type === 'content_block_stop';
      this.#current = isOver ? undefined : index;
      this.#silence = 0;
      if (!isOver && !isAll) break;
    }
    return due;
  }
}

/**
 * The blocks of an answer as clients expect them: each begins once, ends once and holds words of
 * one kind, and the numbers have no gap. Anthropic sends them so. Other servers of this dialect
 * leave out beginnings or ends, number every block alike, or put words in the middle of a call;
 * clients would lose such words or fail.
 */

/** The fields that deltas add to, by the type of block. Only these blocks can be begun by us. */
const textFieldsByBlock: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['thinking', ['thinking', 'signature']],
]);

/** The type of block that each type of delta belongs to. */
const blockTypeByDelta: ReadonlyMap<unknown, string> = new Map([
  ['text_delta', 'text'],
  ['citations_delta', 'text'],
  ['thinking_delta', 'thinking'],
  ['signature_delta', 'thinking'],
  ['input_json_delta', 'tool_use'],
]);

const deltaBlockTypes: ReadonlySet<unknown> = new Set(blockTypeByDelta.values());

interface OpenBlock {
  readonly kind: unknown;
  /** The id of a call as the upstream wrote it. */
  readonly id: unknown;
  /** The block's number at the upstream, and below it the one that the client gets. */
  readonly upstreamIndex: unknown;
  readonly number: number;
  /** The start event until it is told: a text block is not begun before its first word. */
  start: AnthropicEvent | undefined;
  /** The start event had all of the call's input; deltas that follow only repeat it. */
  readonly isComplete: boolean;
}

const none: readonly never[] = [];

export class BlockNormalizer {
  #open: OpenBlock | undefined;
  #next = 0;
  /** Words that came in the middle of a call. */
  #interleaved: Fields[] = [];
  #interleavedLength = 0;

  /** Whether an event can be told as it came, as nearly all can; any other goes to `mend`. */
  passes({ fields }: AnthropicEvent): boolean {
    const open = this.#open;
    if (open === undefined || fields.type !== 'content_block_delta') return false;
    if (open.upstreamIndex !== fields.index || open.number !== fields.index) return false;
    if (open.start !== undefined || open.isComplete) return false;
    return isObject(fields.delta) && isOfKind(open.kind, fields.delta.type);
  }

  /** The events to tell in the place of this one. */
  normalize(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { type, index, content_block: block, delta } = event.fields;
    if (type === 'content_block_start') return isObject(block) ? this.#start(event, block) : none;
    if (type === 'content_block_delta')
      return isObject(delta) ? this.#normalizeDelta(event, delta) : none;
    return this.#open?.upstreamIndex === index ? this.end(event) : none;
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
    return [...(isEmpty ? none : [stop]), ...this.#emitInterleaved(open.upstreamIndex)];
  }

  #start(event: AnthropicEvent, block: Fields): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const deltas = extractDeltas(block).map((delta) => deltaEvent(index, delta));
    // Some servers repeat the start event of a block with every piece.
    if (this.#isOpen(index, block)) return deltas.flatMap((piece) => this.normalize(piece));
    const { type: kind, id } = block;
    const isChanged = completeBlock(block) || deltas.length > 0;
    const ended = this.end();
    const isComplete = kind === 'tool_use' && deltas.length > 0;
    const number = this.#next;
    this.#next += 1;
    const start =
      isChanged || index !== number ? eventOf({ ...event.fields, index: number }) : event;
    this.#open = { kind, id, upstreamIndex: index, number, start, isComplete };
    const begun = kind === 'text' ? none : this.#takeStart();
    return [...ended, ...begun, ...deltas.flatMap((piece) => this.#emit(piece))];
  }

  #isOpen(upstreamIndex: unknown, { type, id }: Fields): boolean {
    const open = this.#open;
    return (
      open !== undefined &&
      open.upstreamIndex === upstreamIndex &&
      open.kind === type &&
      open.id === id
    );
  }

  #normalizeDelta(event: AnthropicEvent, delta: Fields): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const open = this.#open;
    const isCurrent = open !== undefined && open.upstreamIndex === index;
    if (isCurrent && isOfKind(open.kind, delta.type)) {
      return open.isComplete ? none : this.#emit(event);
    }
    const type = blockTypeByDelta.get(delta.type);
    // A citation may come before the first word of its text, or without any words.
    const hasContent = textOfDelta(delta) !== '' || (!isCurrent && isObject(delta.citation));
    if (!textFieldsByBlock.has(type) || !hasContent) return none;
    if (isCurrent && open.kind === 'tool_use') return this.#interleave(delta);
    // The block was never begun, or its words change between text and thought: begin a new one.
    const start = eventOf({ type: 'content_block_start', index, content_block: { type } });
    return [...this.normalize(start), ...this.#emit(event)];
  }

  #emit(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { index, delta } = event.fields;
    const open = this.#open;
    const isEmptyText = open?.start !== undefined && isObject(delta) && delta.text === '';
    if (open === undefined || isEmptyText) return none;
    const isOwn = open.number === index;
    const own = isOwn ? event : eventOf({ ...event.fields, index: open.number });
    return [...this.#takeStart(), own];
  }

  #takeStart(): readonly AnthropicEvent[] {
    const start = this.#open?.start;
    if (this.#open === undefined || start === undefined) return none;
    this.#open.start = undefined;
    return [start];
  }

  #interleave(delta: Fields): readonly AnthropicEvent[] {
    this.#interleaved.push(delta);
    this.#interleavedLength += textOfDelta(delta).length;
    // With this many words inside it, the call counts as over, even if its input is incomplete.
    return this.#interleavedLength > bufferedArgumentsMax ? this.end() : none;
  }

  /** Tells words from inside a call in new blocks; but not mere line breaks, as SGLang sends. */
  #emitInterleaved(upstreamIndex: unknown): readonly AnthropicEvent[] {
    const interleaved = this.#interleaved;
    this.#interleaved = [];
    this.#interleavedLength = 0;
    if (interleaved.every((delta) => textOfDelta(delta).trim() === '')) return none;
    const events = interleaved.flatMap((delta) => this.normalize(deltaEvent(upstreamIndex, delta)));
    return [...events, ...this.end()];
  }
}

/** Whether a delta fits a block; unknown types of blocks and deltas always fit. */
function isOfKind(kind: unknown, deltaType: unknown): boolean {
  return !deltaBlockTypes.has(kind) || (blockTypeByDelta.get(deltaType) ?? kind) === kind;
}

function textOfDelta({ text, thinking }: Fields): string {
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
  const names = textFieldsByBlock.get(block.type) ?? [];
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
function extractDeltas(block: Fields): readonly Fields[] {
  if (block.type === 'tool_use') return extractInput(block);
  const names = textFieldsByBlock.get(block.type) ?? [];
  return names.flatMap((name) => {
    const text = block[name];
    if (!isText(text)) return [];
    block[name] = '';
    return [{ type: `${name}_delta`, [name]: text }];
  });
}

function extractInput(block: Fields): readonly Fields[] {
  const json = inputText(block.input);
  if (json === '') return none;
  block.input = {};
  return [{ type: 'input_json_delta', partial_json: json }];
}

/**
 * The content of a `message_start`, as the events that usually tell it. When a program that runs
 * at Anthropic continues and calls tools, all content is there and only the last event follows.
 */
export function openingEvents({
  content,
  stop_reason,
  stop_sequence = null,
  usage,
}: Fields): readonly SseMessage[] {
  // Some servers put the first block here while it is still empty, and tell it again later.
  const blocks = objectsIn(content).filter((block) => charactersOfBlock(block) > 0);
  const events = blocks.flatMap((content_block, index) => [
    sseMessage({ type: 'content_block_start', index, content_block }),
    sseMessage({ type: 'content_block_stop', index }),
  ]);
  if (typeof stop_reason !== 'string') return events;
  const delta = { stop_reason, stop_sequence };
  return [...events, sseMessage({ type: 'message_delta', delta, usage })];
}

function sseMessage(fields: Readonly<Fields> & { readonly type: string }): SseMessage {
  return { event: fields.type, data: JSON.stringify(fields) };
}

/** How many characters a client receives: an answer that is cut off is billed by these. */

/** The characters of a block, either whole or as it starts in a stream. */
export function charactersOfBlock(block: Fields): number {
  const { type, text, thinking, data, name, input } = block;
  if (type === 'text') return lengthOf(text);
  if (type === 'thinking') return lengthOf(thinking);
  if (type === 'redacted_thinking') return lengthOf(data);
  // The model writes the input of the provider's own tools, too.
  const inputJson = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : '';
  return lengthOf(name) + inputJson.length;
}

export function charactersOfDelta(delta: unknown): number {
  if (!isObject(delta)) return 0;
  const { text, thinking, partial_json: json } = delta;
  return lengthOf(text) + lengthOf(thinking) + lengthOf(json);
}
