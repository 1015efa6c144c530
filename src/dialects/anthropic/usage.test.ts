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

describe('readUsage and writeUsage', () => {
  test('convert all token counts', () => {
    expect(readUsage(counted)).toEqual(usage);
    expect(writeUsage(usage)).toEqual(counted);
    const withAudio = { ...usage, inputTokens: usage.inputTokens - 3, inputAudioTokens: 3 };
    expect(writeUsage(withAudio)).toEqual(counted);
  });

  const readCacheTtls = (minutes: unknown, hour: unknown) =>
    readUsage({
      ...counted,
      cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
    });

  test('convert 5-minute and 1-hour cache writes', () => {
    const both = { ...usage, cacheWriteTokens: 8, cacheWrite1hTokens: 12 };
    expect(readCacheTtls(8, 12)).toEqual(both);
    expect(writeUsage(both)).toEqual({
      ...counted,
      cache_creation: { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 12 },
    });
    expect(readCacheTtls(0, 20)).toEqual({ ...usage, cacheWriteTokens: 0, cacheWrite1hTokens: 20 });
    expect(readCacheTtls(undefined, 20)).toEqual({
      ...usage,
      cacheWriteTokens: 0,
      cacheWrite1hTokens: 20,
    });
    expect(readCacheTtls(20, 0)).toEqual(usage);
  });

  test.each([undefined, null])('add up cache writes by TTL if the total is %p', (total) => {
    const parts = { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 12 };
    expect(
      readUsage({ ...counted, cache_creation_input_tokens: total, cache_creation: parts }),
    ).toEqual({ ...usage, cacheWriteTokens: 8, cacheWrite1hTokens: 12 });
    const nothing = { ...counted, cache_creation_input_tokens: 0, cache_creation: parts };
    expect(readUsage(nothing)).toEqual({ ...usage, cacheWriteTokens: 0 });
  });

  test('count cache writes of unknown TTL as 5-minute writes', () => {
    expect(readCacheTtls(8, 11)).toEqual({ ...usage, cacheWriteTokens: 9, cacheWrite1hTokens: 11 });
  });

  test.each<[unknown, unknown]>([
    [8, 13],
    [0, 0],
    [32, -12],
    [-12, 32],
    [8.5, 11.5],
    ['8', '12'],
    [8, Number.NaN],
    [null, null],
  ])('ignore the implausible TTL counts %p and %p of 20', (minutes, hour) => {
    expect(readCacheTtls(minutes, hour)).toEqual(usage);
  });

  test.each([null, 'x', 20, [8, 12]])('ignore cache_creation: %p', (cache_creation) => {
    expect(readUsage({ ...counted, cache_creation })).toEqual(usage);
  });

  test('read missing and null counts as 0', () => {
    const report = { input_tokens: 1, cache_read_input_tokens: null, output_tokens: 2 };
    expect(readUsage(report)).toMatchObject({
      inputTokens: 1,
      cacheReadTokens: 0,
      outputTokens: 2,
    });
  });

  const summary = { ...counted, type: 'compaction', input_tokens: 1_000, output_tokens: 300 };

  test('add the tokens of a conversation summary', () => {
    const iterations = [summary, { ...counted, type: 'message' }, { type: 'compaction' }];
    expect(readUsage({ ...counted, iterations })).toMatchObject({
      inputTokens: 1_010,
      cacheWriteTokens: 40,
      cacheReadTokens: 60,
      outputTokens: 340,
      reasoningTokens: 10,
    });
    // Anthropic paused after the summary, so there's no answer yet.
    const paused = { input_tokens: 0, output_tokens: 0, iterations: [summary] };
    expect(readUsage(paused)).toMatchObject({ inputTokens: 1_000, outputTokens: 300 });
    const invalid = { ...counted, iterations: [{ ...summary, input_tokens: -1 }, null, 'x'] };
    expect(readUsage(invalid)).toEqual(usage);
  });

  test('add the tokens of an advisor model', () => {
    const advice = { ...summary, type: 'advisor_message', model: 'claude-opus-5' };
    const iterations = [{ ...counted, type: 'message' }, advice];
    const report = { ...counted, iterations };
    expect(readUsage(report)).toMatchObject({ inputTokens: 1_010, outputTokens: 340 });
  });

  const invalid: readonly unknown[] = [
    undefined,
    null,
    [],
    {},
    { cache_read_input_tokens: 5 },
    { input_tokens: -1, output_tokens: 7 },
    { input_tokens: 1.5, output_tokens: 7 },
    { input_tokens: '1', output_tokens: 7 },
    { input_tokens: 1, output_tokens: 1e12 },
    { input_tokens: 1, output_tokens: 7, cache_read_input_tokens: Number.NaN },
  ];

  test('ignore reports with invalid counts', () => {
    expect(invalid.filter((report) => readUsage(report) !== undefined)).toEqual([]);
  });

  test('read a missing part as 0', () => {
    const nothing = { inputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };
    expect(readUsage({ output_tokens: 7 })).toMatchObject({ ...nothing, outputTokens: 7 });
    expect(readUsage({ input_tokens: 0, output_tokens: 0 })).toMatchObject(nothing);
  });

  test('mark input that includes the results of tools, summaries, or advice', () => {
    expect(readUsage(counted)?.includesToolResults).toBeUndefined();
    const searched = { ...counted, server_tool_use: { web_search_requests: 1 } };
    expect(readUsage(searched)?.includesToolResults).toBe(true);
    expect(readUsage({ ...counted, iterations: [summary] })?.includesToolResults).toBe(true);
  });
});

