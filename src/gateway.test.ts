import { expect, test } from 'bun:test';
import { callerOf } from '../tests/support/caller.ts';
import type { Call, Operation, Replay, RequestOutcome } from './call.ts';
import { DeadlineWatcher } from './core/deadlines.ts';
import { GatewayError } from './core/errors.ts';
import { noUsage } from './core/usage.ts';
import { answer, type Stages } from './gateway.ts';
import type { Reservation } from './money/hold/reserve.ts';
import { noMetrics } from './upstream/attempt.ts';
import { BytesAnswer, type OpenBytes } from './upstream/byte-stream.ts';
import type { Opened } from './upstream/fallback.ts';
import { UpstreamCall } from './upstream/upstream-call.ts';

const client = new AbortController().signal;

const call: Call = {
  requestId: '6af9beab-5d48-459b-b20e-2a05495b6665',
  caller: callerOf('ten_1'),
  client,
  receivedAt: 0,
  startedAt: 0,
  headers: {},
  attempts: [],
  operationName: 'speech',
  requestedModel: 'test/voice',
  operation: undefined,
  releaseSlot: undefined,
  hold: undefined,
  recallOptions: { cacheControl: null, idempotencyKey: null },
  recordingSession: undefined,
};

const audio: OpenBytes = {
  kind: 'bytes',
  contentType: 'audio/mpeg',
  contentLength: null,
  first: Buffer.from('a'),
  next: async () => undefined,
  upstreamCall: new UpstreamCall(new DeadlineWatcher(), client),
  metrics: { ...noMetrics },
};

/** Steps that let every request through to nobody; a test replaces those that it is about. */
const defaults: Stages = {
  countRequest() {},
  acquireSlot: () => () => undefined,
  findReplay: () => undefined,
  plan: () => [],
  reserve: () => Promise.reject(new Error('Nothing is to be reserved.')),
  openFirst: () => Promise.reject(new Error('Nothing is to be opened.')),
  settle: async () => ({ usage: noUsage, costCredits: 0 }),
  reportLateError() {},
};

test('an answer whose end cannot be settled is settled as a refusal, and logged', async () => {
  const outcomes: RequestOutcome['kind'][] = [];
  const late: unknown[] = [];
  const failure = new Error('No such number.');
  const stages: Stages = {
    ...defaults,
    reserve: async () => ({ hold: undefined }) as unknown as Reservation,
    openFirst: async () => ({ answer: audio }) as unknown as Opened,
    async settle(_, { kind }) {
      outcomes.push(kind);
      if (kind !== 'refused') throw failure;
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: ({ requestId }, { cause }) => late.push(requestId, cause),
  };
  const operation = { request: { stream: false } } as unknown as Operation;
  const response = await answer(call, async () => operation, stages);
  if (!(response instanceof BytesAnswer)) throw new Error('Bytes were to come.');
  const symbol = await response.next().catch(({ symbol }) => symbol);
  expect(symbol).toBe('internal_error');
  expect(outcomes).toEqual(['complete', 'refused']);
  expect(late).toEqual([call.requestId, failure]);
});

test('one request too many is refused before its body is read, however late', async () => {
  const events: string[] = [];
  const stages: Stages = {
    ...defaults,
    // The count of all processes together is known a moment later.
    countRequest: async () => {
      throw new GatewayError('rate_limit_exceeded', 'Too many requests.');
    },
    acquireSlot: () => {
      events.push('entered');
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
    throw new Error('Nothing is to be read.');
  };
  const refused = await answer({ ...call }, read, stages).catch(({ symbol }) => symbol);
  expect(refused).toBe('rate_limit_exceeded');
  expect(events).toEqual(['refused: rate_limit_exceeded']);
});

test('a refusal gives the place back first, and goes out once it is written down', async () => {
  const events: string[] = [];
  const stages: Stages = {
    ...defaults,
    acquireSlot: async () => () => void events.push('left'),
    async settle(_, { kind }) {
      events.push(kind);
      await Bun.sleep(0);
      events.push('written down');
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: () => events.push('late'),
  };
  const read = async () => {
    throw new GatewayError('invalid_request_error', 'It is no JSON.');
  };
  await answer({ ...call }, read, stages).catch(({ symbol }) => events.push(symbol));
  expect(events).toEqual(['left', 'refused', 'written down', 'invalid_request_error']);
});

test('an earlier answer gives the place back first, and goes out once written down', async () => {
  const events: string[] = [];
  const reply = { metrics: noMetrics, write: () => 'Again.' };
  const stages: Stages = {
    ...defaults,
    acquireSlot: () => () => void events.push('left'),
    findReplay: async () => ({ reply }) as unknown as Replay,
    async settle(_, { kind }) {
      await Bun.sleep(0);
      events.push(kind);
      return { usage: noUsage, costCredits: 0 };
    },
    reportLateError: () => events.push('late'),
  };
  const operation = { request: { stream: false } } as unknown as Operation;
  expect(await answer({ ...call }, async () => operation, stages)).toBe('Again.');
  expect(events).toEqual(['left', 'recalled']);
});
