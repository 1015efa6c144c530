import { clientStallMs } from '../core/bounds.ts';
import type { Exchange } from './exchange.ts';

const stallSecondsUsual = clientStallMs / 1000;

/**
 * The same pieces. The runtime asks for the next one when the last has left; a client that stops
 * reading is cut off, or its answer would keep its credits, its place and its connection for ever.
 * Waiting for a silent upstream does not count: its own deadlines end that.
 */
export function cutWhenStalled<Piece>(
  exchange: Exchange,
  pieces: AsyncIterator<Piece>,
  stallSeconds = stallSecondsUsual,
): AsyncIterableIterator<Piece> {
  const given = (step: IteratorResult<Piece>) => {
    exchange.bearSilence(stallSeconds);
    return step;
  };
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next() {
      exchange.bearSilence(0);
      return pieces.next().then(given);
    },
    async return() {
      await pieces.return?.();
      return { done: true, value: undefined };
    },
  };
}
