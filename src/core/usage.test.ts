import { expect, test } from 'bun:test';
import { addUsage, noUsage, promptTokens, totalTokens } from './usage.ts';

const all = {
  inputTokens: 1,
  inputAudioTokens: 20,
  cacheReadTokens: 300,
  cacheWriteTokens: 4_000,
  cacheWrite1hTokens: 50_000,
  outputTokens: 600_000,
  reasoningTokens: 7,
};

test('promptTokens adds all input; totalTokens adds output, but not reasoning twice', () => {
  expect(promptTokens(all)).toBe(54_321);
  expect(totalTokens(all)).toBe(654_321);
});

test('addUsage adds each class of tokens', () => {
  const twice = addUsage(all, all);
  expect(twice).toEqual({
    inputTokens: 2,
    inputAudioTokens: 40,
    cacheReadTokens: 600,
    cacheWriteTokens: 8_000,
    cacheWrite1hTokens: 100_000,
    outputTokens: 1_200_000,
    reasoningTokens: 14,
  });
  // Optional classes that one side lacks keep the other side's value.
  expect(addUsage(all, noUsage)).toEqual(all);
  expect(addUsage(noUsage, all)).toEqual(all);
  expect(addUsage(noUsage, noUsage)).toEqual(noUsage);
});
