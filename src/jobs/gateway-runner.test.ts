import { expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import type { Call, RequestOutcome } from '../call.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import type { Stages } from '../gateway.ts';
import { noCharges } from '../money/price/fee-kinds.ts';
import { noMetrics } from '../upstream/attempt.ts';
import { UpstreamCall } from '../upstream/upstream-call.ts';
import { GatewayJobRunner, type RunnerDeps } from './gateway-runner.ts';
import { RequestIdUsedError, type StopReason } from './runner.ts';

/** Those who listen to a signal now. */
function listenersOf(signal: AbortSignal): ReadonlySet<unknown> {
  const listeners = new Set<unknown>();
  const add = signal.addEventListener.bind(signal) as EventTarget['addEventListener'];
  const remove = signal.removeEventListener.bind(signal) as EventTarget['removeEventListener'];
  signal.addEventListener = (...words: Parameters<typeof add>) => {
    listeners.add(words[1]);
    add(...words);
  };
  signal.removeEventListener = (...words: Parameters<typeof remove>) => {
    listeners.delete(words[1]);
    remove(...words);
  };
  return listeners;
}

/** A piece of a hundred bytes for 70 credits, and what the books have under its id by its end. */
function piece(
  next: (stop: AbortController) => Promise<Uint8Array | undefined>,
  bookedCredits = 70,
  whose: 'ours' | 'theirs' = 'theirs',
) {
  const stop = new AbortController();
  const listeners = listenersOf(stop.signal);
  const answer = {
    ...{ kind: 'bytes', contentType: 'audio/mpeg', contentLength: null },
    first: new Uint8Array(100),
    facts: { ...noMetrics },
    next: () => next(stop),
  };
  const outcomes: RequestOutcome[] = [];
  const stages = {
    recall: () => undefined,
    plan: () => [],
    reserve: async () => ({ hold: undefined }),
    async openFirst({ client, receivedAt }: Call) {
      if (whose === 'ours') booked.createdAt = receivedAt;
      const upstreamCall = new UpstreamCall(new DeadlineWatcher(), client);
      const offer = { provider: { name: 'voice' } };
      return { offer, answer: { ...answer, upstreamCall }, firstByteMs: 1 };
    },
    async settle(_: unknown, ending: RequestOutcome) {
      outcomes.push(ending);
      return { usage: undefined, costCredits: 70 };
    },
    tellLate: () => undefined,
  };
  // Not over yet by the time that processes share, which is not this machine's.
  const key = { id: 'key', expiresAt: 1_000 };
  const booked = { charges: { ...noCharges, modelCharge: bookedCredits }, createdAt: 1 };
  const runner = new GatewayJobRunner({
    store: {
      directory: { getKey: async () => key, getTenant: async () => ({ id: 'acme' }) },
      requestLog: { find: async () => (outcomes.length > 0 ? booked : undefined) },
    },
    books: { settled: <T>(read: () => Promise<T>) => read() },
    stages: () => stages as unknown as Stages,
    now: () => 999,
  } as unknown as RunnerDeps);
  const call = { requestId: 'one', jobId: 'job', tenantId: 'acme', keyId: 'key', model: 'a/voice' };
  const voice = { type: 'speech', voice: 'v', format: 'mp3' } as const;
  const options = { ...voice, speed: null, instructions: null };
  const speechPiece = { ...call, ...options, input: 'Hello.', provider: null, signal: stop.signal };
  return { result: runner.run(speechPiece), outcomes, listeners };
}

test.each([
  ['lost', 0],
  ['timeout', 0],
  ['shutdown', 0],
  ['cancelled', 99],
] as const)('of a piece that was broken off, %s, %d bytes are charged', async (reason, bytes) => {
  const { result, outcomes } = piece((stop) => {
    stop.abort(reason satisfies StopReason);
    return Promise.reject(new Error('The line was hung up.'));
  });
  await failureOf(result);
  expect(outcomes).toMatchObject([
    { kind: 'client_disconnected', facts: { outputCharacters: bytes } },
  ]);
});

test('a piece that does not end is broken off before it fills the memory, at no cost', async () => {
  const megabytes = new Uint8Array(16 * 1024 * 1024);
  let reads = 0;
  const { result, outcomes } = piece(async () => (++reads > 100 ? undefined : megabytes));
  expect(await failureOf(result)).toMatchObject({ symbol: 'upstream_error' });
  expect(reads).toBe(4);
  expect(outcomes).toMatchObject([{ kind: 'interrupted', facts: { outputCharacters: 0 } }]);
});

test('a piece that two workers made costs what the books took from the first of them', async () => {
  const { result } = piece(async () => undefined, 60);
  expect(await result).toMatchObject({ costCredits: 60, provider: 'voice' });
});

test.each([60, 0])('a piece that could not all be paid for costs %d credits', async (credits) => {
  const { result } = piece(async () => undefined, credits, 'ours');
  expect(await result).toMatchObject({ costCredits: credits, provider: 'voice' });
});

test('a piece whose id was used up for nothing has to be run again', async () => {
  const { result } = piece(async () => undefined, 0);
  expect(await failureOf(result)).toBeInstanceOf(RequestIdUsedError);
});

test.each([70, 0])('a piece leaves nobody who listens to its job (booked: %d)', async (booked) => {
  const most: number[] = [];
  const { result, listeners } = piece(async () => {
    most.push(listeners.size);
    return undefined;
  }, booked);
  await result.catch(() => undefined);
  expect([most, listeners.size]).toEqual([[1], 0]);
});
