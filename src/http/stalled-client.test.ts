/** Tests the idle timeouts that a response sets; server.test.ts tests their effect. */
import { describe, expect, test } from 'bun:test';
import { waitUntil } from '../../tests/support/wait-until.ts';
import { Exchange } from './routes.ts';
import { disconnectWhenStalled } from './stalled-client.ts';

const stallSeconds = 0.05;

/** Sends chunks and records idle timeouts. `disconnected` resolves when the client is cut off. */
function sendChunks(source: AsyncIterator<string>, seconds = stallSeconds) {
  const idleTimeouts: number[] = [];
  const disconnected = Promise.withResolvers<void>();
  const exchange = new Exchange(new Request('http://gateway/v1/chat/completions'));
  exchange.setIdleTimeout = (seconds) => {
    idleTimeouts.push(seconds);
    if (seconds === 1) disconnected.resolve();
  };
  const chunks = disconnectWhenStalled(exchange, source, { stallSeconds: seconds });
  return { chunks, idleTimeouts, disconnected: disconnected.promise };
}

async function* twoChunks() {
  yield 'one';
  yield 'two';
}

describe('disconnectWhenStalled', () => {
  test('disconnects a client that stops reading, unless it resumes', async () => {
    const { chunks, idleTimeouts, disconnected } = sendChunks(twoChunks());
    expect(await chunks.next()).toEqual({ done: false, value: 'one' });
    await disconnected;
    // Set only once, because setting it again would restart the runtime's timer.
    const later = sendChunks(twoChunks());
    await later.chunks.next();
    await later.disconnected;
    expect(idleTimeouts).toEqual([0, 1]);
    expect(await chunks.next()).toEqual({ done: false, value: 'two' });
    expect(idleTimeouts).toEqual([0, 1, 0]);
    expect(await chunks.next()).toEqual({ done: true, value: undefined });
    expect(idleTimeouts).toEqual([0, 1, 0, stallSeconds]);
  });

  test('does not disconnect a client before its time for a chunk is over', async () => {
    const slow = sendChunks(twoChunks(), 60);
    await slow.chunks.next();
    // Another client's stall is detected meanwhile.
    const stalled = sendChunks(twoChunks());
    await stalled.chunks.next();
    await stalled.disconnected;
    expect(slow.idleTimeouts).toEqual([0]);
    await slow.chunks.return?.();
  });

  test('does not count the time that an upstream is silent', async () => {
    const lateChunk = Promise.withResolvers<IteratorResult<string>>();
    const steps = [Promise.resolve({ done: false, value: 'first' }), lateChunk.promise];
    const slowUpstream = sendChunks({
      next: async () => (await steps.shift()) ?? { done: true, value: '' },
    });
    await slowUpstream.chunks.next();
    const step = slowUpstream.chunks.next();
    // This later stall is detected, so an earlier one would have been detected, too.
    const stalled = sendChunks(twoChunks());
    await stalled.chunks.next();
    await stalled.disconnected;
    expect(slowUpstream.idleTimeouts).toEqual([0]);
    lateChunk.resolve({ done: false, value: 'last' });
    expect(await step).toEqual({ done: false, value: 'last' });
  });

  test.each([
    ['end', stallSeconds],
    ['failure', 1],
    ['return', stallSeconds],
  ])(
    'stops watching after the %s of an answer, and sets its idle timeout to %d s',
    async (outcome, idleSeconds) => {
      const failure = new Error('failed');
      const results: Record<string, () => Promise<IteratorResult<string>>> = {
        end: async () => ({ done: true, value: undefined }),
        failure: () => Promise.reject(failure),
      };
      let steps = 0;
      const next = async () =>
        steps++ === 0 ? { done: false, value: 'one' } : results[outcome]?.();
      const source = { next, return: results.end } as AsyncIterator<string>;
      const { chunks, idleTimeouts } = sendChunks(source);
      await chunks.next();
      if (outcome === 'return') await chunks.return?.();
      else if (outcome === 'end') await chunks.next();
      // The transfer of a failed answer never ends, so the runtime closes the connection.
      else void chunks.next();
      const stalled = sendChunks(twoChunks());
      await stalled.chunks.next();
      await stalled.disconnected;
      await waitUntil(() => idleTimeouts.length > 1);
      expect(idleTimeouts).toEqual([0, idleSeconds]);
      // The runtime also calls `return` after an answer's end. By then, the connection may serve
      // another request.
      expect(await chunks.return?.()).toEqual({ done: true, value: undefined });
      expect(idleTimeouts).toEqual([0, idleSeconds]);
    },
  );
});
