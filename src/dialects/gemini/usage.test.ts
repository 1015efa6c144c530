import { describe, expect, test } from 'bun:test';
import { readUsage } from './usage.ts';

test('the classes do not overlap', () => {
  expect(
    readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 5,
      totalTokenCount: 132,
    }),
  ).toEqual({
    inputTokens: 47,
    cacheReadTokens: 60,
    cacheWriteTokens: 0,
    outputTokens: 25,
    reasoningTokens: 5,
  });
});

describe('sounds', () => {
  const of = (modality: string, tokenCount: unknown) => ({ modality, tokenCount });
  const heard = (promptTokensDetails: unknown, cacheTokensDetails?: unknown) =>
    readUsage({
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 5,
      promptTokensDetails,
      cacheTokensDetails,
    });
  const split = (inputTokens: number, inputAudioTokens?: number) => ({
    inputTokens,
    inputAudioTokens,
    cacheReadTokens: 60,
    cacheWriteTokens: 0,
    outputTokens: 5,
    reasoningTokens: 0,
  });

  test('are neither words nor cached', () => {
    const prompt = [of('TEXT', 30), of('AUDIO', 70)];
    expect(heard(prompt, [of('TEXT', 10), of('AUDIO', 50)])).toEqual(split(27, 20));
    expect(heard(prompt)).toEqual(split(7, 40));
    expect(heard([of('AUDIO', 10), of('VIDEO', 80), of('AUDIO', 10)])).toEqual(split(27, 20));
  });

  test.each([
    [[of('AUDIO', 101)], undefined],
    [[of('AUDIO', -1)], undefined],
    [[of('AUDIO', '70')], undefined],
    [[of('AUDIO', 70)], [of('AUDIO', 61)]],
    [[of('AUDIO', 40)], [of('AUDIO', 41)]],
    ['AUDIO', { modality: 'AUDIO' }],
    [[null, of('TEXT', 100)], [7]],
  ])('with impossible counts count as words: %j, cached %j', (prompt, cached) => {
    expect(heard(prompt, cached)).toEqual(split(47));
  });
});

test('output that only the total knows of is counted', () => {
  expect(
    readUsage({ promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount: 20 }),
  ).toMatchObject({ inputTokens: 10, outputTokens: 10, reasoningTokens: 0 });
});

test('no more tokens are cached than the prompt has', () => {
  expect(readUsage({ promptTokenCount: 10, cachedContentTokenCount: 99 })).toMatchObject({
    inputTokens: 0,
    cacheReadTokens: 10,
  });
});

test.each([
  undefined,
  null,
  'many',
  {},
  { trafficType: 'ON_DEMAND' },
  { promptTokenCount: 0, totalTokenCount: 9 },
  { promptTokenCount: -1 },
  { promptTokenCount: 1.5 },
  { promptTokenCount: '10' },
  { promptTokenCount: 10, candidatesTokenCount: 2e9 },
  { promptTokenCount: 10, thoughtsTokenCount: 'many' },
])('numbers that cannot be trusted are none: %j', (raw) => {
  expect(readUsage(raw)).toBeUndefined();
});
