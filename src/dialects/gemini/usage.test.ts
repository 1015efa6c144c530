import { expect, test } from 'bun:test';
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

test('output that only the total knows of is counted', () => {
  expect(
    readUsage({ promptTokenCount: 10, candidatesTokenCount: 3, totalTokenCount: 20 }),
  ).toMatchObject({ inputTokens: 10, outputTokens: 10, reasoningTokens: 0 });
});

test('more cached than there was cannot be', () => {
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
