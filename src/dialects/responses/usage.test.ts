import { expect, test } from 'bun:test';
import { readUsage } from './usage.ts';

test('readUsage splits counts into classes that do not overlap', () => {
  expect(
    readUsage({
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
      output_tokens: 20,
      output_tokens_details: { reasoning_tokens: 5 },
      total_tokens: 120,
    }),
  ).toEqual({
    inputTokens: 10,
    cacheReadTokens: 60,
    cacheWriteTokens: 30,
    outputTokens: 20,
    reasoningTokens: 5,
  });
});

test.each<[string, unknown, object]>([
  ['some', 20, { cacheWriteTokens: 10, cacheWrite1hTokens: 20 }],
  ['none', 0, { cacheWriteTokens: 30, cacheWrite1hTokens: undefined }],
  ['too many', 31, { cacheWriteTokens: 30, cacheWrite1hTokens: undefined }],
  ['non-numeric', '20', { cacheWriteTokens: 30, cacheWrite1hTokens: undefined }],
])('readUsage counts %s cache writes with a 12-hour TTL', (_, ttl_12h_tokens, classes) => {
  const cache_write_tokens_details = { ttl_12h_tokens, ttl_30m_tokens: 10 };
  const input_tokens_details = { cache_write_tokens: 30, cache_write_tokens_details };
  expect(readUsage({ input_tokens: 100, input_tokens_details, output_tokens: 1 })).toMatchObject(
    classes,
  );
});

test('readUsage limits cached tokens to the input, because xAI may report more', () => {
  const input_tokens_details = { cached_tokens: 4_328 };
  expect(readUsage({ input_tokens: 4_142, input_tokens_details, output_tokens: 254 })).toEqual({
    inputTokens: 0,
    cacheReadTokens: 4_142,
    cacheWriteTokens: 0,
    outputTokens: 254,
    reasoningTokens: 0,
  });
});

test("readUsage reads Perplexity's names for cache reads and writes", () => {
  const names = { cache_read_input_tokens: 60, cache_creation_input_tokens: 30 };
  const raw = { input_tokens: 100, input_tokens_details: names, output_tokens: 20 };
  const classes = { inputTokens: 10, cacheReadTokens: 60, cacheWriteTokens: 30 };
  expect(readUsage(raw)).toMatchObject(classes);
});

test('readUsage limits reasoning to the output', () => {
  const output_tokens_details = { reasoning_tokens: 9 };
  const usage = readUsage({ input_tokens: 10, output_tokens: 2, output_tokens_details });
  expect(usage).toMatchObject({ outputTokens: 2, reasoningTokens: 2 });
});

test('readUsage counts output that only the total includes', () => {
  const usage = readUsage({ input_tokens: 10, output_tokens: 2, total_tokens: 20 });
  expect(usage).toMatchObject({ inputTokens: 10, outputTokens: 10 });
});

test.each(['web_search_call', 'code_interpreter_call', 'function_call', 'message'])(
  'readUsage marks input that includes the results of the provider: %s',
  (type) => {
    const usage = readUsage({ input_tokens: 10, output_tokens: 2 }, [{ type }]);
    const isTool = type === 'web_search_call' || type === 'code_interpreter_call';
    expect(usage?.includesToolResults).toBe(isTool || undefined);
  },
);

test.each([
  undefined,
  null,
  {},
  { total_tokens: 5 },
  { input_tokens: -1, output_tokens: 5 },
  { input_tokens: '10', output_tokens: 5 },
  { input_tokens: 10, output_tokens: 1e12 },
  { input_tokens: 10, input_tokens_details: { cached_tokens: 0.5 } },
])('readUsage rejects untrustworthy numbers: %j', (raw) => {
  expect(readUsage(raw)).toBeUndefined();
});