describe('StreamUsage', () => {
  test('updates the first report with the last, which may omit unchanged counts', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, cache_read_input_tokens: 9, output_tokens: 1 });
    stream.end({ input_tokens: 61, cache_read_input_tokens: null, output_tokens: 8 });
    stream.outputCharacters = 4_000;
    expect(stream.usage).toMatchObject({ inputTokens: 61, cacheReadTokens: 9, outputTokens: 8 });
  });

  test('keeps the prompt count if the last report has 0, unless the full prompt was cached', () => {
    const ended = (report: object) => {
      const stream = new StreamUsage();
      stream.begin({ input_tokens: 43, cache_read_input_tokens: 9, output_tokens: 1 });
      stream.end({ input_tokens: 0, output_tokens: 8, ...report });
      return stream.usage;
    };
    const counted = { inputTokens: 43, cacheReadTokens: 9, outputTokens: 8 };
    expect(ended({})).toMatchObject(counted);
    expect(ended({ cache_read_input_tokens: 0 })).toMatchObject(counted);
    expect(ended({ cache_read_input_tokens: 52 })).toMatchObject({
      inputTokens: 0,
      cacheReadTokens: 52,
    });
  });

  test('keeps the first counts by TTL until a report has new ones', () => {
    const parts = (minutes: number, hour: number) => ({
      cache_creation_input_tokens: minutes + hour,
      cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
    });
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 3, output_tokens: 1, ...parts(0, 2_048) });
    expect(stream.usage).toMatchObject({ cacheWriteTokens: 0, cacheWrite1hTokens: 2_048 });
    stream.end({ cache_creation_input_tokens: 2_048, cache_creation: null, output_tokens: 8 });
    expect(stream.usage).toMatchObject({ cacheWriteTokens: 0, cacheWrite1hTokens: 2_048 });
    stream.end({ cache_creation_input_tokens: 2_148, output_tokens: 12 });
    expect(stream.usage).toMatchObject({ cacheWriteTokens: 100, cacheWrite1hTokens: 2_048 });
    stream.end({ input_tokens: 0, ...parts(0, 0), output_tokens: 13 });
    expect(stream.usage).toMatchObject({ cacheWriteTokens: 100, cacheWrite1hTokens: 2_048 });
    stream.end({ ...parts(1_024, 2_048), output_tokens: 15 });
    expect(stream.usage).toMatchObject({ cacheWriteTokens: 1_024, cacheWrite1hTokens: 2_048 });
  });

  test('estimates the output from its characters until the last report', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    expect(stream.usage?.outputTokens).toBe(3);
    stream.outputCharacters = 403;
    expect(stream.usage?.outputTokens).toBe(100);
    stream.end({ input_tokens: 43 });
    expect(stream.usage?.outputTokens).toBe(100);
  });

  test('keeps the output count if a later report omits it', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    stream.outputCharacters = 403;
    expect(stream.isEstimate).toBe(true);
    stream.end({ output_tokens: 20 });
    stream.end(undefined);
    expect([stream.usage?.outputTokens, stream.isEstimate]).toEqual([20, false]);
  });

  test('is undefined until there is a report, which may have only the output', () => {
    const stream = new StreamUsage();
    stream.outputCharacters = 403;
    expect(stream.usage).toBeUndefined();
    stream.end({ output_tokens: 8 });
    expect(stream.usage).toMatchObject({ inputTokens: 0, outputTokens: 8 });
  });
});
