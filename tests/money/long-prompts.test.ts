/**
 * Price tiers for long prompts. An input token costs 1 credit and an output token 2; with long
 * prompts, they cost 3 and 5, and cached input costs 0.5 instead of 0.1. Requests have 400 bytes,
 * which are estimated as 100 tokens and held as 134.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  chatAnswer,
  cutMidStream,
  gated,
  startFakeUpstream,
  status500,
  withoutUsage,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type SendOptions } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { receiptOf } from '../support/money/price-class.ts';
import { SlowReader } from '../support/sse-client.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const flat = { prompt: '1', completion: '2', cache_read: '0.1' };
const above = (above_tokens: number) => ({
  ...flat,
  long_prompts: [{ above_tokens, prompt: '3', completion: '5', cache_read: '0.5' }],
});

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-012345' };
  const at = (model: string, tokens: number, priority = 0) => ({
    provider: 'first',
    model,
    priority,
    pricing: above(tokens),
  });
  const expensive = { prompt: '2', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    billing: { byok_fee_basis_points: 1_000 },
    providers: { first: fake, second: fake },
    models: [
      chatModel('test/above-99', [at('chat', 99)]),
      chatModel('test/above-100', [at('chat', 100)]),
      chatModel('test/above-133', [at('chat', 133)]),
      chatModel('test/above-134', [at('chat', 134)]),
      chatModel('test/tiered-first', [
        at('broken', 133),
        { provider: 'second', model: 'works', priority: 1, pricing: expensive },
      ]),
      chatModel('test/flat-first', [
        { provider: 'second', model: 'broken', priority: 0, pricing: expensive },
        at('works', 133, 1),
      ]),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

function bytes400(model: string, fields: object = {}): string {
  const body = (content: string) =>
    JSON.stringify({ model, messages: [{ role: 'user', content }], ...fields });
  return body('x'.repeat(400 - body('').length));
}

const answerWith = (prompt: number, completion: number, cachedTokens = 0) =>
  chatAnswer('hello', { usage: { prompt, completion }, cachedTokens });

async function chargeFor(model: string, fields: object = {}, options: SendOptions = {}) {
  const { requestId } = await gateway.post(bytes400(model, fields), options);
  return (await gateway.record(requestId)).charges.modelCharge;
}

describe.each([
  ['non-streaming', {}],
  ['streaming', { stream: true }],
])('charge of a %s answer', (_, fields) => {
  test.each([
    ["at the tier's limit", answerWith(100, 7), 100 + 14],
    ['1 token above the limit', answerWith(101, 7), 303 + 35],
    // 40 uncached and 60 cached tokens are 100: 40 + 6 + 14.
    ['at the limit with cached tokens', answerWith(100, 7, 60), 60],
    // 40 uncached and 61 cached tokens are 101: 120 + 30.5 + 35, rounded up.
    ['1 cached token above the limit', answerWith(101, 7, 61), 186],
    ['far above the limit', answerWith(30_000, 1), 90_005],
  ])('uses the prices of a prompt %s', async (_name, behavior, credits) => {
    upstream.script('chat', behavior);
    expect(await chargeFor('test/above-100', fields)).toBe(credits);
  });
});

describe('interrupted answer', () => {
  /** Estimated as 100 tokens. */
  const messages = [{ role: 'user', content: 'x'.repeat(400) }];

  test.each([
    ['test/above-100', 100 * 1 + 3 * 2],
    ['test/above-99', 100 * 3 + 3 * 5],
  ])('is charged by the estimated length of its prompt: %s', async (model, credits) => {
    upstream.script('chat', cutMidStream(5, 'end-of-body', chatAnswer(words(24))));
    const { requestId } = await gateway.post({ model, messages, stream: true });
    expect((await gateway.record(requestId)).charges.modelCharge).toBe(credits);
  });

  test('is charged the same if the client disconnects', async () => {
    upstream.script('chat', gated('never', 5, chatAnswer(words(24))));
    const client = new AbortController();
    const body = { model: 'test/above-99', messages, stream: true };
    const response = await gateway.fetch(body, { signal: client.signal });
    await new SlowReader(response).readUntil('w4');
    client.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(record.charges.modelCharge).toBe(100 * 3 + 3 * 5);
  });

  test("extends its hold at the tier's price, or ends without credits", async () => {
    const long = withoutUsage(chatAnswer('word '.repeat(2_600), { chunks: 26, chunkDelayMs: 1 }));
    // The first hold covers 134 input and 4,096 output tokens, the next 4,096 more output tokens.
    const [first, more] = [134 * 3 + 4_096 * 5, 4_096 * 5];
    const streamWithLimit = async (limit: number) => {
      upstream.script('chat', long);
      const key = await gateway.makeKey({ limit });
      const body = JSON.parse(bytes400('test/above-133', { stream: true }));
      const { error, requestId } = await gateway.stream(body, { key });
      const { charges } = await gateway.record(requestId);
      return { type: error?.type, charge: charges.modelCharge };
    };
    // 13,000 characters are 3,250 tokens. The prompt of 318 characters is short: 80 tokens.
    expect(await streamWithLimit(first + more)).toEqual({
      type: undefined,
      charge: 80 + 3_250 * 2,
    });
    // A hold counts 3 characters per token: 4,334 tokens, 238 more than the first hold covers.
    expect((await streamWithLimit(first + 238 * 5)).type).toBeUndefined();
    expect((await streamWithLimit(first + 237 * 5)).type).toBe('insufficient_credits');
  });
});

