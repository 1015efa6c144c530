/**
 * Puts the events of an answer's blocks in order, one block after the other, as Anthropic sends
 * them. Some servers mix the pieces of several blocks: then the later blocks wait until the first
 * is over. Otherwise clients would mix up their words, or end a block where the next one begins.
 */
import { waitingArgumentsMax } from '../../core/bounds.ts';

export interface AnthropicEvent {
  readonly fields: Record<string, unknown>;
  /** The JSON text that `fields` was read from. */
  readonly data: string;
}

/** Some servers leave out the end of a block: after this many events of others it has ended. */
const silentEventsMax = 16;

const none: readonly never[] = [];

export class BlockOrder {
  /** The number of the block that is being told. */
  #current: unknown;
  /** Events of other blocks since the last one of the current block. */
  #silence = 0;
  readonly #waiting = new Map<unknown, AnthropicEvent[]>();
  #waitingLength = 0;

  /** Whether this event has to wait for its turn; then it is kept for `due`. */
  keeps(event: AnthropicEvent): boolean {
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
    if (this.#waiting.size === 0) return none;
    const isLong = this.#waitingLength > waitingArgumentsMax;
    const isAll = isEnd || isLong || this.#silence >= silentEventsMax;
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
      this.#silence = 0;
      if (!isOver && !isAll) break;
    }
    return due;
  }
}
