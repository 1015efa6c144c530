/** Clients that leave a whole answer behind: the searches that were made for it are paid for. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { hangBeforeHeaders } from '../support/fake-upstream.ts';
import { contentOf, type SendOptions } from '../support/in-process.ts';
import { answerIt, chat, searchFor, startSearchRig } from '../support/search-rig.ts';

const rig = await startSearchRig();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

/** Hangs up while the model writes its answer, and tells what stands in the log then. */
async function leave(options: SendOptions = {}): Promise<Record<string, unknown>> {
  const before = await newest();
  const leaving = new AbortController();
  const left = rig.gateway
    .fetch(chat(), { ...options, signal: leaving.signal })
    .catch(() => undefined);
  await rig.upstream.until((book) => book[1]?.outcome === 'hung');
  leaving.abort();
  await left;
  let row = before;
  for (; row.id === before.id; row = await newest()) await Bun.sleep(2);
  return row;
}

async function newest(): Promise<Record<string, unknown>> {
  const { json } = await rig.gateway.get('/v1/customer/logs?limit=1');
  const [row]: unknown[] = Array.isArray(json.logs) ? json.logs : [];
  return isObject(row) ? row : {};
}

test('a search that was made is charged, with the round that asked for it', async () => {
  rig.upstream.script('chat', [searchFor('q'), hangBeforeHeaders()]);
  const row = await leave();
  expect(rig.engine.asked).toHaveLength(1);
  // 100 + 2 × 10 for the round, 5,000 for the search.
  expect(row).toMatchObject({ status: 'success', cost: 5_120 });
  expect(row.cost_breakdown).toMatchObject({ model_charge: 120, managed_tool_fee: 5_000 });
  const { json } = await rig.gateway.get(`/v1/generation?id=${row.request_id}`);
  expect(json.data).toMatchObject({ cancelled: true, total_cost: 5_120, finish_reason: '' });
});

test('its answer is nobody’s: who repeats it gets one of its own', async () => {
  const named = { headers: { 'idempotency-key': 'left' } };
  rig.upstream.script('chat', [searchFor('q'), hangBeforeHeaders(), answerIt('It rains.')]);
  await leave(named);
  const again = await rig.gateway.post(chat(), named);
  expect([contentOf(again), again.headers.get('idempotent-replayed')]).toEqual(['It rains.', null]);
});

test('a search that failed leaves nothing to pay', async () => {
  rig.engine.misbehave(500);
  rig.upstream.script('chat', [searchFor('q'), hangBeforeHeaders()]);
  expect(await leave()).toMatchObject({ status: 'error', cost: 0 });
});
