import { expect, test } from 'bun:test';
import { callerOf } from '../tests/support/caller.ts';
import type { Call, Ending, Errand } from './call.ts';
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

test('an answer whose end cannot be reckoned is settled as a refusal', async () => {
  const endings: Ending['how'][] = [];
  const steps: Steps = {
    countRequest() {},
    enter: () => () => undefined,
    recall: () => undefined,
    plan: () => [],
    reserve: async () => ({ hold: undefined }) as unknown as Reservation,
    openFirst: async () => ({ answer: audio }) as unknown as Opened,
    async settle(_, { how }) {
      endings.push(how);
      if (how !== 'refused') throw new Error('No such number.');
      return { usage: noUsage, costCredits: 0 };
    },
  };
  const errand = { ask: { stream: false } } as unknown as Errand;
  const spoken = await answer(call, async () => errand, steps);
  if (!(spoken instanceof BytesAnswer)) throw new Error('Bytes were to come.');
  const heard = await spoken.next().catch(({ symbol }) => symbol);
  expect(heard).toBe('internal_error');
  expect(endings).toEqual(['complete', 'refused']);
});
