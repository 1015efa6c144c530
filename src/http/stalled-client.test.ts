/** What the pieces of an answer ask of their connection; that it obeys is the server's test. */
import { expect, test } from 'bun:test';
import { Exchange } from './routes.ts';
import { disconnectWhenStalled } from './stalled-client.ts';

const stallSeconds = 0.05;

/** `cut` resolves when the connection is asked to end. */
function watched(pieces: AsyncIterator<string>, seconds = stallSeconds) {
  const silences: number[] = [];
  const cut = Promise.withResolvers<void>();
  const exchange = new Exchange(new Request('http://gateway/v1/chat/completions'));
  exchange.setIdleTimeout = (seconds) => {
    silences.push(seconds);
    if (seconds === 1) cut.resolve();
  };
  return { taken: disconnectWhenStalled(exchange, pieces, seconds), silences, cut: cut.promise };
}

async function* words() {
  yield 'one';
  yield 'two';
}

test('a piece that nobody takes cuts the connection, unless its client comes back', async () => {
  const { taken, silences, cut } = watched(words());
  expect(await taken.next()).toEqual({ done: false, value: 'one' });
  await cut;
  // Once: asking again would begin the second of the runtime anew.
  const later = watched(words());
  await later.taken.next();
  await later.cut;
  expect(silences).toEqual([0, 1]);
  expect(await taken.next()).toEqual({ done: false, value: 'two' });
  expect(silences).toEqual([0, 1, 0]);
  expect(await taken.next()).toEqual({ done: true, value: undefined });
  expect(silences).toEqual([0, 1, 0, stallSeconds]);
});

test('a client that has time left for its piece is not cut', async () => {
  const slow = watched(words(), 60);
  await slow.taken.next();
  // Somebody else's stall, which was noticed.
  const stalled = watched(words());
  await stalled.taken.next();
  await stalled.cut;
  expect(slow.silences).toEqual([0]);
  await slow.taken.return?.();
});

test('an upstream that is silent for longer than a client may be cuts nothing', async () => {
  const said = Promise.withResolvers<IteratorResult<string>>();
  const steps = [Promise.resolve({ done: false, value: 'first' }), said.promise];
  const patient = watched({ next: async () => (await steps.shift()) ?? { done: true, value: '' } });
  await patient.taken.next();
  const step = patient.taken.next();
  // Somebody else's stall, which began later and was noticed: so the first one's would have been.
  const stalled = watched(words());
  await stalled.taken.next();
  await stalled.cut;
  expect(patient.silences).toEqual([0]);
  said.resolve({ done: false, value: 'at last' });
  expect(await step).toEqual({ done: false, value: 'at last' });
});

test.each(['ended', 'broke', 'left'])('an answer that %s is not watched any more', async (how) => {
  const broken = new Error('broken');
  const ways: Record<string, () => Promise<IteratorResult<string>>> = {
    ended: async () => ({ done: true, value: undefined }),
    broke: () => Promise.reject(broken),
  };
  let steps = 0;
  const next = async () => (steps++ === 0 ? { done: false, value: 'one' } : ways[how]?.());
  const pieces = { next, return: ways.ended } as AsyncIterator<string>;
  const { taken, silences } = watched(pieces);
  await taken.next();
  if (how === 'left') await taken.return?.();
  else if (how === 'broke') await expect(taken.next()).rejects.toBe(broken);
  else await taken.next();
  const stalled = watched(words());
  await stalled.taken.next();
  await stalled.cut;
  expect(silences).toEqual([0, stallSeconds]);
  // The runtime calls it behind an end as well, when the connection may serve somebody else.
  expect(await taken.return?.()).toEqual({ done: true, value: undefined });
  expect(silences).toEqual([0, stallSeconds]);
});
