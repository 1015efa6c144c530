/**
 * Charges for recorded answers, computed by hand. An input token costs 2 credits, a cached one 0.2,
 * a cache write 2.5, and an output token 8, including reasoning. Tokens that a provider reports
 * twice or only in a total are charged once.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { chatAnswer, rawUsage, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const pricing = { prompt: '2', cache_read: '0.2', cache_write: '2.5', completion: '8' };
  const dialects = ['openai', 'anthropic', 'gemini'];
  const at = (dialect: string, version: string) => ({
    dialect,
    base_url: `${upstream.url}/${version}`,
    api_key: 'sk-upstream-012345',
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

async function recordOf(stream: boolean, dialect = 'openai') {
  const messages = [{ role: 'user', content: 'Hello there, please answer.' }];
  const { requestId } = await gateway.post({ model: `test/${dialect}`, messages, stream });
  return gateway.record(requestId);
}

async function expectCost(file: string, credits: number, dialect?: string): Promise<void> {
  const isStream = file.endsWith('.sse');
  const contentType = isStream ? 'text/event-stream' : 'application/json';
  const bytes = readFileSync(new URL(`../../fixtures/${file}`, import.meta.url));
  upstream.script('chat', replay(bytes, { contentType }));
  const record = await recordOf(isStream, dialect);
  expect(record.usageEstimated).toBe(false);
  expect(record.charges.modelCharge).toBe(credits);
}

test.each([
  ['openai/chat-text.json', 16 * 2 + 363 * 8],
  // 448 of the 467 output tokens are reasoning.
  ['openai/chat-reasoning-o3-mini.json', 31 * 2 + 467 * 8],
  ['openai/chat-text-stream.sse', 14 * 2 + 8 * 8],
  // 320 of the 339 input tokens were cached, which DeepSeek reports twice: 38 + 64 + 736.
  ['deepseek/tool-call-reasoning.json', 838],
  // 290 of 291 are cached. 196 reasoning tokens aren't part of the 26 output tokens: 2 + 58 + 1776.
  ['xai/tool-stream.sse', 1_836],
  ['groq/reasoning.json', 17 * 2 + 649 * 8],
  ['zai/reasoning.json', 13 * 2 + 437 * 8],
  ['moonshot/reasoning-stream.sse', 9 * 2 + 12 * 8],
  // The total of 109 includes 62 thinking tokens that are in neither count.
  ['gemini/openai-compat-tool-empty-id.json', 35 * 2 + (12 + 62) * 8],
])('charges for %s: %d credits', (file, credits) => expectCost(file, credits));

test.each([
  // 7,351 cache reads are not part of the 10 input tokens: 20 + 1470.2 + 32.
  ['anthropic/cache-read.json', 1_523],
  // 7,351 cache writes are not part of the 10 input tokens: 20 + 18377.5 + 32.
  ['anthropic/cache-write.json', 18_430],
  // 353 of the 638 output tokens are thinking.
  ['anthropic/thinking-stream.sse', 80 * 2 + 638 * 8],
  // 2,048 of 2,300 are cached. 11 thinking tokens are not part of the 3 output tokens:
  // 504 + 409.6 + 112.
  ['gemini/cached-modalities-stream.sse', 1_026],
  ['gemini/thinking-stream.sse', 9 * 2 + (29 + 256) * 8],
])('charges for %s in its own dialect: %d credits', (file, credits) =>
  expectCost(file, credits, file.split('/')[0]),
);

const cacheDetails = (cached: number, written?: number) => ({
  prompt_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
});

test.each([
  [
    'cached tokens',
    { prompt_tokens: 2_006, completion_tokens: 300, ...cacheDetails(1_920) },
    2_956,
  ],
  // 10 input tokens, 60 cache reads, and 30 cache writes: 20 + 12 + 75 + 40.
  ['cache writes', { prompt_tokens: 100, completion_tokens: 5, ...cacheDetails(60, 30) }, 147],
  ['0.2 credits', { prompt_tokens: 1, completion_tokens: 0, ...cacheDetails(1) }, 1],
  ['1.0 credits', { prompt_tokens: 5, completion_tokens: 0, ...cacheDetails(5) }, 1],
  ['1.2 credits', { prompt_tokens: 6, completion_tokens: 0, ...cacheDetails(6) }, 2],
])('rounds up only once, at the end: %s', async (_, usage, credits) => {
  upstream.script('chat', rawUsage(usage, chatAnswer(usage.completion_tokens === 0 ? '' : 'hi')));
  for (const stream of [false, true]) {
    expect((await recordOf(stream)).charges.modelCharge).toBe(credits);
  }
});
