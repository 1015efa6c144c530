/**
 * Charges for prompt caching with a lifetime of 1 hour. An input token costs 3 credits, a cache
 * read 0.3, a cache write 3.75, a cache write for 1 hour 6, and an output token 15.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { chatAnswer, json, rawUsage, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { discrepancies } from '../support/ledger-check.ts';
import {
  chargeFor,
  expectHold,
  expectListedPrice,
  expectOwnAccountFee,
  receiptOf,
} from '../support/money/price-class.ts';
import { answerRound, searchRound, startSearchGateway } from '../support/search-gateway.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const fiveMinutePricing = { prompt: '3', completion: '15', cache_read: '0.3', cache_write: '3.75' };
const pricing = { ...fiveMinutePricing, cache_write_1h: '6.00' };
const tier = { above_tokens: 3_900, prompt: '6', cache_write_1h: '12.00' };

beforeAll(async () => {
  const claude = {
    dialect: 'anthropic',
    base_url: `${upstream.url}/v1`,
    api_key: 'sk-upstream-01',
  };
  const gpt = { ...claude, dialect: 'openai-responses' };
  const at = (prices: object) => [{ provider: 'claude', model: 'claude-x', pricing: prices }];
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    billing: { byok_fee_basis_points: 1_000 },
    providers: { claude, gpt, proxy: { ...claude, dialect: 'openai' } },
    models: [
      chatModel('acme/proxied', [{ provider: 'proxy', model: 'claude-x', pricing }]),
      chatModel('acme/gpt', [{ provider: 'gpt', model: 'gpt-x', pricing }]),
      chatModel('acme/claude', at(pricing)),
      chatModel('acme/one-price', at(fiveMinutePricing)),
      chatModel('acme/stepped', at({ ...pricing, long_prompts: [tier] })),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messagesApi = { path: '/v1/messages' };
const requestBody = (model: string, more: object = {}) => ({
  model,
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Hello!' }],
  ...more,
});

function usageWith(written5m: number, written1h: number, more: object = {}) {
  return {
    input_tokens: 1_000,
    cache_creation_input_tokens: written5m + written1h,
    cache_read_input_tokens: 2_000,
    cache_creation: {
      ephemeral_5m_input_tokens: written5m,
      ephemeral_1h_input_tokens: written1h,
    },
    output_tokens: 100,
    ...more,
  };
}

const only1h = {
  ...usageWith(0, 30_000),
  input_tokens: 0,
  cache_read_input_tokens: 0,
};

describe.each([
  ['message', messagesApi, {}],
  ['streaming message', messagesApi, { stream: true }],
  ['chat', {}, {}],
  ['streaming chat', {}, { stream: true }],
])('charge of a %s', (_, options, fields) => {
  test.each<[string, string, Record<string, unknown>, number]>([
    // 30,000 × 6 + 1,500 and 30,000 × 3.75 + 1,500
    ['30,000 tokens for 1 hour', 'acme/claude', only1h, 181_500],
    ['30,000 tokens for 1 hour without a price for it', 'acme/one-price', only1h, 114_000],
    // 3,000 + 600 + 400 × 3.75 + 500 × 6 + 1,500
    ['both lifetimes', 'acme/claude', usageWith(400, 500), 9_600],
    // 3,000 + 600 + 900 × 3.75 + 1,500. The next two cases cost the same.
    ['only 5 minutes', 'acme/claude', usageWith(900, 0), 8_475],
    ['both lifetimes without a price for 1 hour', 'acme/one-price', usageWith(400, 500), 8_475],
    [
      'a count for 1 hour that exceeds the total',
      'acme/claude',
      usageWith(400, 500, { cache_creation: { ephemeral_1h_input_tokens: 901 } }),
      8_475,
    ],
    // A prompt of 3,900 tokens isn't above 3,900 tokens.
    ["a prompt at the tier's limit", 'acme/stepped', usageWith(400, 500), 9_600],
    // 6,000 + 600 + 400 × 3.75 + 501 × 12 + 1,500
    ["a prompt above the tier's limit", 'acme/stepped', usageWith(400, 501), 15_612],
  ])('covers %s', async (_name, model, usage, credits) => {
    upstream.script('claude-x', rawUsage(usage, chatAnswer('hi')));
    expect(await chargeFor(gateway, requestBody(model, fields), options)).toBe(credits);
  });
});

test.each([false, true])(
  'reads the lifetimes that LiteLLM reports for Anthropic (streaming: %p)',
  async (stream) => {
    const usage = {
      ...{ prompt_tokens: 3_900, completion_tokens: 100, total_tokens: 4_000 },
      ...{ cache_creation_input_tokens: 900, cache_read_input_tokens: 2_000 },
      prompt_tokens_details: {
        ...{ cached_tokens: 2_000, text_tokens: 1_000, cache_creation_tokens: 900 },
        cache_creation_token_details: usageWith(400, 500).cache_creation,
      },
    };
    upstream.script('claude-x', rawUsage(usage, chatAnswer('hi')));
    // The same as "both lifetimes" above.
    expect(await chargeFor(gateway, requestBody('acme/proxied', { stream }))).toBe(9_600);
  },
);

describe('reports of cache writes', () => {
  test("Anthropic clients get the provider's usage unchanged", async () => {
    upstream.script('claude-x', rawUsage(usageWith(400, 500), chatAnswer('hi')));
    const reply = await gateway.post(requestBody('acme/claude'), messagesApi);
    expect(reply.json.usage).toEqual(usageWith(400, 500));
    const streamed = await gateway.post(requestBody('acme/claude', { stream: true }), messagesApi);
    expect(checkAnthropicStream(streamed.text)).toMatchObject({ ended: 'complete' });
    const { cache_creation: parts } = usageWith(400, 500);
    expect(streamed.text.split(`"cache_creation":${JSON.stringify(parts)}`)).toHaveLength(3);
  });

  test('OpenAI clients get the number of cache write tokens', async () => {
    upstream.script('claude-x', rawUsage(usageWith(400, 500), chatAnswer('hi')));
    const { json } = await gateway.post(requestBody('acme/claude'));
    expect(json.usage).toMatchObject({
      prompt_tokens: 3_900,
      prompt_tokens_details: { cached_tokens: 2_000, cache_write_tokens: 900 },
      total_tokens: 4_000,
      cost: 9_600,
    });
  });

  test('a receipt has a line per lifetime, and its lines add up', async () => {
    upstream.script('claude-x', rawUsage(usageWith(400, 500), chatAnswer('hi')));
    const { requestId } = await gateway.post(requestBody('acme/claude'), messagesApi);
    expect(await receiptOf(gateway, requestId)).toMatchObject({
      tokens: {
        input: 1_000,
        cache_read: 2_000,
        cache_write: 400,
        cache_write_1h: 500,
        prompt: 3_900,
      },
      prices: pricing,
      lines: [
        { price: 'prompt', quantity: 1_000, usd: '3', credits: '3000' },
        { price: 'cache_read', quantity: 2_000, usd: '0.3', credits: '600' },
        { price: 'cache_write', quantity: 400, usd: '3.75', credits: '1500' },
        { price: 'cache_write_1h', quantity: 500, usd: '6.00', credits: '3000' },
        { price: 'completion', quantity: 100, usd: '15', credits: '1500' },
      ],
      cost: 9_600,
    });
    const unpriced = await gateway.post(requestBody('acme/one-price'), messagesApi);
    const { lines } = await receiptOf(gateway, unpriced.requestId);
    expect(lines).toContainEqual({
      price: 'cache_write_1h',
      quantity: 500,
      per: 1_000_000,
      usd: '3.75',
      credits: '1875',
    });
  });

  test('the BYOK fee is a share of the list price with cache writes', async () => {
    upstream.script('claude-x', rawUsage(usageWith(400, 500), chatAnswer('hi')));
    await expectOwnAccountFee(gateway, 960, {
      provider: 'claude',
      body: requestBody('acme/claude'),
      options: messagesApi,
    });
  });

  test('model listings report the price of cache writes for 1 hour', async () => {
    await expectListedPrice(gateway, 'acme/stepped', { pricing, long_prompts: [tier] });
  });
});

/** Returns a body of 600 bytes, which are at most 200 tokens, with one text to cache. */
function bytes600(cache_control: object, model = 'acme/claude'): string {
  const body = (text: string) => {
    const content = [{ type: 'text', text, cache_control }];
    return JSON.stringify(requestBody(model, { messages: [{ role: 'user', content }] }));
  };
  return body('x'.repeat(600 - body('').length));
}

