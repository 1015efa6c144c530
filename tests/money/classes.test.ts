/**
 * Recorded answers priced to the credit, by hand. Tokens in cost 2 credits, cached ones 0.2,
 * written to the cache 2.5, tokens out 8, reasoning among them. What a provider counts twice must
 * not be paid twice, and what it hides must be paid once.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { replay, chatAnswer, startFakeUpstream, rawUsage } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const pricing = { prompt: '2', cache_read: '0.2', cache_write: '2.5', completion: '8' };
  const dialects = ['openai', 'anthropic', 'gemini'];
  const at = (dialect: string, version: string) => ({
    dialect,
    base_url: `${upstream.url}/${version}`,
    api_key: 'sk-theirs-012345',
  });
  gateway = await InProcessGateway.start({
    providers: {
      openai: at('openai', 'v1'),
      anthropic: at('anthropic', 'v1'),
      gemini: at('gemini', 'v1beta'),
    },
    models: dialects.map((provider) =>
      chatModel(`test/${provider}`, [{ provider, model: 'chat', pricing }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

async function billed(stream: boolean, dialect = 'openai') {
  const messages = [{ role: 'user', content: 'Hello there, please answer.' }];
  const { requestId } = await gateway.post({ model: `test/${dialect}`, messages, stream });
  return gateway.record(requestId);
}

async function expectCost(file: string, credits: number, dialect?: string): Promise<void> {
  const isStream = file.endsWith('.sse');
  const contentType = isStream ? 'text/event-stream' : 'application/json';
  const bytes = readFileSync(new URL(`../../fixtures/${file}`, import.meta.url));
  upstream.script('chat', replay(bytes, { contentType }));
  const record = await billed(isStream, dialect);
  expect(record.usageEstimated).toBe(false);
  expect(record.charges.modelCharge).toBe(credits);
}

test.each([
  ['openai/chat-text.json', 16 * 2 + 363 * 8],
  // 448 of the 467 tokens out are reasoning.
  ['openai/chat-reasoning-o3-mini.json', 31 * 2 + 467 * 8],
  ['openai/chat-text-stream.sse', 14 * 2 + 8 * 8],
  // 320 of the 339 tokens in were cached, and DeepSeek says so twice: 38 + 64 + 736.
  ['deepseek/tool-call-reasoning.json', 838],
  // 290 of 291 cached; 196 tokens of reasoning stand beside the 26 out: 2 + 58 + 1776.
  ['xai/tool-stream.sse', 1_836],
  ['groq/reasoning.json', 17 * 2 + 649 * 8],
  ['zai/reasoning.json', 13 * 2 + 437 * 8],
  ['moonshot/reasoning-stream.sse', 9 * 2 + 12 * 8],
  // 109 in total: 62 tokens of thinking are in neither count.
  ['gemini/openai-compat-tool-empty-id.json', 35 * 2 + (12 + 62) * 8],
])('%s costs %d', (file, credits) => expectCost(file, credits));

test.each([
  // 7,351 read from the cache stand beside the 10 in: 20 + 1470.2 + 32.
  ['anthropic/cache-read.json', 1_523],
  // 7,351 written to it do: 20 + 18377.5 + 32.
  ['anthropic/cache-write.json', 18_430],
  // 353 of the 638 tokens out are thinking.
  ['anthropic/thinking-stream.sse', 80 * 2 + 638 * 8],
  // 2,048 of 2,300 cached; 11 tokens of thinking stand beside the 3 out: 504 + 409.6 + 112.
  ['gemini/cached-modalities-stream.sse', 1_026],
  ['gemini/thinking-stream.sse', 9 * 2 + (29 + 256) * 8],
])('%s costs %d, asked in its own dialect', (file, credits) =>
  expectCost(file, credits, file.split('/')[0]),
);

const details = (cached: number, written?: number) => ({
  prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
});

test.each([
  ['cached tokens', { prompt_tokens: 2_006, completion_tokens: 300, ...details(1_920) }, 2_956],
  // 10 plain, 60 read, 30 written: 20 + 12 + 75 + 40.
  ['cache writes', { prompt_tokens: 100, completion_tokens: 5, ...details(60, 30) }, 147],
  ['a fifth of a credit', { prompt_tokens: 1, completion_tokens: 0, ...details(1) }, 1],
  ['five fifths', { prompt_tokens: 5, completion_tokens: 0, ...details(5) }, 1],
  ['six fifths', { prompt_tokens: 6, completion_tokens: 0, ...details(6) }, 2],
])('%s: rounded up once, at the end', async (_, usage, credits) => {
  upstream.script('chat', rawUsage(usage, chatAnswer('hi')));
  for (const stream of [false, true]) {
    expect((await billed(stream)).charges.modelCharge).toBe(credits);
  }
});

const noUsage = 'The provider reported no billable usage. The tokens are an estimate.';
const tooMuch =
  'The provider reported more tokens than its model can use. The tokens are an estimate.';

describe('usage that cannot be true is replaced by an estimate that says so:', () => {
  test.each([
    ['negative', { prompt_tokens: -5, completion_tokens: 5 }],
    ['negative reasoning', { prompt_tokens: 5, completion_tokens: 5, ...reasoned(-1) }],
    ['fractional', { prompt_tokens: 5.5, completion_tokens: 5 }],
    ['text', { prompt_tokens: '5', completion_tokens: 5 }],
    ['text out', { prompt_tokens: 5, completion_tokens: '5' }],
    ['nothing', { prompt_tokens: null, completion_tokens: null }],
    ['astronomical', { prompt_tokens: 1e308, completion_tokens: 5 }],
    ['beyond 2⁵³', { prompt_tokens: 5, completion_tokens: 2 ** 64 - 22_904_832 }],
    ['zero', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
  ])('%s', (_, usage) => expectEstimate(usage, noUsage));

  // The model has a context of 128,000: sixteen times that is 2,048,000.
  test('too much for the model', () =>
    expectEstimate({ prompt_tokens: 2_047_000, completion_tokens: 1_001 }, tooMuch));

  async function expectEstimate(usage: Record<string, unknown>, note: string): Promise<void> {
    upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
    for (const stream of [false, true]) {
      const record = await billed(stream);
      expect(record).toMatchObject({
        usageEstimated: true,
        note,
        usage: { outputTokens: 2 },
      });
      expect(record.charges.modelCharge).toBe(record.usage.inputTokens * 2 + 2 * 8);
    }
  }
});

test('a model’s context may be filled several times, by choices and rounds', async () => {
  const usage = { prompt_tokens: 2_047_000, completion_tokens: 1_000 };
  upstream.script('chat', rawUsage(usage, chatAnswer('12345678')));
  expect(await billed(false)).toMatchObject({
    usageEstimated: false,
    // Two credits a token in, eight a token out.
    charges: { modelCharge: 4_102_000 },
  });
});

function reasoned(tokens: number): object {
  return { completion_tokens_details: { reasoning_tokens: tokens } };
}
