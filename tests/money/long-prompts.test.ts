/**
 * Prices that step with the prompt's length, on a real gateway. A token in costs 1 credit and one
 * out 2; in long prompts 3 and 5, and cached input 0.5 instead of 0.1. Requests are 400 bytes long:
 * 100 tokens where they must be estimated, and at most 134 when they are held for.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { discrepancies } from '../support/ledger-check.ts';
import { makeByokTenant } from '../support/byok.ts';
import {
  cutMidStream,
  gated,
  withoutUsage,
  chatAnswer,
  startFakeUpstream,
  status500,
  words,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway, type SendOptions } from '../support/in-process.ts';
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
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const at = (model: string, tokens: number, priority = 0) => ({
    provider: 'first',
    model,
    priority,
    pricing: above(tokens),
  });
  const dear = { prompt: '2', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    billing: { byok_fee_basis_points: 1_000 },
    providers: { first: fake, second: fake },
    models: [
      chatModel('test/above-99', [at('chat', 99)]),
      chatModel('test/above-100', [at('chat', 100)]),
      chatModel('test/above-133', [at('chat', 133)]),
      chatModel('test/above-134', [at('chat', 134)]),
      chatModel('test/stepped-first', [
        at('broken', 133),
        { provider: 'second', model: 'works', priority: 1, pricing: dear },
      ]),
      chatModel('test/flat-first', [
        { provider: 'second', model: 'broken', priority: 0, pricing: dear },
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

const used = (prompt: number, completion: number, cachedTokens = 0) =>
  chatAnswer('hello', { usage: { prompt, completion }, cachedTokens });

async function charged(model: string, fields: object = {}, options: SendOptions = {}) {
  const { requestId } = await gateway.post(bytes400(model, fields), options);
  return (await gateway.record(requestId)).charges.modelCharge;
}

describe.each([
  ['whole', {}],
  ['streamed', { stream: true }],
])('%s, the charge', (_, fields) => {
  test.each([
    ['at the step', used(100, 7), 100 + 14],
    ['one above it', used(101, 7), 303 + 35],
    // 40 plain and 60 cached are 100: 40 + 6 + 14.
    ['at the step with cached tokens', used(100, 7, 60), 60],
    // 40 plain and 61 cached are 101: 120 + 30.5 + 35, rounded up.
    ['one cached token above it', used(101, 7, 61), 186],
    ['far above it', used(1_000_000, 1), 3_000_005],
  ])('%s', async (_name, behavior, credits) => {
    upstream.script('chat', behavior);
    expect(await charged('test/above-100', fields)).toBe(credits);
  });
});

describe('an answer that does not come to its end', () => {
  /** 100 tokens by the estimate. */
  const messages = [{ role: 'user', content: 'x'.repeat(400) }];

  test.each([
    ['test/above-100', 100 * 1 + 3 * 2],
    ['test/above-99', 100 * 3 + 3 * 5],
  ])('cut by the provider of %s: by the estimated length', async (model, credits) => {
    upstream.script('chat', cutMidStream(5, 'end-of-body', chatAnswer(words(24))));
    const { requestId } = await gateway.post({ model, messages, stream: true });
    expect((await gateway.record(requestId)).charges.modelCharge).toBe(credits);
  });

  test('left by the client: the same', async () => {
    upstream.script('chat', gated('never', 5, chatAnswer(words(24))));
    const leaving = new AbortController();
    const body = { model: 'test/above-99', messages, stream: true };
    const response = await gateway.fetch(body, { signal: leaving.signal });
    await new SlowReader(response).readUntil('w4');
    leaving.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const record = await gateway.record(response.headers.get('x-request-id') ?? '');
    expect(record.charges.modelCharge).toBe(100 * 3 + 3 * 5);
  });

  test('a stream that outgrows its hold gets more at the step’s price, or ends', async () => {
    const long = withoutUsage(chatAnswer('word '.repeat(2_600), { chunks: 26, chunkDelayMs: 1 }));
    // 134 in and 4,096 out are held at first; three characters each later, 4,096 more.
    const [first, more] = [134 * 3 + 4_096 * 5, 4_096 * 5];
    const ended = async (limit: number) => {
      upstream.script('chat', long);
      const key = await gateway.makeKey({ limit });
      const body = JSON.parse(bytes400('test/above-133', { stream: true }));
      const { error, requestId } = await gateway.stream(body, { key });
      const { charges } = await gateway.record(requestId);
      return { type: error?.type, charge: charges.modelCharge };
    };
    // 13,000 characters are 3,250 tokens; 318 letters are 80 tokens in, a short prompt.
    expect(await ended(first + more)).toEqual({ type: undefined, charge: 80 + 3_250 * 2 });
    // 4,334 tokens of three characters are 238 more, at five credits each.
    expect((await ended(first + 238 * 5)).type).toBeUndefined();
    expect((await ended(first + 237 * 5)).type).toBe('insufficient_credits');
  });
});

