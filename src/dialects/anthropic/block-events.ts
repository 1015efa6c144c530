import { bufferedArgumentsMax } from '../../core/bounds.ts';
import {
  isNonEmptyString,
  isObject,
  type JsonObject,
  lengthOf,
  objectsIn,
  textOf,
} from '../../core/json.ts';
import type { SseMessage } from '../dialect.ts';
import { newCallId } from '../normalize/responses/identity.ts';
import { inputText, toolInput } from '../normalize/responses/tool-arguments.ts';

/** Orders and normalizes block events, so that each block ends before the next one starts. */
export class BlockEvents {
  readonly #order = new BlockOrder();
  readonly #normalizer = new BlockNormalizer();

  /** Returns the events that can be sent now that this event has arrived. */
  take(event: AnthropicEvent): readonly AnthropicEvent[] {
    const now = this.#order.defers(event) ? [] : this.#normalize(event);
    const due = this.#order.due();
    return due.length === 0 ? now : [...now, ...due.flatMap((queued) => this.#normalize(queued))];
  }

  /** Returns the events that are still queued. Called when no more blocks follow. */
  flush(): readonly AnthropicEvent[] {
    return this.#order.due(true).flatMap((queued) => this.#normalize(queued));
  }

  /** Returns the stop event of the block that is still open, if the upstream omitted it. */
  end(): readonly AnthropicEvent[] {
    return this.#normalizer.end();
  }

  #normalize(event: AnthropicEvent): readonly AnthropicEvent[] {
    return this.#normalizer.passes(event) ? [event] : this.#normalizer.normalize(event);
  }
}

// Puts the events of an answer's blocks in order, one block after another, as Anthropic sends them.
// Some servers interleave the events of several blocks. In that case, the later blocks wait until
// the first block ends. Otherwise, clients would mix up the blocks' text or end a block where the
// next one starts.

export interface AnthropicEvent {
  readonly fields: Record<string, unknown>;
  /** The JSON text that `fields` was read from. */
  readonly data: string;
}

/**
 * Some servers omit a block's stop event. After this many events from other blocks, the block
 * counts as ended.
 */
const idleEventsMax = 16;

export class BlockOrder {
  /** The index of the block that is being sent. */
  #current: unknown;
  /** The number of events from other blocks since the current block's last event. */
  #idleEvents = 0;
  readonly #waiting = new Map<unknown, AnthropicEvent[]>();
  #waitingLength = 0;

  /** Returns true if the event has to wait. In that case, `due` returns it later. */
  defers(event: AnthropicEvent): boolean {
    const { type, index } = event.fields;
    if (this.#current === undefined || this.#current === index) {
      this.#current = type === 'content_block_stop' ? undefined : index;
      this.#idleEvents = 0;
      return false;
    }
    const queue = this.#waiting.get(index);
    if (queue === undefined) this.#waiting.set(index, [event]);
    else queue.push(event);
    this.#waitingLength += event.data.length;
    this.#idleEvents += 1;
    return true;
  }

  /**
   * Returns the events that no longer have to wait. At the end of an answer, none of them have to
   * wait.
   */
  due(isEnd = false): readonly AnthropicEvent[] {
    if (this.#waiting.size === 0) return none;
    const isLong = this.#waitingLength > bufferedArgumentsMax;
    const isAll = isEnd || isLong || this.#idleEvents >= idleEventsMax;
    if (!isAll && this.#current !== undefined) return none;
    const due: AnthropicEvent[] = [];
    for (const [index, events] of this.#waiting) {
      this.#waiting.delete(index);
      for (const event of events) {
        due.push(event);
        this.#waitingLength -= event.data.length;
      }
      const isOver = events.at(-1)?.fields.type === 'content_block_stop';
      this.#current = isOver ? undefined : index;
      this.#idleEvents = 0;
      if (!isOver && !isAll) break;
    }
    return due;
  }
}

// Makes each block start once, stop once, and contain deltas of only one type, and numbers the
// blocks without gaps. Anthropic sends blocks like this. Other servers of this dialect omit start
// or stop events, reuse an index, or put text in the middle of a tool call. Clients then fail or
// lose text.

/**
 * The fields that deltas append to, by block type. A missing start event is added only for these
 * types.
 */
const textFieldsByBlock: ReadonlyMap<unknown, readonly string[]> = new Map([
  ['text', ['text']],
  ['thinking', ['thinking', 'signature']],
]);

/** The block type that each delta type belongs to. */
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
  /** The ID of a tool call as the upstream wrote it. */
  readonly id: unknown;
  /**
   * The block's index in the upstream's events. `number` is its index in the events sent to the
   * client.
   */
  readonly upstreamIndex: unknown;
  readonly number: number;
  /** The start event, until it is sent. The start of a text block is sent with its first text. */
  start: AnthropicEvent | undefined;
  /** True if the start event contained the call's full input. Deltas that follow only repeat it. */
  readonly isComplete: boolean;
}

const none: readonly never[] = [];

export class BlockNormalizer {
  #open: OpenBlock | undefined;
  #next = 0;
  /** Text and reasoning deltas that arrived in the middle of a call. */
  #interleaved: JsonObject[] = [];
  #interleavedLength = 0;

