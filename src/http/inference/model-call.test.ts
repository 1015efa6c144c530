/** What answers of models ask of their connections; that connections obey is the server's test. */
import { expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import type { Operation, Replay } from '../../call.ts';
import { clientStallMs } from '../../core/bounds.ts';
import type { Stages } from '../../gateway.ts';
import { MemoryBudget } from '../../limits/memory-budget.ts';
import { Exchange } from '../routes.ts';
import { callModel } from './model-call.ts';

const told = 'all that was said';

async function answered(stream: boolean) {
  const silences: number[] = [];
  const exchange = new Exchange(new Request('http://gateway/v1/chat/completions'));
  exchange.setIdleTimeout = (seconds) => silences.push(seconds);
  const ask = { stream, models: ['a/b'], operation: 'chat' };
  const errand = { ask, words: {} } as unknown as Operation;
  const recalled = { recording: {}, relay: { facts: {}, write: () => told } };
  const steps = {
    countRequest: () => undefined,
    enter: () => () => undefined,
    recall: async () => recalled as unknown as Replay,
    settle: async () => ({}),
  } as unknown as Stages;
  const parts = { bodyBytesMax: 1, bodyMemoryBudget: new MemoryBudget(1, 'Full.'), stages: steps };
  const response = await callModel(exchange, callerOf('acme'), 'chat', async () => errand, parts);
  return { text: await response.text(), silences, exchange };
}

test('a whole answer says how long it is', async () => {
  const { text, silences, exchange } = await answered(false);
  expect(text).toBe(told);
  expect(exchange.responseLength).toBe(told.length);
  expect(silences).toEqual([]);
});

test('a stream may wait long for its upstream, and for its client only so long', async () => {
  const { text, silences, exchange } = await answered(true);
  expect(text).toBe(told);
  expect(exchange.responseLength).toBeUndefined();
  // While it goes on, and behind its end.
  expect(silences).toEqual([0, clientStallMs / 1000]);
});