describe('the wallet', () => {
  const capped = { max_tokens: 16 };
  // 134 tokens in and 16 out.
  const [short, long] = [134 * 1 + 16 * 2, 134 * 3 + 16 * 5];

  test.each([
    ['test/above-134', 'afford', short],
    ['test/above-133', 'step', long],
  ])('of %s pays exactly what is held', async (model, name, credits) => {
    upstream.script('chat', used(134, 16));
    const rich = await makeByokTenant(gateway, `${name}-exactly`, credits);
    const answer = await gateway.post(bytes400(model, capped), { key: rich.key });
    expect(answer.status).toBe(200);
    expect(answer.json.usage).toMatchObject({ cost: credits });
    await receiptOf(gateway, answer.requestId, { key: rich.key });
    expect(await gateway.store.creditStore.balance(rich.id)).toMatchObject({ balance: 0 });

    const poor = await makeByokTenant(gateway, `${name}-short-of-one`, credits - 1);
    const refused = await gateway.post(bytes400(model, capped), { key: poor.key });
    expect([refused.status, refused.error.type]).toEqual([402, 'insufficient_credits']);
    expect(refused.error.message).toContain(`${credits}`);
    const left = await gateway.store.creditStore.balance(poor.id);
    expect(left).toMatchObject({ balance: credits - 1 });
    expect(upstream.requests).toHaveLength(1);
  });

  test('that is short gets as much output as the step’s price affords', async () => {
    upstream.script('chat', used(10, 1));
    const key = await gateway.makeKey({ limit: 134 * 3 + 50 * 5 + 4 });
    await charged('test/above-133', {}, { key });
    expect(upstream.requests[0]?.json).toMatchObject({ max_tokens: 50 });
  });
});

describe('a fallback', () => {
  const capped = { max_tokens: 16 };

  test.each([
    ['test/stepped-first', 134 * 2 + 16 * 2],
    ['test/flat-first', 134 * 3 + 16 * 5],
  ])('from %s costs what the one that answered costs', async (model, credits) => {
    upstream.script('broken', status500());
    upstream.script('works', used(134, 16));
    expect(await charged(model, capped)).toBe(credits);
  });

  test.each(['test/stepped-first', 'test/flat-first'])(
    'from %s is held for at the dearer of the two',
    async (model) => {
      upstream.script('broken', status500());
      upstream.script('works', used(134, 16));
      const enough = await gateway.makeKey({ limit: 134 * 3 + 16 * 5 });
      const less = await gateway.makeKey({ limit: 134 * 3 + 16 * 5 - 1 });
      const answered = async (key: string) => {
        return (await gateway.post(bytes400(model, capped), { key })).status;
      };
      expect([await answered(less), await answered(enough)]).toEqual([402, 200]);
    },
  );
});

describe('what is shown', () => {
  test('the receipt has the prices that were used, and lines that add up', async () => {
    upstream.script('chat', used(101, 7, 61));
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
    upstream.script('chat', used(100, 7));
    const { requestId } = await gateway.post(bytes400('test/above-100'));
    const short = await receiptOf(gateway, requestId);
    expect(short).toMatchObject({ prices_above_tokens: null, cost: 114 });
    expect(short.prices).toEqual(flat);
  });

  test('the fee of an own account is a share of the step’s price', async () => {
    upstream.script('chat', used(101, 7));
    const tenant = await makeByokTenant(gateway, 'own-account', 1_000);
    await tenant.bring('first', { api_key: 'sk-mine-0123456789' });
    const { requestId } = await gateway.post(bytes400('test/above-100'), { key: tenant.key });
    // A tenth of 338 is 33.8.
    expect(await receiptOf(gateway, requestId, { key: tenant.key })).toMatchObject({
      prices: { prompt: '3', completion: '5', byok_fee_basis_points: '1000' },
      cost_breakdown: { model_charge: 0, byok_platform_fee: 34 },
    });
  });

  test('the model list keeps its four prices and has the steps beside them', async () => {
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
    const plain = await gateway.get('/v1/models/test/flat-first');
    expect(plain.json).not.toContainKey('long_prompts');
  });

  test('each place that serves a model tells its own', async () => {
    const { json } = await gateway.get('/v1/customer/models');
    const models = Array.isArray(json.data) ? json.data.filter(isObject) : [];
    const found = models.find(({ id }) => id === 'test/flat-first');
    const [plain, stepped] = Array.isArray(found?.endpoints) ? found.endpoints : [];
    expect(plain.pricing).toEqual({ prompt: '2', completion: '2' });
    expect(plain).not.toContainKey('long_prompts');
    expect(stepped.pricing).toEqual(flat);
    expect(stepped.long_prompts).toEqual(above(133).long_prompts);
  });
});

describe('routing goes by the prices of short prompts:', () => {
  test.each([
    ['max_price', { max_price: { prompt: 1 } }, 'first'],
    ['sort', { sort: 'price' }, 'first'],
  ])('%s', async (_, provider, answers) => {
    upstream.script('works', used(134, 16));
    const { requestId } = await gateway.post(bytes400('test/flat-first', { provider }));
    expect(await gateway.record(requestId)).toMatchObject({
      provider: answers,
      charges: { modelCharge: 134 * 3 + 16 * 5 },
    });
  });
});
