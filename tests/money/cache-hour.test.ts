/**
 * Input that a client wants kept for an hour, on a real gateway. A token in costs 3 credits, one
 * read from the cache 0.3, one written to it 3.75, one written for an hour 6, a token out 15.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { discrepancies } from '../support/book-check.ts';
import { json, say, startFakeUpstream, weirdUsage } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import {
  chargeFor,
  expectHold,
  expectOwnAccountFee,
  expectPriceTold,
  receiptOf,
} from '../support/money/price-class.ts';
import { answerIt, searchFor, startSearchRig } from '../support/search-rig.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const minutes = { prompt: '3', completion: '15', cache_read: '0.3', cache_write: '3.75' };
const pricing = { ...minutes, cache_write_1h: '6.00' };
const step = { above_tokens: 3_900, prompt: '6', cache_write_1h: '12.00' };

beforeAll(async () => {
  const claude = { dialect: 'anthropic', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-01' };
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
      chatModel('acme/one-price', at(minutes)),
      chatModel('acme/stepped', at({ ...pricing, long_prompts: [step] })),
    ],
  });
});
afterAll(async () => {
  expect(await discrepancies(gateway.store.database)).toEqual([]);
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messages = { path: '/v1/messages' };
const ask = (model: string, more: object = {}) => ({
  model,
  max_tokens: 16,
  messages: [{ role: 'user', content: 'Hello!' }],
  ...more,
});

function counts(forMinutes: number, forHour: number, more: object = {}) {
  return {
    input_tokens: 1_000,
    cache_creation_input_tokens: forMinutes + forHour,
    cache_read_input_tokens: 2_000,
    cache_creation: {
      ephemeral_5m_input_tokens: forMinutes,
      ephemeral_1h_input_tokens: forHour,
    },
    output_tokens: 100,
    ...more,
  };
}

const onlyHour = {
  ...counts(0, 1_000_000),
  input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
};

describe.each([
  ['a message', messages, {}],
  ['a streamed message', messages, { stream: true }],
  ['a chat', {}, {}],
  ['a streamed chat', {}, { stream: true }],
])('the charge for %s', (_, options, fields) => {
  test.each<[string, string, Record<string, unknown>, number]>([
    ['a million for an hour', 'acme/claude', onlyHour, 6_000_000],
    ['a million for an hour, without a price for it', 'acme/one-price', onlyHour, 3_750_000],
    // 3,000 + 600 + 400 × 3.75 + 500 × 6 + 1,500
    ['both', 'acme/claude', counts(400, 500), 9_600],
    // 3,000 + 600 + 900 × 3.75 + 1,500, from here on.
    ['minutes only', 'acme/claude', counts(900, 0), 8_475],
    ['both, without a price for it', 'acme/one-price', counts(400, 500), 8_475],
    [
      'parts that are more than the whole',
      'acme/claude',
      counts(400, 500, { cache_creation: { ephemeral_1h_input_tokens: 901 } }),
      8_475,
    ],
    // A prompt of 3,900 tokens is not above them.
    ['a short prompt', 'acme/stepped', counts(400, 500), 9_600],
    // 6,000 + 600 + 400 × 3.75 + 501 × 12 + 1,500
    ['a long prompt', 'acme/stepped', counts(400, 501), 15_612],
  ])('%s', async (_name, model, usage, credits) => {
    upstream.script('claude-x', weirdUsage(usage, say('hi')));
    expect(await chargeFor(gateway, ask(model, fields), options)).toBe(credits);
  });
});

test.each([false, true])(
  'LiteLLM before Anthropic is believed, too, streamed: %p',
  async (stream) => {
    const usage = {
      ...{ prompt_tokens: 3_900, completion_tokens: 100, total_tokens: 4_000 },
      ...{ cache_creation_input_tokens: 900, cache_read_input_tokens: 2_000 },
      prompt_tokens_details: {
        ...{ cached_tokens: 2_000, text_tokens: 1_000, cache_creation_tokens: 900 },
        cache_creation_token_details: counts(400, 500).cache_creation,
      },
    };
    upstream.script('claude-x', weirdUsage(usage, say('hi')));
    // As «both» above.
    expect(await chargeFor(gateway, ask('acme/proxied', { stream }))).toBe(9_600);
  },
);

describe('what clients are told', () => {
  test('those of Anthropic hear it in the provider’s own words', async () => {
    upstream.script('claude-x', weirdUsage(counts(400, 500), say('hi')));
    const whole = await gateway.post(ask('acme/claude'), messages);
    expect(whole.json.usage).toEqual(counts(400, 500));
    const streamed = await gateway.post(ask('acme/claude', { stream: true }), messages);
    expect(checkAnthropicStream(streamed.text)).toMatchObject({ ended: 'whole' });
    const { cache_creation: parts } = counts(400, 500);
    expect(streamed.text.split(`"cache_creation":${JSON.stringify(parts)}`)).toHaveLength(3);
  });

  test('those of OpenAI hear how much was written', async () => {
    upstream.script('claude-x', weirdUsage(counts(400, 500), say('hi')));
    const { json } = await gateway.post(ask('acme/claude'));
    expect(json.usage).toMatchObject({
      prompt_tokens: 3_900,
      prompt_tokens_details: { cached_tokens: 2_000, cache_write_tokens: 900 },
      total_tokens: 4_000,
      cost: 9_600,
    });
  });

  test('the receipt has a line for it, and lines that add up', async () => {
    upstream.script('claude-x', weirdUsage(counts(400, 500), say('hi')));
    const { requestId } = await gateway.post(ask('acme/claude'), messages);
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
    const unpriced = await gateway.post(ask('acme/one-price'), messages);
    const { lines } = await receiptOf(gateway, unpriced.requestId);
    expect(lines).toContainEqual({
      price: 'cache_write_1h',
      quantity: 500,
      per: 1_000_000,
      usd: '3.75',
      credits: '1875',
    });
  });

  test('the fee of an own account is a share of it', async () => {
    upstream.script('claude-x', weirdUsage(counts(400, 500), say('hi')));
    await expectOwnAccountFee(gateway, 960, {
      provider: 'claude',
      body: ask('acme/claude'),
      options: messages,
    });
  });

  test('each place tells its price, and the model list keeps its four', async () => {
    await expectPriceTold(gateway, 'acme/stepped', { pricing, long_prompts: [step] });
  });
});

/** 600 bytes, so 200 tokens at most, with one text to be kept. */
function bytes600(cache_control: object, model = 'acme/claude'): string {
  const body = (text: string) => {
    const content = [{ type: 'text', text, cache_control }];
    return JSON.stringify(ask(model, { messages: [{ role: 'user', content }] }));
  };
  return body('x'.repeat(600 - body('').length));
}