describe('hold', () => {
  const capped = { max_tokens: 16 };
  // 134 input and 16 output tokens.
  const [short, long] = [134 * 1 + 16 * 2, 134 * 3 + 16 * 5];

  test.each([
    ['test/above-134', 'below', short],
    ['test/above-133', 'above', long],
  ])('of %s needs exactly the credits of the tier that may apply', async (model, name, credits) => {
    upstream.script('chat', answerWith(134, 16));
    const rich = await makeByokTenant(gateway, `${name}-exact`, credits);
    const answer = await gateway.post(bytes400(model, capped), { key: rich.key });
    expect(answer.status).toBe(200);
    expect(answer.json.usage).toMatchObject({ cost: credits });
    await receiptOf(gateway, answer.requestId, { key: rich.key });
    expect(await gateway.store.creditStore.balance(rich.id)).toMatchObject({ balance: 0 });

    const poor = await makeByokTenant(gateway, `${name}-short`, credits - 1);
    const rejected = await gateway.post(bytes400(model, capped), { key: poor.key });
    expect([rejected.status, rejected.error.type]).toEqual([402, 'insufficient_credits']);
    expect(rejected.error.message).toContain(`${credits}`);
    const left = await gateway.store.creditStore.balance(poor.id);
    expect(left).toMatchObject({ balance: credits - 1 });
    expect(upstream.requests).toHaveLength(1);
  });

  test("lowers the output cap by the tier's price if credits are short", async () => {
    upstream.script('chat', answerWith(10, 1));
    const key = await gateway.makeKey({ limit: 134 * 3 + 50 * 5 + 4 });
    await chargeFor('test/above-133', {}, { key });
    expect(upstream.requests[0]?.json).toMatchObject({ max_tokens: 50 });
  });
});

describe('fallback', () => {
  const capped = { max_tokens: 16 };

  test.each([
    ['test/tiered-first', 134 * 2 + 16 * 2],
    ['test/flat-first', 134 * 3 + 16 * 5],
  ])('is charged at the price of the offer that answered: %s', async (model, credits) => {
    upstream.script('broken', status500());
    upstream.script('works', answerWith(134, 16));
    expect(await chargeFor(model, capped)).toBe(credits);
  });

  test.each(['test/tiered-first', 'test/flat-first'])(
    'holds the price of the more expensive offer: %s',
    async (model) => {
      upstream.script('broken', status500());
      upstream.script('works', answerWith(134, 16));
      const enough = await gateway.makeKey({ limit: 134 * 3 + 16 * 5 });
      const less = await gateway.makeKey({ limit: 134 * 3 + 16 * 5 - 1 });
      const statusFor = async (key: string) => {
        return (await gateway.post(bytes400(model, capped), { key })).status;
      };
      expect([await statusFor(less), await statusFor(enough)]).toEqual([402, 200]);
    },
  );
});

