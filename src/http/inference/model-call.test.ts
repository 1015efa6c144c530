/** Tests what model calls set on a response; server.test.ts tests the effect on connections. */
import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import type { Operation, Replay } from '../../call.ts';
import { clientStallMs } from '../../core/bounds.ts';
import type { Stages } from '../../gateway.ts';
import { FairShareBudget } from '../../limits/memory-budget.ts';
import { Exchange } from '../routes.ts';
import { callModel } from './model-call.ts';

const body = 'the answer';

/** Calls a model whose answer is a replay. */
async function callReplayed(stream: boolean) {
  const idleTimeouts: number[] = [];
  const exchange = new Exchange(new Request('http://gateway/v1/chat/completions'));
  exchange.setIdleTimeout = (seconds) => idleTimeouts.push(seconds);
  const request = { stream, models: ['a/b'], operation: 'chat' };
  const operation = { request, streamFormat: {} } as unknown as Operation;
  const replay = { recording: {}, reply: { metrics: {}, write: () => body } };
  const stages = {
    countRequest: () => undefined,
    acquireSlot: () => () => undefined,
    resolveModels: () => undefined,
    findReplay: async () => replay as unknown as Replay,
    settle: async () => ({}),
  } as unknown as Stages;
  const deps = { bodyBytesMax: 1, bodyMemoryBudget: new FairShareBudget(1, 'Full.'), stages };
  const response = await callModel(exchange, callerOf('acme'), 'chat', async () => operation, deps);
  return { text: await response.text(), idleTimeouts, exchange };
}

describe('callModel', () => {
  test('sets the response length of a full answer', async () => {
    const { text, idleTimeouts, exchange } = await callReplayed(false);
    expect(text).toBe(body);
    expect(exchange.responseLength).toBe(body.length);
    expect(idleTimeouts).toEqual([]);
  });

  test('removes the idle timeout during a stream and sets one after its end', async () => {
    const { text, idleTimeouts, exchange } = await callReplayed(true);
    expect(text).toBe(body);
    expect(exchange.responseLength).toBeUndefined();
    // During the stream, and after its end.
    expect(idleTimeouts).toEqual([0, clientStallMs / 1000]);
  });
});
