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
    const heard = { ...usage, inputTokens: usage.inputTokens - 3, inputAudioTokens: 3 };
    expect(writeUsage(heard)).toEqual(counted);
  });

  const inParts = (minutes: unknown, hour: unknown) =>
    readUsage({
      ...counted,
      cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
    });

  test('tells what is kept for an hour from what is kept for minutes, in and out', () => {
    const both = { ...usage, cacheWriteTokens: 8, cacheWrite1hTokens: 12 };
    expect(inParts(8, 12)).toEqual(both);
    expect(writeUsage(both)).toEqual({
      ...counted,
      cache_creation: { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 12 },
    });
    expect(inParts(0, 20)).toEqual({ ...usage, cacheWriteTokens: 0, cacheWrite1hTokens: 20 });
    expect(inParts(undefined, 20)).toEqual({
      ...usage,
      cacheWriteTokens: 0,
      cacheWrite1hTokens: 20,
    });
    expect(inParts(20, 0)).toEqual(usage);
  });

  test.each([undefined, null])('adds up its parts if the total is %p', (whole) => {
    const parts = { ephemeral_5m_input_tokens: 8, ephemeral_1h_input_tokens: 12 };
    expect(
      readUsage({ ...counted, cache_creation_input_tokens: whole, cache_creation: parts }),
    ).toEqual({ ...usage, cacheWriteTokens: 8, cacheWrite1hTokens: 12 });
    const nothing = { ...counted, cache_creation_input_tokens: 0, cache_creation: parts };
    expect(readUsage(nothing)).toEqual({ ...usage, cacheWriteTokens: 0 });
  });

  test('counts as kept for minutes what its parts leave out', () => {
    expect(inParts(8, 11)).toEqual({ ...usage, cacheWriteTokens: 9, cacheWrite1hTokens: 11 });
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
  ])('whose parts are %p and %p of 20 is of one kind', (minutes, hour) => {
    expect(inParts(minutes, hour)).toEqual(usage);
  });

  test.each([null, 'x', 20, [8, 12]])('has no parts in %p', (cache_creation) => {
    expect(readUsage({ ...counted, cache_creation })).toEqual(usage);
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
    // It paused after the summary: there is no answer yet.
    const paused = { input_tokens: 0, output_tokens: 0, iterations: [summary] };
    expect(readUsage(paused)).toMatchObject({ inputTokens: 1_000, outputTokens: 300 });
    const spoiled = { ...counted, iterations: [{ ...summary, input_tokens: -1 }, null, 'x'] };
    expect(readUsage(spoiled)).toEqual(usage);
  });

  test('has what another model advised beside the answer', () => {
    const advice = { ...summary, type: 'advisor_message', model: 'claude-opus-5' };
    const iterations = [{ ...counted, type: 'message' }, advice];
    const report = { ...counted, iterations };
    expect(readUsage(report)).toMatchObject({ inputTokens: 1_010, outputTokens: 340 });
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

  test('with impossible numbers is ignored', () => {
    expect(untrue.filter((report) => readUsage(report) !== undefined)).toEqual([]);
  });

  test('is nothing where a program that runs at Anthropic goes on to call tools', () => {
    const nothing = { input_tokens: 0, output_tokens: 0 };
    const told = { ...nothing, server_tool_use: { web_search_requests: 0 } };
    expect(readUsage(told)).toMatchObject({ inputTokens: 0, outputTokens: 0 });
    expect(readUsage(nothing)).toBeUndefined();
    expect(readUsage({ ...told, output_tokens: 7 })).toBeUndefined();
  });
});

describe('the usage of a stream', () => {
  test('is corrected by its end, which may leave out what did not change', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, cache_read_input_tokens: 9, output_tokens: 1 });
    stream.end({ input_tokens: 61, cache_read_input_tokens: null, output_tokens: 8 });
    stream.outputCharacters = 4_000;
    expect(stream.usage).toMatchObject({ inputTokens: 61, cacheReadTokens: 9, outputTokens: 8 });
  });

  test('keeps its prompt where the end writes zeros, unless it is all cached there', () => {
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

  test('keeps the parts of its beginning, or has those of its end', () => {
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

  test('counts the words that came while its end has not', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    expect(stream.usage?.outputTokens).toBe(3);
    stream.outputCharacters = 403;
    expect(stream.usage?.outputTokens).toBe(100);
    stream.end({ input_tokens: 43 });
    expect(stream.usage?.outputTokens).toBe(100);
  });

  test('that was counted stays so, though another report leaves it out', () => {
    const stream = new StreamUsage();
    stream.begin({ input_tokens: 43, output_tokens: 3 });
    stream.outputCharacters = 403;
    expect(stream.isEstimate).toBe(true);
    stream.end({ output_tokens: 20 });
    stream.end(undefined);
    expect([stream.usage?.outputTokens, stream.isEstimate]).toEqual([20, false]);
  });

  test('is unknown while nobody counted the prompt', () => {
    const stream = new StreamUsage();
    stream.outputCharacters = 403;
    expect(stream.usage).toBeUndefined();
    stream.end({ output_tokens: 8 });
    expect(stream.usage).toBeUndefined();
  });
});
