import { describe, expect, test } from 'bun:test';
import { perToken, readPrices } from './prices.ts';

describe('an endpoint’s prices', () => {
  test('are zero where it names none', () => {
    expect(new Set(Object.values(readPrices({})))).toEqual(new Set([0n]));
  });

  test('are read each from its own field', () => {
    const names = ['prompt', 'completion', 'cache_read', 'cache_write', 'request', 'image'];
    const more = ['output_image', 'minute', 'characters', 'bytes', 'cache_write_1h', 'audio'];
    const texts = Object.fromEntries([...names, ...more].map((name, i) => [name, `${i + 1}`]));
    expect(readPrices(texts)).toEqual({
      prompt: 1_000_000_000n,
      completion: 2_000_000_000n,
      cacheRead: 3_000_000_000n,
      cacheWrite: 4_000_000_000n,
      request: 5_000_000_000n,
      image: 6_000_000_000n,
      outputImage: 7_000_000_000n,
      minute: 8_000_000_000n,
      characters: 9_000_000_000n,
      bytes: 10_000_000_000n,
      cacheWrite1h: 11_000_000_000n,
      audio: 12_000_000_000n,
    });
  });

  test('take cached input for plain input unless they say otherwise', () => {
    expect(readPrices({ prompt: '2', cache_read: '0' })).toMatchObject({
      cacheRead: 0n,
      cacheWrite: 2_000_000_000n,
    });
  });

  test('take sounds for words unless they say otherwise', () => {
    expect(readPrices({ prompt: '2', cache_read: '1' }).audio).toBe(2_000_000_000n);
    expect(readPrices({ prompt: '2', audio: '0' }).audio).toBe(0n);
  });

  test('take input kept for an hour for input kept at all unless they say otherwise', () => {
    const kept = (texts: object) => readPrices({ prompt: '2', ...texts }).cacheWrite1h;
    expect(kept({})).toBe(2_000_000_000n);
    expect(kept({ cache_write: '2.5' })).toBe(2_500_000_000n);
    expect(kept({ cache_write: '2.5', cache_write_1h: '4' })).toBe(4_000_000_000n);
    expect(kept({ cache_write: '2.5', cache_write_1h: '0' })).toBe(0n);
  });
});

describe('the model list quotes', () => {
  test.each([
    ['0', '0'],
    ['0.50', '0.0000005'],
    ['15', '0.000015'],
    ['0.000000001', '0.000000000000001'],
    ['2500000', '2.5'],
  ])('%s dollars per million as %s each token', (perMillion, each) => {
    expect(perToken(readPrices({ prompt: perMillion }).prompt)).toBe(each);
  });
});
