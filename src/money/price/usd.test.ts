import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import {
  feeToCredits,
  formatUsd,
  parseUsd,
  perMillion,
  perMinute,
  perUnit,
  toCredits,
} from './usd.ts';

/** Converts decimal dollars to a fraction of integers. */
function fraction(dollars: string): { over: bigint; under: bigint } {
  const [whole = '', decimals = ''] = dollars.split('.');
  return { over: BigInt(whole + decimals), under: 10n ** BigInt(decimals.length) };
}

const priceText = fc
  .tuple(fc.nat(999_999_999), fc.option(fc.stringMatching(/^\d{1,9}$/), { nil: undefined }))
  .map(([whole, decimals]) => (decimals === undefined ? `${whole}` : `${whole}.${decimals}`));
const quantity = fc.integer({ min: 0, max: 10_000_000_000 });
const scale = fc.constantFrom(1, 100, 1_000_000, 1_000_000_000);

function price(text: string): bigint {
  const parsed = parseUsd(text);
  if (parsed === undefined) throw new Error(`${text} isn't a price.`);
  return parsed;
}

describe('parseUsd and formatUsd', () => {
  test.each([
    ['0', 0n],
    ['1', 10_000_000_000_000n],
    ['0.0375', 375_000_000_000n],
    ['0.000000001', 10_000n],
    ['0.0000000000001', 1n],
    ['999999999999.9999999999999', 9_999_999_999_999_999_999_999_999n],
  ])('parseUsd reads %s exactly', (text, expected) => {
    expect(parseUsd(text)).toBe(expected);
  });

  test.each(['', '.5', '1.', '-1', '+1', '1e3', '1,5', ' 1', '1 ', '0.00000000000001', '0x1', '١'])(
    'parseUsd rejects %p',
    (text) => {
      expect(parseUsd(text)).toBeUndefined();
    },
  );

  test('formatUsd omits trailing zeros', () => {
    expect(
      [0n, 1n, 375_000_000_000n, 20_000_000_000_000n, 105_000_000_000_000n].map(formatUsd),
    ).toEqual(['0', '0.0000000000001', '0.0375', '2', '10.5']);
  });

  test('parseUsd reverses formatUsd', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 9_999_999_999_999_999_999_999_999n }), (price) => {
        expect(parseUsd(formatUsd(price))).toBe(price);
      }),
    );
  });
});

describe('toCredits', () => {
  /** Expects the smallest integer that is at least over / under. */
  const expectRoundedUp = (credits: number, over: bigint, under: bigint) => {
    expect(BigInt(credits) * under >= over).toBe(true);
    expect((BigInt(credits) - 1n) * under < over).toBe(true);
  };

  test('rounds the exact cost at a price per million up, only once', () => {
    fc.assert(
      fc.property(priceText, quantity, scale, (text, units, creditsPerUsd) => {
        const { over, under } = fraction(text);
        const exact = over * BigInt(units) * BigInt(creditsPerUsd);
        fc.pre(exact / under / 1_000_000n < BigInt(Number.MAX_SAFE_INTEGER));
        const credits = toCredits(perMillion(price(text), units), creditsPerUsd);
        expectRoundedUp(credits, exact, under * 1_000_000n);
      }),
    );
  });

  test('rounds the exact cost at a price per unit up, only once', () => {
    fc.assert(
      fc.property(priceText, fc.nat(100_000), scale, (text, units, creditsPerUsd) => {
        const { over, under } = fraction(text);
        const exact = over * BigInt(units) * BigInt(creditsPerUsd);
        fc.pre(exact / under < BigInt(Number.MAX_SAFE_INTEGER));
        expectRoundedUp(toCredits(perUnit(price(text), units), creditsPerUsd), exact, under);
      }),
    );
  });

  // At $0.006 per minute, 1 second costs 100 credits and 1 nanosecond 10⁻¹³ dollars.
  test.each([
    [0, 0],
    [1, 1],
    [60_000, 6_000],
    [10_000, 1_000],
    [10_000.000_001, 1_001],
    [9_999.999_999, 1_000],
    [8_470.000_267_028_809, 848],
  ])('rounds the cost of %d ms of audio up to %d credits', (ms, credits) => {
    expect(toCredits(perMinute(price('0.006'), ms), 1_000_000)).toBe(credits);
  });

  test('perMinute rounds up to 10⁻¹⁹ dollars', () => {
    expect(perMinute(price('0.0000000000001'), 0.000_001)).toBe(1n);
    expect(perMinute(price('0.0000000000001'), 60_000)).toBe(1_000_000n);
    expect(perMinute(0n, 60_000)).toBe(0n);
  });

  test('perMinute returns exactly the price for one minute', () => {
    expect(perMinute(price('1'), 60_000)).toBe(10_000_000_000_000_000_000n);
  });

  test('perMillion and perUnit are exact at the smallest price and return 0 for nothing', () => {
    expect(perMillion(price('0.0000000000001'), 1)).toBe(1n);
    expect(perUnit(price('0.0000000000001'), 1)).toBe(1_000_000n);
    expect([perMillion(price('1'), 0), perMillion(0n, 1)]).toEqual([0n, 0n]);
    expect([perUnit(price('1'), 0), perUnit(0n, 1)]).toEqual([0n, 0n]);
  });

  test('rounds a sum once rather than each part', () => {
    const parts = [perMillion(price('0.15'), 1), perMillion(price('0.60'), 1)];
    expect(parts.map((part) => toCredits(part, 1_000_000))).toEqual([1, 1]);
    expect(
      toCredits(
        parts.reduce((sum, part) => sum + part, 0n),
        1_000_000,
      ),
    ).toBe(1);
  });

  test('returns 0 for nothing and 1 credit for the smallest amount', () => {
    expect(toCredits(0n, 1_000_000)).toBe(0);
    expect(toCredits(1n, 1_000_000)).toBe(1);
    expect(toCredits(perMillion(price('1'), 3), 1_000_000)).toBe(3);
  });

  test('uses the given rate after a call with another rate', () => {
    const dollar = perUnit(price('1'), 1);
    const rates = [1_000_000, 100, 1_000_000];
    expect(rates.map((rate) => toCredits(dollar, rate))).toEqual([1_000_000, 100, 1_000_000]);
    expect(rates.map((rate) => feeToCredits(dollar, 500, rate))).toEqual([50_000, 5, 50_000]);
  });
});

describe('feeToCredits', () => {
  test.each([
    // 5% of 7,998 credits is 399.9.
    [79_980_000_000_000_000n, 500, 400],
    [80_000_000_000_000_000n, 500, 400],
    [80_000_000_000_000_001n, 500, 401],
    [11_000_000_000_000n, 500, 1],
    // 150% of 1.2 credits is 1.8, so the fee is 2. Rounding twice would return 3.
    [12_000_000_000_000n, 15_000, 2],
    [1n, 10_000, 1],
    [79_980_000_000_000_000n, 0, 0],
    [0n, 500, 0],
  ])(
    'for %d × 10⁻¹⁹ dollars at %d basis points returns %d credits',
    (amount, basisPoints, credits) => {
      expect(feeToCredits(amount, basisPoints, 1_000_000)).toBe(credits);
    },
  );
});
