import { describe, expect, test } from 'bun:test';
import { perToken, priceStringsFor, pricesFor, readPriceList, readPrices } from './price-list.ts';

describe('readPrices', () => {
  test('returns 0 for prices that are not set', () => {
    expect(new Set(Object.values(readPrices({})))).toEqual(new Set([0n]));
  });

  test('reads each price from its own field', () => {
    const names = ['prompt', 'completion', 'cache_read', 'cache_write', 'request', 'image'];
    const more = ['output_image', 'minute', 'characters', 'bytes', 'cache_write_1h', 'audio'];
    const priceStrings = Object.fromEntries(
      [...names, ...more].map((name, i) => [name, `${i + 1}`]),
    );
    expect(readPrices(priceStrings)).toEqual({
      prompt: 10_000_000_000_000n,
      completion: 20_000_000_000_000n,
      cache_read: 30_000_000_000_000n,
      cache_write: 40_000_000_000_000n,
      request: 50_000_000_000_000n,
      image: 60_000_000_000_000n,
      output_image: 70_000_000_000_000n,
      minute: 80_000_000_000_000n,
      characters: 90_000_000_000_000n,
      bytes: 100_000_000_000_000n,
      cache_write_1h: 110_000_000_000_000n,
      audio: 120_000_000_000_000n,
    });
  });

  test('uses the prompt price for cached input without a price', () => {
    expect(readPrices({ prompt: '2', cache_read: '0' })).toMatchObject({
      cache_read: 0n,
      cache_write: 20_000_000_000_000n,
    });
  });

  test('uses the prompt price for audio input without a price', () => {
    expect(readPrices({ prompt: '2', cache_read: '1' }).audio).toBe(20_000_000_000_000n);
    expect(readPrices({ prompt: '2', audio: '0' }).audio).toBe(0n);
  });

  test('uses the cache-write price for 1-hour cache writes without a price', () => {
    const oneHourPrice = (priceStrings: object) =>
      readPrices({ prompt: '2', ...priceStrings }).cache_write_1h;
    expect(oneHourPrice({})).toBe(20_000_000_000_000n);
    expect(oneHourPrice({ cache_write: '2.5' })).toBe(25_000_000_000_000n);
    expect(oneHourPrice({ cache_write: '2.5', cache_write_1h: '4' })).toBe(40_000_000_000_000n);
    expect(oneHourPrice({ cache_write: '2.5', cache_write_1h: '0' })).toBe(0n);
  });
});

describe('perToken', () => {
  test.each([
    ['0', '0'],
    ['0.50', '0.0000005'],
    ['15', '0.000015'],
    ['0.000000001', '0.000000000000001'],
    ['2500000', '2.5'],
  ])('converts %s dollars per million to %s per token', (perMillion, each) => {
    expect(perToken(readPrices({ prompt: perMillion }).prompt)).toBe(each);
  });
});

const dollar = 10_000_000_000_000n;
const priceStrings = {
  prompt: '2',
  completion: '12',
  cache_read: '0.2',
  request: '0.01',
  long_prompts: [
    { above_tokens: 1_000, prompt: '4', completion: '18' },
    { above_tokens: 5_000, cache_read: '0.5' },
  ],
};

describe('readPriceList with tiers', () => {
  const list = readPriceList(priceStrings);

  test.each([
    [0, 2n, 12n, 2_000_000_000_000n],
    [1_000, 2n, 12n, 2_000_000_000_000n],
    [1_001, 4n, 18n, 2_000_000_000_000n],
    [5_000, 4n, 18n, 2_000_000_000_000n],
    // The second tier keeps the changes of the first one.
    [5_001, 4n, 18n, 5_000_000_000_000n],
    [10_000_000, 4n, 18n, 5_000_000_000_000n],
  ])('selects the tier of a prompt of %d tokens', (length, prompt, completion, cache_read) => {
    expect(pricesFor(list, length)).toMatchObject({
      prompt: prompt * dollar,
      completion: completion * dollar,
      cache_read,
      request: dollar / 100n,
    });
  });

  test('uses the prompt price of each tier for cache writes without a price', () => {
    expect(pricesFor(list, 1_000).cache_write).toBe(2n * dollar);
    expect(pricesFor(list, 1_001).cache_write).toBe(4n * dollar);
  });

  test('priceStringsFor returns the price strings of each tier', () => {
    const base = { prompt: '2', completion: '12', cache_read: '0.2', request: '0.01' };
    const first = { ...base, prompt: '4', completion: '18' };
    expect(priceStringsFor(priceStrings, 1_000)).toEqual({ priceStrings: base, aboveTokens: null });
    expect(priceStringsFor(priceStrings, 1_001)).toEqual({
      priceStrings: first,
      aboveTokens: 1_000,
    });
    const second = { ...first, cache_read: '0.5' };
    expect(priceStringsFor(priceStrings, 5_001)).toEqual({
      priceStrings: second,
      aboveTokens: 5_000,
    });
  });
});

test('readPriceList without tiers returns flat prices', () => {
  const flat = { prompt: '2', completion: '12' };
  expect(readPriceList(flat)).toEqual(readPrices(flat));
  expect('longPrompts' in readPriceList(flat)).toBe(false);
  expect(priceStringsFor(flat, 1_000_000)).toEqual({ priceStrings: flat, aboveTokens: null });
});
