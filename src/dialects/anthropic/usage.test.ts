import { describe, expect, test } from 'bun:test';
import { readUsage, StreamUsage, writeUsage } from './usage.ts';

const counted = {
  input_tokens: 10,
  cache_creation_input_tokens: 20,
  cache_read_input_tokens: 30,
  output_tokens: 40,
  output_tokens_details: { thinking_tokens: 5 },
};
const usage = {
  inputTokens: 10,
  cacheWriteTokens: 20,
  cacheReadTokens: 30,
  outputTokens: 40,
  reasoningTokens: 5,
};

describe('a report of usage', () => {
  test('has classes that do not overlap, in and out', () => {
    expect(readUsage(counted)).toEqual(usage);
    expect(writeUsage(usage)).toEqual(counted);
  });

  test('may leave out or null what there was none of', () => {
    const report = { input_tokens: 1, cache_read_input_tokens: null, output_tokens: 2 };
    expect(readUsage(report)).toMatchObject({
      inputTokens: 1,
      cacheReadTokens: 0,
      outputTokens: 2,
    });
  });

  const summary = { ...counted, type: 'compaction', input_tokens: 1_000, output_tokens: 300 };

  test('has what a summary of the conversation took beside the answer, however it is told', () => {
    const iterations = [summary, { ...counted, type: 'message' }, { type: 'compaction' }];
    expect(readUsage({ ...counted, iterations })).toEqual({
      inputTokens: 1_010,
      cacheWriteTokens: 40,
      cacheReadTokens: 60,
      outputTokens: 340,
      reasoningTokens: 10,
    });
    // It paused behind the summary: there is no answer yet.
    const paused = { input_tokens: 0, output_tokens: 0, iterations: [summary] };
    expect(readUsage(paused)).toMatchObject({ inputTokens: 1_000, outputTokens: 300 });
    const spoiled = { ...counted, iterations: [{ ...summary, input_tokens: -1 }, null, 'x'] };
    expect(readUsage(spoiled)).toEqual(usage);
  });

  const untrue: readonly unknown[] = [
    undefined,
    null,
    [],
    {},
    { input_tokens: 0, output_tokens: 7 },
    { input_tokens: -1, output_tokens: 7 },
    { input_tokens: 1.5, output_tokens: 7 },
    { input_tokens: '1', output_tokens: 7 },
    { input_tokens: 1, output_tokens: 1e12 },
    { input_tokens: 1, output_tokens: 7, cache_read_input_tokens: Number.NaN },
  ];

  test('that cannot be true is none', () => {
    expect(untrue.filter((report) => readUsage(report) !== undefined)).toEqual([]);
  });
});

describe('the usage of a stream', () => {
  test('is corrected by its end, which may leave out what did not change', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, cache_read_input_tokens: 9, output_tokens: 1 });
    stream.end({ input_tokens: 61, cache_read_input_tokens: null, output_tokens: 8 });
    stream.characters = 4_000;
    expect(stream.usage).toMatchObject({ inputTokens: 61, cacheReadTokens: 9, outputTokens: 8 });
  });

  test('counts the words that came while its end has not', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    expect(stream.usage?.outputTokens).toBe(3);
    stream.characters = 403;
    expect(stream.usage?.outputTokens).toBe(100);
    stream.end({ input_tokens: 43 });
    expect(stream.usage?.outputTokens).toBe(100);
  });

  test('that was counted stays so, though another report leaves it out', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    stream.characters = 403;
    expect(stream.isEstimate).toBe(true);
    stream.end({ output_tokens: 20 });
    stream.end(undefined);
    expect([stream.usage?.outputTokens, stream.isEstimate]).toEqual([20, false]);
  });

  test('is unknown while nobody counted the prompt', () => {
    const stream = new StreamUsage();
    stream.characters = 403;
    expect(stream.usage).toBeUndefined();
    stream.end({ output_tokens: 8 });
    expect(stream.usage).toBeUndefined();
  });
});
