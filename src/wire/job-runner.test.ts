import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import type { Call, Ending } from '../call.ts';
import { Watch } from '../core/watch.ts';
import type { Steps } from '../gateway.ts';
import { IdUsedUp, type StopReason } from '../jobs/runner.ts';
import { noCharges } from '../record/request-record.ts';
import { Line } from '../upstream/line.ts';
import { noFacts } from '../upstream/try-whole.ts';
import { type RunnerParts, StoryRunner } from './job-runner.ts';

/** Those who listen to a signal now. */
function listenersOf(signal: AbortSignal): ReadonlySet<unknown> {
  const listening = new Set<unknown>();
  const add = signal.addEventListener.bind(signal) as EventTarget['addEventListener'];
  const remove = signal.removeEventListener.bind(signal) as EventTarget['removeEventListener'];
  signal.addEventListener = (...words: Parameters<typeof add>) => {
    listening.add(words[1]);
    add(...words);
  };
  signal.removeEventListener = (...words: Parameters<typeof remove>) => {
    listening.delete(words[1]);
    remove(...words);
  };
  return listening;
}

/** A piece of a hundred bytes for 70 credits, and what the books have under its id by its end. */
function piece(
  next: (stop: AbortController) => Promise<Uint8Array | undefined>,
  bookedCredits = 70,
  whose: 'ours' | 'theirs' = 'theirs',
) {
  const stop = new AbortController();
  const listening = listenersOf(stop.signal);
  const answer = {
    ...{ kind: 'bytes', contentType: 'audio/mpeg', contentLength: null },
    first: new Uint8Array(100),
    facts: { ...noFacts },
    next: () => next(stop),
  };
  const endings: Ending[] = [];
  const steps = {
    recall: () => undefined,
    plan: () => [],
    reserve: async () => ({ hold: undefined }),
    async openFirst({ client, receivedAt }: Call) {
      if (whose === 'ours') booked.createdAt = receivedAt;
      const line = new Line(new Watch(), client);
      const offer = { provider: { name: 'voice' } };
      return { offer, answer: { ...answer, line }, firstByteMs: 1 };
    },
    async settle(_: unknown, ending: Ending) {
      endings.push(ending);
      return { usage: undefined, costCredits: 70 };
    },
    tellLate: () => undefined,
  };
  // Not over yet by the time that processes share, which is not this machine's.
  const key = { id: 'key', expiresAt: 1_000 };
  const booked = { charges: { ...noCharges, modelCharge: bookedCredits }, createdAt: 1 };
  const runner = new StoryRunner({
    store: {
      directory: { getKey: async () => key, getTenant: async () => ({ id: 'acme' }) },
      requestLog: { find: async () => (endings.length > 0 ? booked : undefined) },
    },
    books: { settled: <T>(read: () => Promise<T>) => read() },
    steps: () => steps as unknown as Steps,
    now: () => 999,
  } as unknown as RunnerParts);
  const call = { requestId: 'one', jobId: 'job', tenantId: 'acme', keyId: 'key', model: 'a/voice' };
  const voice = { type: 'speech', voice: 'v', format: 'mp3' } as const;
  const wish = { ...voice, speed: null, instructions: null };
  const said = { ...call, ...wish, input: 'Hello.', provider: null, signal: stop.signal };
  return { spoken: runner.run(said), endings, listening };
}

test.each([
  ['lost', 0],
  ['timeout', 0],
  ['shutdown', 0],
  ['cancelled', 99],
] as const)('of a piece that was broken off, %s, %d bytes are charged', async (reason, bytes) => {
  const { spoken, endings } = piece((stop) => {
    stop.abort(reason satisfies StopReason);
    return Promise.reject(new Error('The line was hung up.'));
  });
  await failureOf(spoken);
  expect(endings).toMatchObject([{ how: 'left', facts: { outputCharacters: bytes } }]);
});

test('a piece that does not end is broken off before it fills the memory, at no cost', async () => {
  const megabytes = new Uint8Array(16 * 1024 * 1024);
  let asked = 0;
  const { spoken, endings } = piece(async () => (++asked > 100 ? undefined : megabytes));
  expect(await failureOf(spoken)).toMatchObject({ symbol: 'upstream_error' });
  expect(asked).toBe(4);
  expect(endings).toMatchObject([{ how: 'cut', facts: { outputCharacters: 0 } }]);
});

test('a piece that two workers made costs what the books took from the first of them', async () => {
  const { spoken } = piece(async () => undefined, 60);
  expect(await spoken).toMatchObject({ costCredits: 60, provider: 'voice' });
});

test.each([60, 0])('a piece that could not all be paid for costs %d credits', async (credits) => {
  const { spoken } = piece(async () => undefined, credits, 'ours');
  expect(await spoken).toMatchObject({ costCredits: credits, provider: 'voice' });
});

test('a piece whose id was used up for nothing has to be run again', async () => {
  const { spoken } = piece(async () => undefined, 0);
  expect(await failureOf(spoken)).toBeInstanceOf(IdUsedUp);
});

test.each([70, 0])('a piece leaves nobody who listens to its job (booked: %d)', async (booked) => {
  const most: number[] = [];
  const { spoken, listening } = piece(async () => {
    most.push(listening.size);
    return undefined;
  }, booked);
  await spoken.catch(() => undefined);
  expect([most, listening.size]).toEqual([[1], 0]);
});
