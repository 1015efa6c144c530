import { expect, test } from 'bun:test';
import { callerOf } from '../tests/support/caller.ts';
import type { Call, Ending, Errand, Recalled } from './call.ts';
import { GatewayError } from './core/errors.ts';
import { noUsage } from './core/usage.ts';
import { Watch } from './core/watch.ts';
import { answer, type Steps } from './gateway.ts';
import type { Reservation } from './reserve.ts';
import { BytesAnswer, type OpenBytes } from './upstream/bytes-answer.ts';
import type { Opened } from './upstream/fallback.ts';
import { Line } from './upstream/line.ts';
import { noFacts } from './upstream/try-whole.ts';

const client = new AbortController().signal;

const call: Call = {
  requestId: '6af9beab-5d48-459b-b20e-2a05495b6665',
  caller: callerOf('ten_1'),
  client,
  receivedAt: 0,
  startedAt: 0,
  headers: {},
  trail: [],
  operation: 'speech',
  modelNamed: 'test/voice',
  errand: undefined,
  leave: undefined,
  hold: undefined,
  wishes: { cacheControl: null, idempotencyKey: null },
  memory: undefined,
};

const audio: OpenBytes = {
  kind: 'bytes',
  contentType: 'audio/mpeg',
  contentLength: null,
  first: Buffer.from('a'),
  next: async () => undefined,
  line: new Line(new Watch(), client),
  facts: { ...noFacts },
};

/** Steps that let every request through to nobody; a test replaces those that it is about. */
const usual: Steps = {
  countRequest() {},
  enter: () => () => undefined,
  recall: () => undefined,
  plan: () => [],
  reserve: () => Promise.reject(new Error('Nothing is to be reserved.')),
  openFirst: () => Promise.reject(new Error('Nothing is to be opened.')),
  settle: async () => ({ usage: noUsage, costCredits: 0 }),
  tellLate() {},
};

test('an answer whose end cannot be settled is settled as a refusal, and logged', async () => {
  const endings: Ending['how'][] = [];
  const late: unknown[] = [];
  const mistake = new Error('No such number.');
  const steps: Steps = {
    ...usual,
    reserve: async () => ({ hold: undefined }) as unknown as Reservation,
    openFirst: async () => ({ answer: audio }) as unknown as Opened,
    async settle(_, { how }) {
      endings.push(how);
      if (how !== 'refused') throw mistake;
      return { usage: noUsage, costCredits: 0 };
    },
    tellLate: ({ requestId }, { cause }) => late.push(requestId, cause),
  };
  const errand = { ask: { stream: false } } as unknown as Errand;
  const spoken = await answer(call, async () => errand, steps);
  if (!(spoken instanceof BytesAnswer)) throw new Error('Bytes were to come.');
  const heard = await spoken.next().catch(({ symbol }) => symbol);
  expect(heard).toBe('internal_error');
  expect(endings).toEqual(['complete', 'refused']);
  expect(late).toEqual([call.requestId, mistake]);
});

test('one request too many is refused before its body is read, however late', async () => {
  const told: string[] = [];
  const steps: Steps = {
    ...usual,
    // The count of all processes together is known a moment later.
    countRequest: async () => {
      throw new GatewayError('rate_limit_exceeded', 'Too many requests.');
    },
    enter: () => {
      told.push('entered');
      return () => undefined;
    },
    async settle(_, { how, error }) {
      told.push(`${how}: ${error?.symbol}`);
      return { usage: noUsage, costCredits: 0 };
    },
    tellLate: () => told.push('late'),
  };
  const read = async () => {
    told.push('read');
    throw new Error('Nothing is to be read.');
  };
  const refused = await answer({ ...call }, read, steps).catch(({ symbol }) => symbol);
  expect(refused).toBe('rate_limit_exceeded');
  expect(told).toEqual(['refused: rate_limit_exceeded']);
});

test('a refusal gives the place back first, and goes out once it is written down', async () => {
  const told: string[] = [];
  const steps: Steps = {
    ...usual,
    enter: async () => () => void told.push('left'),
    async settle(_, { how }) {
      told.push(how);
      await Bun.sleep(0);
      told.push('written down');
      return { usage: noUsage, costCredits: 0 };
    },
    tellLate: () => told.push('late'),
  };
  const read = async () => {
    throw new GatewayError('invalid_request_error', 'It is no JSON.');
  };
  await answer({ ...call }, read, steps).catch(({ symbol }) => told.push(symbol));
  expect(told).toEqual(['left', 'refused', 'written down', 'invalid_request_error']);
});

test('an earlier answer gives the place back first, and goes out once written down', async () => {
  const told: string[] = [];
  const relay = { facts: noFacts, write: () => 'Again.' };
  const steps: Steps = {
    ...usual,
    enter: () => () => void told.push('left'),
    recall: async () => ({ relay }) as unknown as Recalled,
    async settle(_, { how }) {
      await Bun.sleep(0);
      told.push(how);
      return { usage: noUsage, costCredits: 0 };
    },
    tellLate: () => told.push('late'),
  };
  const errand = { ask: { stream: false } } as unknown as Errand;
  expect(await answer({ ...call }, async () => errand, steps)).toBe('Again.');
  expect(told).toEqual(['left', 'recalled']);
});
