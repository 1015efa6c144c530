import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import type { Call, RequestOutcome } from '../call.ts';
import { DeadlineWatcher } from '../core/deadlines.ts';
import type { Stages } from '../gateway.ts';
import { noCharges } from '../money/price/fee-kinds.ts';
import { noMetrics } from '../upstream/attempt.ts';
import { UpstreamCall } from '../upstream/upstream-call.ts';
import { GatewayJobRunner, type RunnerDeps } from './gateway-runner.ts';
import { RequestIdUsedError, type StopReason } from './runner.ts';

/** Returns the current listeners of a signal. */
function listenersOf(signal: AbortSignal): ReadonlySet<unknown> {
  const listeners = new Set<unknown>();
  const add = signal.addEventListener.bind(signal) as EventTarget['addEventListener'];
  const remove = signal.removeEventListener.bind(signal) as EventTarget['removeEventListener'];
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners.add(args[1]);
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners.delete(args[1]);
    remove(...args);
  };
  return listeners;
}

/**
 * Runs a piece whose answer starts with 100 bytes and costs 70 credits. When it has ended, the
 * ledger contains `bookedCredits` under its id, booked by this worker or another one.
 */
function runPiece(
  next: (stop: AbortController) => Promise<Uint8Array | undefined>,
  bookedCredits = 70,
  bookedBy: 'this worker' | 'another worker' = 'another worker',
) {
  const stop = new AbortController();
  const listeners = listenersOf(stop.signal);
  const answer = {
    ...{ kind: 'bytes', contentType: 'audio/mpeg', contentLength: null },
    first: new Uint8Array(100),
    metrics: { ...noMetrics },
    next: () => next(stop),
  };
  const outcomes: RequestOutcome[] = [];
  const calls: Call[] = [];
  const stages = {
    resolveModels() {},
    findReplay: () => undefined,
    plan(call: Call) {
      calls.push(call);
      return [];
    },
    reserve: async () => ({ hold: undefined }),
    async tryOffers({ clientSignal, receivedAt }: Call) {
      if (bookedBy === 'this worker') booked.createdAt = receivedAt;
      const upstreamCall = new UpstreamCall(new DeadlineWatcher(), clientSignal);
      const offer = { provider: { name: 'voice' } };
      return { offer, answer: { ...answer, upstreamCall }, firstByteMs: 1 };
    },
    async settle(_: unknown, outcome: RequestOutcome) {
      outcomes.push(outcome);
      return { usage: undefined, costCredits: 70 };
    },
    reportLateError: () => undefined,
  };
  // The key is expired by this machine's clock, but not by the database's clock.
  const key = { id: 'key', expiresAt: 1_000 };
  const booked = { charges: { ...noCharges, modelCharge: bookedCredits }, createdAt: 1 };
  const runner = new GatewayJobRunner({
    store: {
      directory: { getKey: async () => key, getTenant: async () => ({ id: 'acme' }) },
      requestLog: { find: async () => (outcomes.length > 0 ? booked : undefined) },
    },
    accounting: { readSettled: <T>(read: () => Promise<T>) => read() },
    stages: () => stages as unknown as Stages,
    now: () => 999,
  } as unknown as RunnerDeps);
  const job = { jobId: 'job', jobCreatedAt: 7, tenantId: 'acme', keyId: 'key' };
  const call = { ...job, requestId: 'one', model: 'a/voice' };
  const voice = { type: 'speech', voice: 'v', format: 'mp3' } as const;
  const options = { ...voice, speed: null, instructions: null };
  const speechPiece = { ...call, ...options, input: 'Hello.', provider: null, signal: stop.signal };
  return { result: runner.run(speechPiece), outcomes, calls, listeners };
}

describe('GatewayJobRunner', () => {
  test.each([
    ['lost', 0],
    ['timeout', 0],
    ['shutdown', 0],
    ['cancelled', 99],
  ] as const)('aborted with "%s" after 99 bytes, charges %d bytes', async (reason, bytes) => {
    const { result, outcomes } = runPiece((stop) => {
      stop.abort(reason satisfies StopReason);
      return Promise.reject(new Error('The connection was closed.'));
    });
    await failureOf(result);
    expect(outcomes).toMatchObject([
      { kind: 'client_disconnected', metrics: { outputCharacters: bytes } },
    ]);
  });

  test('interrupts endless audio free of charge before it fills the memory', async () => {
    const megabytes = new Uint8Array(16 * 1024 * 1024);
    let reads = 0;
    const { result, outcomes } = runPiece(async () => (++reads > 100 ? undefined : megabytes));
    expect(await failureOf(result)).toMatchObject({ symbol: 'upstream_error' });
    expect(reads).toBe(4);
    expect(outcomes).toMatchObject([{ kind: 'interrupted', metrics: { outputCharacters: 0 } }]);
  });

  test('uses the prices of the moment at which the job was created', async () => {
    const { result, calls } = runPiece(async () => undefined);
    await result;
    expect(calls.map(({ pricedAt }) => pricedAt)).toEqual([7]);
  });

  test('reports the charge of the worker that was booked first', async () => {
    const { result } = runPiece(async () => undefined, 60);
    expect(await result).toMatchObject({ costCredits: 60, provider: 'voice' });
  });

  test.each([60, 0])(
    'reports %d credits if the account could pay only that many',
    async (credits) => {
      const { result } = runPiece(async () => undefined, credits, 'this worker');
      expect(await result).toMatchObject({ costCredits: credits, provider: 'voice' });
    },
  );

  test('rejects with RequestIdUsedError if another worker used the id free of charge', async () => {
    const { result } = runPiece(async () => undefined, 0);
    expect(await failureOf(result)).toBeInstanceOf(RequestIdUsedError);
  });

  test.each([70, 0])('removes its listener from the signal (%d credits booked)', async (booked) => {
    const during: number[] = [];
    const { result, listeners } = runPiece(async () => {
      during.push(listeners.size);
      return undefined;
    }, booked);
    await result.catch(() => undefined);
    expect([during, listeners.size]).toEqual([[1], 0]);
  });
});
