import { clientStallMs } from '../core/bounds.ts';
import type { Exchange } from './exchange.ts';

const stallSecondsUsual = clientStallMs / 1000;

/**
 * Pieces as a client takes them: the runtime asks for the next one when the last is gone. Who
 * leaves one lying is cut off, or an answer that nobody reads would hold its credits, its place
 * and its connection for ever. For a silent upstream nobody is: its own deadlines end that.
 */
export function asTaken<Piece>(
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