  /** Returns true if the event can be sent unchanged. Nearly all events can. */
  passes({ fields }: AnthropicEvent): boolean {
    const open = this.#open;
    if (open === undefined || fields.type !== 'content_block_delta') return false;
    if (open.upstreamIndex !== fields.index || open.number !== fields.index) return false;
    if (open.start !== undefined || open.isComplete) return false;
    return isObject(fields.delta) && isOfKind(open.kind, fields.delta.type);
  }

  /** Returns the events to send instead of this event. */
  normalize(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { type, index, content_block: block, delta } = event.fields;
    if (type === 'content_block_start') return isObject(block) ? this.#start(event, block) : none;
    if (type === 'content_block_delta')
      return isObject(delta) ? this.#normalizeDelta(event, delta) : none;
    return this.#open?.upstreamIndex === index ? this.end(event) : none;
  }

  /** Ends the open block. `stopEvent` is the upstream's stop event, which some servers omit. */
  end(stopEvent?: AnthropicEvent): readonly AnthropicEvent[] {
    const open = this.#open;
    if (open === undefined) return none;
    this.#open = undefined;
    // Drop an empty text block, because a request that sends it back would be rejected.
    const isEmpty = open.start !== undefined;
    if (isEmpty) this.#next = open.number;
    const isUsable = stopEvent?.fields.index === open.number;
    const stop = isUsable ? stopEvent : eventOf({ type: 'content_block_stop', index: open.number });
    return [...(isEmpty ? none : [stop]), ...this.#emitInterleaved(open.upstreamIndex)];
  }

  #start(event: AnthropicEvent, block: JsonObject): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const deltas = extractDeltas(block).map((delta) => deltaEvent(index, delta));
    // Some servers repeat the start event of a block with every delta.
    if (this.#isOpen(index, block)) return deltas.flatMap((delta) => this.normalize(delta));
    const { type: kind, id } = block;
    const isChanged = completeBlock(block) || deltas.length > 0;
    const ended = this.end();
    const isComplete = kind === 'tool_use' && deltas.length > 0;
    const number = this.#next;
    this.#next += 1;
    const start =
      isChanged || index !== number ? eventOf({ ...event.fields, index: number }) : event;
    this.#open = { kind, id, upstreamIndex: index, number, start, isComplete };
    const started = kind === 'text' ? none : this.#takeStart();
    return [...ended, ...started, ...deltas.flatMap((delta) => this.#emit(delta))];
  }

  #isOpen(upstreamIndex: unknown, { type, id }: JsonObject): boolean {
    const open = this.#open;
    return (
      open !== undefined &&
      open.upstreamIndex === upstreamIndex &&
      open.kind === type &&
      open.id === id
    );
  }

  #normalizeDelta(event: AnthropicEvent, delta: JsonObject): readonly AnthropicEvent[] {
    const { index } = event.fields;
    const open = this.#open;
    const isCurrent = open !== undefined && open.upstreamIndex === index;
    if (isCurrent && isOfKind(open.kind, delta.type)) {
      return open.isComplete ? none : this.#emit(event);
    }
    const type = blockTypeByDelta.get(delta.type);
    // A citation may precede its text, or have no text.
    const hasContent = textOfDelta(delta) !== '' || (!isCurrent && isObject(delta.citation));
    if (!textFieldsByBlock.has(type) || !hasContent) return none;
    if (isCurrent && open.kind === 'tool_use') return this.#interleave(delta);
    // The block wasn't started, or changes between text and reasoning, so start a new block.
    const start = eventOf({ type: 'content_block_start', index, content_block: { type } });
    return [...this.normalize(start), ...this.#emit(event)];
  }

  #emit(event: AnthropicEvent): readonly AnthropicEvent[] {
    const { index, delta } = event.fields;
    const open = this.#open;
    const isEmptyText = open?.start !== undefined && isObject(delta) && delta.text === '';
    if (open === undefined || isEmptyText) return none;
    const hasSameIndex = open.number === index;
    const renumbered = hasSameIndex ? event : eventOf({ ...event.fields, index: open.number });
    return [...this.#takeStart(), renumbered];
  }

  #takeStart(): readonly AnthropicEvent[] {
    const start = this.#open?.start;
    if (this.#open === undefined || start === undefined) return none;
    this.#open.start = undefined;
    return [start];
  }

  #interleave(delta: JsonObject): readonly AnthropicEvent[] {
    this.#interleaved.push(delta);
    this.#interleavedLength += textOfDelta(delta).length;
    // Limit the buffer by ending the call, even if the call's input is incomplete.
    return this.#interleavedLength > bufferedArgumentsMax ? this.end() : none;
  }

  /**
   * Emits the text that arrived inside a call, in new blocks. Drops the text if it is only white
   * space, such as the line breaks that SGLang sends.
   */
  #emitInterleaved(upstreamIndex: unknown): readonly AnthropicEvent[] {
    const interleaved = this.#interleaved;
    this.#interleaved = [];
    this.#interleavedLength = 0;
    if (interleaved.every((delta) => textOfDelta(delta).trim() === '')) return none;
    const events = interleaved.flatMap((delta) => this.normalize(deltaEvent(upstreamIndex, delta)));
    return [...events, ...this.end()];
  }
}

/** Returns true if a delta's type matches the block's type. Unknown types always match. */
function isOfKind(kind: unknown, deltaType: unknown): boolean {
  return !deltaBlockTypes.has(kind) || (blockTypeByDelta.get(deltaType) ?? kind) === kind;
}

function textOfDelta({ text, thinking }: JsonObject): string {
  return textOf(text) || textOf(thinking);
}

function eventOf(fields: JsonObject): AnthropicEvent {
  return { fields, data: JSON.stringify(fields) };
}

function deltaEvent(index: unknown, delta: JsonObject): AnthropicEvent {
  return eventOf({ type: 'content_block_delta', index, delta });
}

/**
 * Adds to a block what some servers omit: the ID and input of a tool call, and the empty text that
 * clients append to without checking. Changes the block itself. Returns true if anything was
 * missing.
 */
export function completeBlock(block: JsonObject): boolean {
  const names = textFieldsByBlock.get(block.type) ?? [];
  const missing = names.filter((name) => typeof block[name] !== 'string');
  for (const name of missing) block[name] = '';
  if (block.type !== 'tool_use' || (isNonEmptyString(block.id) && isObject(block.input))) {
    return missing.length > 0;
  }
  if (!isNonEmptyString(block.id)) block.id = newCallId('toolu');
  if (!isObject(block.input)) block.input = toolInput(textOf(block.input));
  return true;
}

/** Moves the text in a start event into deltas, because many clients read text only from deltas. */
function extractDeltas(block: JsonObject): readonly JsonObject[] {
  if (block.type === 'tool_use') return extractInput(block);
  const names = textFieldsByBlock.get(block.type) ?? [];
  return names.flatMap((name) => {
    const text = block[name];
    if (!isNonEmptyString(text)) return [];
    block[name] = '';
    return [{ type: `${name}_delta`, [name]: text }];
  });
}

function extractInput(block: JsonObject): readonly JsonObject[] {
  const json = inputText(block.input);
  if (json === '') return none;
  block.input = {};
  return [{ type: 'input_json_delta', partial_json: json }];
}

/**
 * Returns the content of a `message_start` as the separate events in which it usually arrives. When
 * Anthropic's code execution continues and calls tools, `message_start` has the full content, and
 * only `message_stop` follows.
 */
export function openingEvents({
  content,
  stop_reason,
  stop_sequence = null,
  usage,
}: JsonObject): readonly SseMessage[] {
  // Some servers include the first block here while it is still empty, and send it again later.
  const blocks = objectsIn(content).filter((block) => charactersOfBlock(block) > 0);
  const events = blocks.flatMap((content_block, index) => [
    sseMessage({ type: 'content_block_start', index, content_block }),
    sseMessage({ type: 'content_block_stop', index }),
  ]);
  if (typeof stop_reason !== 'string') return events;
  const delta = { stop_reason, stop_sequence };
  return [...events, sseMessage({ type: 'message_delta', delta, usage })];
}

function sseMessage(fields: Readonly<JsonObject> & { readonly type: string }): SseMessage {
  return { event: fields.type, data: JSON.stringify(fields) };
}

// Counts the characters that a client receives. The usage of interrupted answers is estimated from
// this count.

/** Counts the characters of a complete block, or of a start event. */
export function charactersOfBlock(block: JsonObject): number {
  const { type, text, thinking, data, name, input } = block;
  if (type === 'text') return lengthOf(text);
  if (type === 'thinking') return lengthOf(thinking);
  if (type === 'redacted_thinking') return lengthOf(data);
  // The model also writes the input of the provider's own tools.
  const inputJson = isObject(input) && Object.keys(input).length > 0 ? JSON.stringify(input) : '';
  return lengthOf(name) + inputJson.length;
}

export function charactersOfDelta(delta: unknown): number {
  if (!isObject(delta)) return 0;
  const { text, thinking, partial_json: json } = delta;
  return lengthOf(text) + lengthOf(thinking) + lengthOf(json);
}
