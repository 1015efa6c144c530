import { type AnthropicEvent, BlockOrder } from './block-order.ts';
import { SoundBlocks } from './sound-blocks.ts';

/** The events of an answer's blocks, one block after the other and mended for the client. */
export class BlockEvents {
  readonly #order = new BlockOrder();
  readonly #sound = new SoundBlocks();

  /** The events that can be told now that this one came. */
  take(event: AnthropicEvent): readonly AnthropicEvent[] {
    const now = this.#order.keeps(event) ? [] : this.#mend(event);
    const due = this.#order.due();
    return due.length === 0 ? now : [...now, ...due.flatMap((waited) => this.#mend(waited))];
  }

  /** The events that still wait for their turn; asked for when no more blocks follow. */
  rest(): readonly AnthropicEvent[] {
    return this.#order.due(true).flatMap((waited) => this.#mend(waited));
  }

  /** The end of the block that is still open, for an answer that left this end out. */
  end(): readonly AnthropicEvent[] {
    return this.#sound.end();
  }

  #mend(event: AnthropicEvent): readonly AnthropicEvent[] {
    return this.#sound.passes(event) ? [event] : this.#sound.mend(event);
  }
}
