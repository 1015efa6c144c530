import { type AnthropicEvent, BlockOrder } from './block-order.ts';
import { SoundBlocks } from './sound-blocks.ts';

/** The events of an answer's blocks as a client can put them together: in order, and sound. */
export class BlockEvents {
  readonly #order = new BlockOrder();
  readonly #sound = new SoundBlocks();

  /** What can be told now that this event came. */
  take(event: AnthropicEvent): readonly AnthropicEvent[] {
    const now = this.#order.keeps(event) ? [] : this.#mend(event);
    const due = this.#order.due();
    return due.length === 0 ? now : [...now, ...due.flatMap((waited) => this.#mend(waited))];
  }

  /** All that waited for its turn, once the blocks are over. */
  rest(): readonly AnthropicEvent[] {
    return this.#order.due(true).flatMap((waited) => this.#mend(waited));
  }

  /** The end of the block that is open, where an answer leaves it out. */
  end(): readonly AnthropicEvent[] {
    return this.#sound.end();
  }

  #mend(event: AnthropicEvent): readonly AnthropicEvent[] {
    return this.#sound.passes(event) ? [event] : this.#sound.mend(event);
  }
}