describe.each([
  ['a message', messages],
  ['a chat', {}],
])('the hold for %s', (_, options) => {
  const forHour = { type: 'ephemeral', ttl: '1h' };

  test.each<[string, object, string, number]>([
    // 200 × 6 + 16 × 15
    ['kept for an hour', forHour, 'acme/claude', 1_440],
    // 200 × 3.75 + 16 × 15
    ['kept for minutes', { type: 'ephemeral', ttl: '5m' }, 'acme/claude', 990],
    ['kept as long as is usual', { type: 'ephemeral' }, 'acme/claude', 990],
    ['kept for an hour at no price of its own', forHour, 'acme/one-price', 990],
  ])('that is %s', async (_name, mark, model, credits) => {
    upstream.script('claude-x', say('hi', { usage: { prompt: 1, completion: 1 } }));
    await expectHold(gateway, credits, bytes600(mark, model), options);
    // The provider is asked for what it is held for.
    const [asked] = upstream.book;
    expect(asked?.json).toMatchObject({
      messages: [{ role: 'user', content: [{ cache_control: mark }] }],
    });
  });
});

describe('what OpenAI keeps for twelve hours', () => {
  const responses = { path: '/v1/responses' };
  const wish = (ttl: string, input = 'Hello!') => ({
    ...{ model: 'acme/gpt', input, max_output_tokens: 16 },
    prompt_cache_options: { mode: 'implicit', ttl },
  });
  const written = (forHours: number) => ({
    input_tokens: 1_000,
    input_tokens_details: {
      ...{ cached_tokens: 100, cache_write_tokens: 600 },
      cache_write_tokens_details: { ttl_12h_tokens: forHours, ttl_30m_tokens: 600 - forHours },
    },
    output_tokens: 100,
    total_tokens: 1_100,
  });
  const answer = (usage: object) => json(200, { status: 'completed', output: [], usage });

  test.each<[string, object, number]>([
    // 300 × 3 + 100 × 0.3 + 200 × 3.75 + 400 × 6 + 1,500
    ['some of it', written(400), 5_580],
    // 300 × 3 + 100 × 0.3 + 600 × 3.75 + 1,500, from here on.
    ['none of it', written(0), 4_680],
    ['more than all of it', written(601), 4_680],
  ])('is charged for as what is kept for an hour: %s', async (_, usage, credits) => {
    upstream.script('gpt-x', answer(usage));
    expect(await chargeFor(gateway, wish('12h'), responses)).toBe(credits);
    const { json: told } = await gateway.post(wish('12h'), responses);
    expect(told.usage).toMatchObject({ ...usage, cost: credits });
    const chat = { model: 'acme/gpt', messages: [{ role: 'user', content: 'Hello!' }] };
    expect(await chargeFor(gateway, chat)).toBe(credits);
  });

  test.each<[string, number]>([
    // 200 × 6 + 16 × 15
    ['12h', 1_440],
    // 200 × 3.75 + 16 × 15
    ['30m', 990],
  ])('is held for: %s', async (ttl, credits) => {
    upstream.script('gpt-x', answer(written(0)));
    const room = 600 - JSON.stringify(wish(ttl, '')).length;
    await expectHold(gateway, credits, JSON.stringify(wish(ttl, 'x'.repeat(room))), responses);
    expect(upstream.book[0]?.json).toMatchObject({ prompt_cache_options: { ttl } });
  });
});

/** A round of 1,000 in, 2,000 read, 400 × 2 and 500 × 4 written, 100 × 2 out: 6,000 credits. */
test('the rounds of a search are told and charged together', async () => {
  const rig = await startSearchRig({}, { cache_write: '2', cache_write_1h: '4' });
  rig.reset();
  const rounds = [searchFor('weather today'), answerIt('It rained.')];
  rig.upstream.script(
    'chat',
    rounds.map((round) => weirdUsage(counts(400, 500), round)),
  );
  const tools = [{ type: 'web_search_20250305', name: 'web_search' }];
  const answer = await rig.gateway.post(ask('test/claude', { tools }), messages);
  expect(answer.json.usage).toMatchObject(counts(800, 1_000, { input_tokens: 2_000, ...twice }));
  expect((await rig.bill(answer)).model).toBe(12_000);
  await rig.stop();
});

const twice = { cache_read_input_tokens: 4_000, output_tokens: 200 };
