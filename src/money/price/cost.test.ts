import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { noUsage } from '../../core/usage.ts';
import { chargeAt, costOf, estimateUsage, modelCharge } from './cost.ts';
import { readPrices } from './price-list.ts';

const perMillion = { prompt: '3', completion: '15', cache_read: '0.3', cache_write: '3.75' };
const usage = {
  inputTokens: 1_000,
  cacheReadTokens: 2_000,
  cacheWriteTokens: 400,
  outputTokens: 100,
  reasoningTokens: 60,
};

describe('costOf', () => {
  test('adds one term for each token class and none for reasoning', () => {
    const cost = costOf(usage, readPrices(perMillion));
    // In millionths of a dollar: 3,000 + 600 + 1,500 + 1,500.
    expect(modelCharge(cost, 1_000_000)).toBe(6_600);
    expect(modelCharge(cost, 1_000)).toBe(7);
  });

  test('charges cached tokens like other input unless they have a price', () => {
    const cost = costOf(usage, readPrices({ prompt: '3', completion: '0' }));
    expect(modelCharge(cost, 1_000_000)).toBe(3_400 * 3);
  });

  test('charges 1-hour cache writes like other cache writes unless they have a price', () => {
    const charge = (tokens: object, more = {}) =>
      modelCharge(
        costOf({ ...noUsage, ...tokens }, readPrices({ ...perMillion, ...more })),
        1_000_000,
      );
    const hour = { cache_write_1h: '6.00' };
    expect(charge({ cacheWrite1hTokens: 1_000_000 }, hour)).toBe(6_000_000);
    expect(charge({ cacheWrite1hTokens: 1_000_000 })).toBe(3_750_000);
    // 1,000 × 3 + 2,000 × 0.3 + 400 × 3.75 + 500 × 6 + 100 × 15
    expect(charge({ ...usage, cacheWrite1hTokens: 500 }, hour)).toBe(9_600);
  });

  test('charges audio input like text unless it has a price', () => {
    const charge = (more: object) =>
      modelCharge(
        costOf({ ...usage, inputAudioTokens: 500 }, readPrices({ ...perMillion, ...more })),
        1_000_000,
      );
    // 6,600 for the rest, and 500 × 40 or 500 × 3.
    expect([charge({ audio: '40' }), charge({})]).toEqual([26_600, 8_100]);
  });

  test('includes the prices of images and of the request', () => {
    const cost = costOf(noUsage, readPrices({ image: '0.002', request: '0.0005' }), {
      inputImages: 3,
    });
    expect(modelCharge(cost, 1_000_000)).toBe(6_500);
  });

  test('charges nothing for classes that were not used', () => {
    const unitPrices = { image: '1', output_image: '1', characters: '1', bytes: '1', minute: '1' };
    const prices = readPrices({ ...perMillion, ...unitPrices });
    expect(costOf(noUsage, prices, {})).toBe(0n);
    // 1 dollar each for the image and the minute, a millionth each for the character and the byte.
    const units = { outputImages: 1, characters: 1, bytes: 1, audioMs: 60_000 };
    expect(modelCharge(costOf(noUsage, prices, units), 1_000_000)).toBe(2_000_002);
  });

  test('leads to a model charge that is rounded up exactly once', () => {
    const nano = fc.bigInt({ min: 0n, max: 1_000_000_000_000n });
    const tokens = fc.nat(10_000_000);
    const dollars = (price: bigint) =>
      `${price / 10n ** 9n}.${String(price % 10n ** 9n).padStart(9, '0')}`;
    fc.assert(
      fc.property(nano, nano, tokens, tokens, (prompt, completion, inputTokens, outputTokens) => {
        const prices = readPrices({ prompt: dollars(prompt), completion: dollars(completion) });
        const cost = costOf({ ...noUsage, inputTokens, outputTokens }, prices);
        const charge = BigInt(modelCharge(cost, 1_000_000));
        // In units of 10⁻¹⁹ dollars, of which a credit has 10¹³.
        const tokens = prompt * BigInt(inputTokens) + completion * BigInt(outputTokens);
        const exact = tokens * 10n ** 4n;
        const over = charge * 10n ** 13n - exact;
        expect(over >= 0n && over < 10n ** 13n).toBe(true);
      }),
    );
  });

  test('leads to a capped charge for absurd amounts', () => {
    const prices = readPrices({ completion: '999999999' });
    const cost = costOf({ ...noUsage, outputTokens: 1_000_000_000 }, prices);
    const charge = modelCharge(cost, 1_000_000);
    expect(charge).toBe(10_000_000_000_000);
    expect(Number.isSafeInteger(charge * 900)).toBe(true);
    expect(chargeAt({ ownAccount: { feeBasisPoints: 500 } }, cost, 1_000_000)).toBe(charge);
  });
});

describe('estimateUsage', () => {
  test('counts 4 characters as a token, rounded up', () => {
    expect(estimateUsage(400, 11)).toEqual({ ...noUsage, inputTokens: 100, outputTokens: 3 });
    expect(estimateUsage(1, 1)).toEqual({ ...noUsage, inputTokens: 1, outputTokens: 1 });
    expect(estimateUsage(0, 0)).toEqual(noUsage);
  });
});