describe.each([
  ['message', messagesApi],
  ['chat', {}],
])('hold of a %s', (_, options) => {
  const oneHour = { type: 'ephemeral', ttl: '1h' };

  test.each<[string, object, string, number]>([
    // 200 × 6 + 16 × 15
    ['cached for 1 hour', oneHour, 'acme/claude', 1_440],
    // 200 × 3.75 + 16 × 15
    ['cached for 5 minutes', { type: 'ephemeral', ttl: '5m' }, 'acme/claude', 990],
    ['cached for the default time', { type: 'ephemeral' }, 'acme/claude', 990],
    ['cached for 1 hour without a price for it', oneHour, 'acme/one-price', 990],
  ])('covers input that is %s', async (_name, cacheControl, model, credits) => {
    upstream.script('claude-x', chatAnswer('hi', { usage: { prompt: 1, completion: 1 } }));
    await expectHold(gateway, credits, bytes600(cacheControl, model), options);
    // The provider gets the same lifetime that the hold covers.
    const [request] = upstream.requests;
    expect(request?.json).toMatchObject({
      messages: [{ role: 'user', content: [{ cache_control: cacheControl }] }],
    });
  });
});

describe('OpenAI cache writes for 12 hours', () => {
  const responses = { path: '/v1/responses' };
  const withTtl = (ttl: string, input = 'Hello!') => ({
    ...{ model: 'acme/gpt', input, max_output_tokens: 16 },
    prompt_cache_options: { mode: 'implicit', ttl },
  });
  const usageOf = (written12h: number) => ({
    input_tokens: 1_000,
    input_tokens_details: {
      ...{ cached_tokens: 100, cache_write_tokens: 600 },
      cache_write_tokens_details: { ttl_12h_tokens: written12h, ttl_30m_tokens: 600 - written12h },
    },
    output_tokens: 100,
    total_tokens: 1_100,
  });
  const answer = (usage: object) => json(200, { status: 'completed', output: [], usage });

  test.each<[string, object, number]>([
    // 300 × 3 + 100 × 0.3 + 200 × 3.75 + 400 × 6 + 1,500
    ['some of the tokens', usageOf(400), 5_580],
    // 300 × 3 + 100 × 0.3 + 600 × 3.75 + 1,500. The next case costs the same.
    ['none of the tokens', usageOf(0), 4_680],
    ['more tokens than were written', usageOf(601), 4_680],
  ])('are charged at the price for 1 hour: %s', async (_, usage, credits) => {
    upstream.script('gpt-x', answer(usage));
    const body = { ...withTtl('12h'), max_output_tokens: 100 };
    expect(await chargeFor(gateway, body, responses)).toBe(credits);
    const reply = await gateway.post(body, responses);
    expect(reply.json.usage).toMatchObject({ ...usage, cost: credits });
    const chat = { model: 'acme/gpt', messages: [{ role: 'user', content: 'Hello!' }] };
    expect(await chargeFor(gateway, chat)).toBe(credits);
  });

  test.each<[string, number]>([
    // 200 × 6 + 16 × 15
    ['12h', 1_440],
    // 200 × 3.75 + 16 × 15
    ['30m', 990],
  ])('are held for ttl %s', async (ttl, credits) => {
    upstream.script('gpt-x', answer(usageOf(0)));
    const inputLength = 600 - JSON.stringify(withTtl(ttl, '')).length;
    await expectHold(
      gateway,
      credits,
      JSON.stringify(withTtl(ttl, 'x'.repeat(inputLength))),
      responses,
    );
    expect(upstream.requests[0]?.json).toMatchObject({ prompt_cache_options: { ttl } });
  });
});

// Each round costs 6,000 credits: 1,000 of input, 2,000 of cache reads, 400 × 2 and 500 × 4 of
// cache writes, and 100 × 2 of output.
test('a web search reports and charges the cache writes of all rounds', async () => {
  const rig = await startSearchGateway({}, { cache_write: '2', cache_write_1h: '4' });
  rig.reset();
  const rounds = [searchRound('weather today'), answerRound('It rained.')];
  rig.upstream.script(
    'chat',
    rounds.map((round) => rawUsage(usageWith(400, 500), round)),
  );
  const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
  const answer = await rig.gateway.post(requestBody('test/claude', { tools }), messagesApi);
  expect(answer.json.usage).toMatchObject(
    usageWith(800, 1_000, { input_tokens: 2_000, ...doubled }),
  );
  expect((await rig.bill(answer)).model).toBe(12_000);
  await rig.stop();
});

const doubled = { cache_read_input_tokens: 4_000, output_tokens: 200 };
