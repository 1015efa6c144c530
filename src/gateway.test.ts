import { expect, test } from 'bun:test';
import { callerOf } from '../tests/support/caller.ts';
import type { Call, Operation, Replay, RequestOutcome } from './call.ts';
import { DeadlineWatcher } from './core/deadlines.ts';
import { GatewayError } from './core/errors.ts';
import { noUsage } from './core/usage.ts';
import { handleCall, type Stages } from './gateway.ts';
import type { Reservation } from './money/hold/reserve.ts';
import { noMetrics, type OpenBytes } from './upstream/attempt.ts';
import type { OpenedAnswer } from './upstream/fallback.ts';
import { UpstreamCall } from './upstream/upstream-call.ts';

const clientSignal = new AbortController().signal;

const call: Call = {
  requestId: '6af9beab-5d48-459b-b20e-2a05495b6665',
  caller: callerOf('ten_1'),
  clientSignal,
  receivedAt: 0,
  startedAt: 0,
  clientHeader: () => null,
  headers: {},
  attempts: [],
  operationName: 'speech',
  requestedModel: 'test/voice',
  operation: undefined,
  releaseSlot: undefined,
  hold: undefined,
  replayOptions: { cacheControl: null, idempotencyKey: null },
  recordingSession: undefined,
};

const audio: OpenBytes = {
  kind: 'bytes',
  contentType: 'audio/mpeg',
  contentLength: null,
  first: Buffer.from('a'),
  next: async () => undefined,
  upstreamCall: new UpstreamCall(new DeadlineWatcher(), clientSignal),
  metrics: { ...noMetrics },
};

/** Stages that admit every request but have no offers. Tests override the ones they examine. */
const defaults: Stages = {
  countRequest() {},
  acquireSlot: () => () => undefined,
  resolveModels() {},
  findReplay: () => undefined,
  plan: () => [],
  reserve: () => Promise.reject(new Error('reserve is not expected')),
  tryOffers: () => Promise.reject(new Error('tryOffers is not expected')),
  settle: async () => ({ usage: noUsage, costCredits: 0 }),
  reportLateError() {},
};

test('handleCall settles an answer as rejected and logs it when settling its end fails', async () => {
  const outcomes: RequestOutcome['kind'][] = [];
  const late: unknown[] = [];
  const failure = new Error('settling failed');
  const stages: Stages = {
    ...defaults,
    reserve: async () => ({ hold: undefined }) as unknown as Reservation,
    tryOffers: async () => ({ answer: audio }) as unknown as OpenedAnswer,
    async settle(_, { kind }) {
      outcomes.push(kind);
      if (kind !== 'rejected') throw failure;
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: ({ requestId }, { cause }) => late.push(requestId, cause),
  };
  const operation = { request: { stream: false } } as unknown as Operation;
  const response = await handleCall(call, async () => operation, stages);
  if (response.kind !== 'bytes') throw new Error('Expected bytes.');
  const symbol = await response.bytes.next().catch(({ symbol }) => symbol);
  expect(symbol).toBe('internal_error');
  expect(outcomes).toEqual(['complete', 'rejected']);
  expect(late).toEqual([call.requestId, failure]);
});

test('handleCall rejects a rate-limited request without reading its body', async () => {
  const events: string[] = [];
  const stages: Stages = {
    ...defaults,
    // With shared counters, the rejection arrives asynchronously.
    countRequest: async () => {
      throw new GatewayError('rate_limit_exceeded', 'Too many requests.');
    },
    acquireSlot: () => {
      events.push('slot acquired');
      return () => undefined;
    },
    async settle(_, { kind, error }) {
      events.push(`${kind}: ${error?.symbol}`);
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: () => events.push('late'),
  };
  const read = async () => {
    events.push('read');
    throw new Error('reading the body is not expected');
  };
  const symbol = await handleCall({ ...call }, read, stages).catch(({ symbol }) => symbol);
  expect(symbol).toBe('rate_limit_exceeded');
  expect(events).toEqual(['rejected: rate_limit_exceeded']);
});

test('handleCall frees the slot, then records the rejection, then responds', async () => {
  const events: string[] = [];
  const stages: Stages = {
    ...defaults,
    acquireSlot: async () => () => void events.push('slot freed'),
    async settle(_, { kind }) {
      events.push(kind);
      await Bun.sleep(0);
      events.push('recorded');
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: () => events.push('late'),
  };
  const read = async () => {
    throw new GatewayError('invalid_request_error', "The body isn't valid JSON.");
  };
  await handleCall({ ...call }, read, stages).catch(({ symbol }) => events.push(symbol));
  expect(events).toEqual(['slot freed', 'rejected', 'recorded', 'invalid_request_error']);
});

test('handleCall frees the slot before it records and sends a replay', async () => {
  const events: string[] = [];
  const reply = { metrics: noMetrics, write: () => 'Again.' };
  const stages: Stages = {
    ...defaults,
    acquireSlot: () => () => void events.push('slot freed'),
    findReplay: async () => ({ reply }) as unknown as Replay,
    async settle(_, { kind }) {
      await Bun.sleep(0);
      events.push(kind);
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: () => events.push('late'),
  };
  const operation = { request: { stream: false } } as unknown as Operation;
  const replayed = await handleCall({ ...call }, async () => operation, stages);
  expect(replayed).toEqual({ kind: 'reply', body: 'Again.' });
  expect(events).toEqual(['slot freed', 'replayed']);
});
