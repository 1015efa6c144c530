/** Charges for searches if the client disconnects before it has received a non-streaming answer. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { hangBeforeHeaders } from '../support/fake-upstream.ts';
import { contentOf, type SendOptions } from '../support/in-process.ts';
import { answerRound, chat, searchRound, startSearchGateway } from '../support/search-gateway.ts';

const rig = await startSearchGateway();
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

/** Disconnects while the model answers in this round and returns the row of the request log. */
async function disconnect(
  options: SendOptions = {},
  round = 2,
  at = rig,
): Promise<Record<string, unknown>> {
  const before = await newestRow(at);
  const client = new AbortController();
  const response = at.gateway
    .fetch(chat(), { ...options, signal: client.signal })
    .catch(() => undefined);
  await at.upstream.until((requests) => requests[round - 1]?.outcome === 'hung');
  client.abort();
  await response;
  let row = before;
  for (; row.id === before.id; row = await newestRow(at)) await Bun.sleep(2);
  return row;
}

async function newestRow({ gateway }: typeof rig): Promise<Record<string, unknown>> {
  const { json } = await gateway.get('/v1/customer/logs?limit=1');
  const [row]: unknown[] = Array.isArray(json.logs) ? json.logs : [];
  return isObject(row) ? row : {};
}

test('a search and its rounds are charged if the client disconnects from a non-streaming request', async () => {
  rig.upstream.script('chat', [searchRound('q'), hangBeforeHeaders()]);
  const row = await disconnect();
  expect(rig.engine.searches).toHaveLength(1);
  // 100 + 2 × 10 for the first round, 5,000 for the search, and the second round's input.
  expect(row).toMatchObject({ status: 'success', cost: 5_120 + 200 });
  expect(row.cost_breakdown).toMatchObject({ model_charge: 320, managed_tool_fee: 5_000 });
  const { json } = await rig.gateway.get(`/v1/generation?id=${row.request_id}`);
  expect(json.data).toMatchObject({ cancelled: true, total_cost: 5_320, finish_reason: '' });
});

test('an answer is not replayed for its idempotency key if the client disconnected', async () => {
  const options = { headers: { 'idempotency-key': 'abandoned' } };
  rig.upstream.script('chat', [searchRound('q'), hangBeforeHeaders(), answerRound('It rains.')]);
  await disconnect(options);
  const again = await rig.gateway.post(chat(), options);
  expect([contentOf(again), again.headers.get('idempotent-replayed')]).toEqual(['It rains.', null]);
});

test('a failed search is free, but its rounds are charged if the client disconnects', async () => {
  rig.engine.failWith(500);
  rig.upstream.script('chat', [searchRound('q'), hangBeforeHeaders()]);
  const row = await disconnect();
  expect(row).toMatchObject({ status: 'success', cost: 120 + 155 });
  expect(row.cost_breakdown).toMatchObject({ managed_tool_fee: 0 });
});

test('only the input is charged if the client disconnects during the first round', async () => {
  rig.upstream.script('chat', hangBeforeHeaders());
  const row = await disconnect({}, 1);
  // The question and the search tool.
  expect(row).toMatchObject({ status: 'error', error: null, cost: 117 });
});

test('the input of the running round is free with billing.abandoned set to free', async () => {
  const free = await startSearchGateway({}, {}, { abandoned: 'free' });
  free.reset();
  free.upstream.script('chat', [searchRound('q'), hangBeforeHeaders()]);
  expect(await disconnect({}, 2, free)).toMatchObject({ status: 'success', cost: 5_120 });
  await free.stop();
});
