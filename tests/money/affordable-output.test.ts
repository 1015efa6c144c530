/**
 * Output caps that depend on the wallet. A hold covers the first 4,096 output tokens, but no answer
 * may cost more than the wallet has. An input token costs 1 credit, and an output token costs 2.
 * The hold for a request of 400 bytes covers 134 input tokens.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  chatAnswer,
  rawUsage,
  startFakeUpstream,
  status500,
  withoutUsage,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' };
  const cheap = { provider: 'fake', model: 'chat', pricing: { prompt: '1', completion: '2' } };
  const expensive = {
    provider: 'fake',
    model: 'expensive',
    pricing: { prompt: '1', completion: '20' },
  };
  const endpoints = [cheap];
  const cap = { max_completion_tokens: 64_000 };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { fake },
    models: [
      chatModel('test/long', endpoints, cap),
      chatModel('test/open', endpoints),
      chatModel('test/tight', endpoints, { ...cap, context_length: 64_133 }),
      chatModel('test/cents', [{ ...cheap, pricing: { prompt: '0.1', completion: '0.3' } }], cap),
      chatModel(
        'test/two',
        [
          { ...expensive, priority: 0 },
          { ...cheap, priority: 1 },
        ],
        cap,
      ),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

function bytes400(fields: object): Record<string, unknown> {
  const body = (content: string) => ({ messages: [{ role: 'user', content }], ...fields });
  return body('x'.repeat(400 - JSON.stringify(body('')).length));
}

const counted = (prompt_tokens: number, completion_tokens: number) =>
  rawUsage({ prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens });

let tenants = 0;
const tenantWith = (credits: number) => makeByokTenant(gateway, `afford-${++tenants}`, credits);

/** Returns the output cap in the request to the upstream. */
async function sentCap(fields: object, key: string): Promise<unknown> {
  upstream.reset();
  upstream.script('chat', counted(10, 1));
  const reply = await gateway.post(bytes400(fields), { key });
  expect(reply.status).toBe(200);
  const sent = upstream.requests[0]?.json;
  return isObject(sent) ? sent.max_tokens : 'no request';
}

describe('output cap', () => {
  test('is lowered to what the wallet can pay, beyond the first hold', async () => {
    const { key } = await tenantWith(20_134);
    expect(await sentCap({ model: 'test/long', max_tokens: 30_000 }, key)).toBe(10_000);
  });

  test('is added if the client sets none and the model could exceed the wallet', async () => {
    const { key } = await tenantWith(20_134);
    expect(await sentCap({ model: 'test/long' }, key)).toBe(10_000);
  });

  test("stays at the client's cap if the wallet can pay for it", async () => {
    const { key } = await tenantWith(134 + 60_000);
    expect(await sentCap({ model: 'test/long', max_tokens: 30_000 }, key)).toBe(30_000);
  });

  test("is the model's maximum if the client sets none and the wallet suffices", async () => {
    const { key } = await tenantWith(134 + 2 * 64_000);
    expect(await sentCap({ model: 'test/long' }, key)).toBe(64_000);
  });

  test('is omitted if it may not fit into the context with the prompt', async () => {
    const { key } = await tenantWith(1_000_000);
    expect(await sentCap({ model: 'test/tight' }, key)).toBeUndefined();
  });

  test("is omitted if the model's maximum is unknown", async () => {
    const { key } = await tenantWith(20_134);
    expect(await sentCap({ model: 'test/open' }, key)).toBeUndefined();
  });

  test("is lowered to what the key's limit can pay", async () => {
    const key = await gateway.makeKey({ limit: 12_134 });
    expect(await sentCap({ model: 'test/long' }, key)).toBe(6_000);
  });

  test('rises as soon as credits are granted', async () => {
    const { id, key } = await tenantWith(20_134);
    const fields = { model: 'test/long', max_tokens: 30_000 };
    expect(await sentCap(fields, key)).toBe(10_000);
    const { creditStore } = gateway.store;
    const now = Date.now();
    await creditStore.change({ tenantId: id, amount: 20_012, note: '', idempotencyKey: null, now });
    // The first request cost 12 credits.
    expect(await sentCap(fields, key)).toBe(20_000);
  });
});

