import { describe, expect, test } from 'bun:test';
import { pricesFor, readPriceList, textsFor } from './long-prompts.ts';
import { readPrices } from './prices.ts';

const dollar = 1_000_000_000n;
const texts = {
  prompt: '2',
  completion: '12',
  cache_read: '0.2',
  request: '0.01',
  long_prompts: [
    { above_tokens: 1_000, prompt: '4', completion: '18' },
    { above_tokens: 5_000, cache_read: '0.5' },
  ],
};

describe('a price list with steps', () => {
  const list = readPriceList(texts);

  test.each([
    [0, 2n, 12n, 200_000_000n],
    [1_000, 2n, 12n, 200_000_000n],
    [1_001, 4n, 18n, 200_000_000n],
    [5_000, 4n, 18n, 200_000_000n],
    // What the first step changed stays changed.
    [5_001, 4n, 18n, 500_000_000n],
    [10_000_000, 4n, 18n, 500_000_000n],
  ])('charges a prompt of %d tokens by its own', (length, prompt, completion, cacheRead) => {
    expect(pricesFor(list, length)).toMatchObject({
      prompt: prompt * dollar,
      completion: completion * dollar,
      cacheRead,
      request: dollar / 100n,
    });
  });

  test('takes cache writes for plain input on every step, as nothing is said of them', () => {
    expect(pricesFor(list, 1_000).cacheWrite).toBe(2n * dollar);
    expect(pricesFor(list, 1_001).cacheWrite).toBe(4n * dollar);
  });

  test('can be told as it was written, for each length', () => {
    const base = { prompt: '2', completion: '12', cache_read: '0.2', request: '0.01' };
    const first = { ...base, prompt: '4', completion: '18' };
    expect(textsFor(texts, 1_000)).toEqual({ texts: base, aboveTokens: null });
    expect(textsFor(texts, 1_001)).toEqual({ texts: first, aboveTokens: 1_000 });
    const second = { ...first, cache_read: '0.5' };
    expect(textsFor(texts, 5_001)).toEqual({ texts: second, aboveTokens: 5_000 });
  });
});

test('a price list without steps is the prices and nothing else', () => {
  const flat = { prompt: '2', completion: '12' };
  expect(readPriceList(flat)).toEqual(readPrices(flat));
  expect('longPrompts' in readPriceList(flat)).toBe(false);
  expect(textsFor(flat, 1_000_000)).toEqual({ texts: flat, aboveTokens: null });
});