describe('reports of price tiers', () => {
  test('a receipt has the applied prices, and its lines add up', async () => {
    upstream.script('chat', answerWith(101, 7, 61));
    const long = await gateway.post(bytes400('test/above-100'));
    expect(await receiptOf(gateway, long.requestId)).toMatchObject({
      prices: { prompt: '3', completion: '5', cache_read: '0.5' },
      prices_above_tokens: 100,
      lines: [
        { price: 'prompt', quantity: 40, usd: '3', credits: '120' },
        { price: 'cache_read', quantity: 61, usd: '0.5', credits: '30.5' },
        { price: 'completion', quantity: 7, usd: '5', credits: '35' },
      ],
      cost: 186,
    });
    upstream.script('chat', answerWith(100, 7));
    const { requestId } = await gateway.post(bytes400('test/above-100'));
    const short = await receiptOf(gateway, requestId);
    expect(short).toMatchObject({ prices_above_tokens: null, cost: 114 });
    expect(short.prices).toEqual(flat);
  });

  test("the BYOK fee is a share of the tier's price", async () => {
    upstream.script('chat', answerWith(101, 7));
    const tenant = await makeByokTenant(gateway, 'byok', 1_000);
    await tenant.setProviderKey('first', { api_key: 'sk-mine-0123456789' });
    const { requestId } = await gateway.post(bytes400('test/above-100'), { key: tenant.key });
    // 10% of 338 are 33.8.
    expect(await receiptOf(gateway, requestId, { key: tenant.key })).toMatchObject({
      prices: { prompt: '3', completion: '5', byok_fee_basis_points: '1000' },
      cost_breakdown: { model_charge: 0, byok_platform_fee: 34 },
    });
  });

  test('the model list has the price tiers in addition to the base prices', async () => {
    const { json } = await gateway.get('/v1/models/test/above-100');
    expect(json.pricing).toEqual({
      prompt: '0.000001',
      completion: '0.000002',
      request: '0',
      image: '0',
    });
    expect(json.long_prompts).toEqual([
      { above_tokens: 100, prompt: '0.000003', completion: '0.000005' },
    ]);
    const flatModel = await gateway.get('/v1/models/test/flat-first');
    expect(flatModel.json).not.toContainKey('long_prompts');
  });

  test("the customer's model list has the tiers of each endpoint", async () => {
    const { json } = await gateway.get('/v1/customer/models');
    const models = Array.isArray(json.data) ? json.data.filter(isObject) : [];
    const found = models.find(({ id }) => id === 'test/flat-first');
    const [flatEndpoint, tieredEndpoint] = Array.isArray(found?.endpoints) ? found.endpoints : [];
    expect(flatEndpoint.pricing).toEqual({ prompt: '2', completion: '2' });
    expect(flatEndpoint).not.toContainKey('long_prompts');
    expect(tieredEndpoint.pricing).toEqual(flat);
    expect(tieredEndpoint.long_prompts).toEqual(above(133).long_prompts);
  });
});

describe('routing', () => {
  test.each([
    ['max_price', { max_price: { prompt: 1 } }, 'first'],
    ['sort', { sort: 'price' }, 'first'],
  ])('compares the prices of short prompts for %s', async (_, provider, expectedProvider) => {
    upstream.script('works', answerWith(134, 16));
    const { requestId } = await gateway.post(bytes400('test/flat-first', { provider }));
    expect(await gateway.record(requestId)).toMatchObject({
      provider: expectedProvider,
      charges: { modelCharge: 134 * 3 + 16 * 5 },
    });
  });
});