test('admin reports count leased credits as part of the wallet', async () => {
  const { id, key } = await tenantWith(5_000);
  await sentCap({ model: 'test/open', max_tokens: 100 }, key);
  const data = async (path: string) =>
    (await gateway.get(path, { key: gateway.keys.admin })).json.data;
  const tenants = (await data('/admin/v1/tenants?limit=100')) as TenantRow[];
  expect(tenants.find((tenant) => tenant.id === id)?.credits).toMatchObject({ total: 4_988 });
  const total = tenants.reduce((sum, { credits }) => sum + credits.total, 0);
  const credits = { total, held: 0, available: total };
  expect(await data('/admin/v1/overview')).toMatchObject({ tenants: tenants.length, credits });
});

interface TenantRow {
  readonly id: string;
  readonly credits: { readonly total: number };
}

describe('answer shortened by a lack of credits', () => {
  const fields = { model: 'test/long', max_tokens: 1_000, temperature: 0 };

  test('is not served from the cache to a key that can pay for a longer one', async () => {
    upstream.script('chat', chatAnswer('Once', { finish: 'length' }));
    const { json } = await gateway.post(bytes400(fields), {
      key: await gateway.makeKey({ limit: 200 }),
    });
    expect(json.choices).toMatchObject([{ finish_reason: 'length' }]);
    upstream.script('chat', chatAnswer('Once upon a time'));
    const full = await gateway.post(bytes400(fields));
    expect(full.json.choices).toMatchObject([{ message: { content: 'Once upon a time' } }]);
    // The full answer is served from the cache, even to a key that couldn't have paid for it.
    const again = await gateway.post(bytes400(fields), {
      key: await gateway.makeKey({ limit: 200 }),
    });
    expect([again.json.choices, upstream.requests.length]).toEqual([full.json.choices, 2]);
  });

  test('is replayed for its Idempotency-Key, because it was charged', async () => {
    const { key } = await tenantWith(200);
    upstream.script('chat', chatAnswer('Once', { finish: 'length' }));
    const headers = { 'idempotency-key': 'short' };
    const first = await gateway.post(bytes400(fields), { key, headers });
    const again = await gateway.post(bytes400(fields), { key, headers });
    expect([again.json.choices, upstream.requests.length]).toEqual([first.json.choices, 1]);
  });
});

describe('answer that reaches its output cap', () => {
  test("uses the wallet's last credit and no more", async () => {
    const { id, key } = await tenantWith(20_134);
    upstream.script('chat', counted(134, 10_000));
    const { json, requestId } = await gateway.post(bytes400({ model: 'test/long' }), { key });
    expect(json.usage).toMatchObject({ cost: 20_134 });
    const { note } = await gateway.record(requestId, id);
    expect(note).toBeNull();
    expect(await gateway.store.creditStore.balance(id)).toMatchObject({ balance: 0 });
  });

  test.each([
    ['test/long', 20_134, 10_000],
    // 13.4 credits for the prompt and 2,999.4 for the output, so each extension is rounded.
    ['test/cents', 3_013, 9_998],
    // All credits were held for the more expensive offer, which fails.
    ['test/two', 20_134, 10_000],
  ])('streams to its end without an error: %s', async (model, credits, maxTokens) => {
    const { id, key } = await tenantWith(credits);
    const text = 'word'.repeat(maxTokens);
    const usage = {
      prompt_tokens: 134,
      completion_tokens: maxTokens,
      total_tokens: 134 + maxTokens,
    };
    upstream.script('expensive', status500());
    upstream.script('chat', rawUsage(usage, chatAnswer(text, { chunks: 50, chunkDelayMs: 2 })));
    const answer = await gateway.stream(bytes400({ model, stream: true }), { key });
    expect([answer.error, answer.content.length]).toEqual([undefined, text.length]);
    expect(upstream.requests.at(-1)?.json).toMatchObject({ max_tokens: maxTokens });
    expect(await gateway.record(answer.requestId, id)).toMatchObject({
      charges: { modelCharge: credits },
    });
    expect(await gateway.store.creditStore.balance(id)).toMatchObject({ balance: 0 });
  });

  test('continues without a cap until the credits are almost used up', async () => {
    const { key } = await tenantWith(134 + 2 * 6_000);
    upstream.script(
      'chat',
      withoutUsage(chatAnswer('abc'.repeat(9_000), { chunks: 900, chunkDelayMs: 1 })),
    );
    const answer = await gateway.stream(bytes400({ model: 'test/open' }), { key });
    expect(answer.error?.type).toBe('insufficient_credits');
    // The credits cover 6,000 tokens of 3 characters. The chunk that exceeds them is the last.
    expect(answer.content.length).toBeWithin(18_000, 18_000 + 3_000);
  });
});
