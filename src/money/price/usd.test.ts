import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  feeToCredits,
  formatUsd,
  parseUsd,
  perMillion,
  perMinute,
  perUnit,
  toCredits,
} from './usd.ts';

/** A number of dollars as a fraction, made by shifting the decimal point of its text. */
function fraction(dollars: string): { over: bigint; under: bigint } {
  const [whole = '', decimals = ''] = dollars.split('.');
  return { over: BigInt(whole + decimals), under: 10n ** BigInt(decimals.length) };
}

const priceText = fc
  .tuple(fc.nat(999_999_999), fc.option(fc.stringMatching(/^\d{1,9}$/), { nil: undefined }))
  .map(([whole, decimals]) => (decimals === undefined ? `${whole}` : `${whole}.${decimals}`));
const quantity = fc.integer({ min: 0, max: 10_000_000_000 });
const scale = fc.constantFrom(1, 100, 1_000_000, 1_000_000_000);

function nano(text: string): bigint {
  const price = parseUsd(text);
  if (price === undefined) throw new Error(`${text} is no price`);
  return price;
}

describe('prices', () => {
  test.each([
    ['0', 0n],
    ['1', 1_000_000_000n],
    ['0.0375', 37_500_000n],
    ['0.000000001', 1n],
    ['999999999.999999999', 999_999_999_999_999_999n],
  ])('%s is read exactly', (text, expected) => {
    expect(parseUsd(text)).toBe(expected);
  });

  test.each(['', '.5', '1.', '-1', '+1', '1e3', '1,5', ' 1', '1 ', '0.0000000001', '0x1', '١'])(
    '%p is no price',
    (text) => {
      expect(parseUsd(text)).toBeUndefined();
    },
  );

  test('are written as people quote them', () => {
    expect([0n, 1n, 37_500_000n, 2_000_000_000n, 10_500_000_000n].map(formatUsd)).toEqual([
      '0',
      '0.000000001',
      '0.0375',
      '2',
      '10.5',
    ]);
  });

  test('survive being written and read again', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 999_999_999_999_999_999n }), (price) => {
        expect(parseUsd(formatUsd(price))).toBe(price);
      }),
    );
  });
});

describe('a charge is the exact cost, rounded up once', () => {
  /** The smallest whole number of credits that is not less than the fraction. */
  const expectRoundedUp = (credits: number, over: bigint, under: bigint) => {
    expect(BigInt(credits) * under >= over).toBe(true);
    expect((BigInt(credits) - 1n) * under < over).toBe(true);
  };

  test('of anything priced per million', () => {
    fc.assert(
      fc.property(priceText, quantity, scale, (text, units, creditsPerUsd) => {
        const { over, under } = fraction(text);
        const exact = over * BigInt(units) * BigInt(creditsPerUsd);
        fc.pre(exact / under / 1_000_000n < BigInt(Number.MAX_SAFE_INTEGER));
        const credits = toCredits(perMillion(nano(text), units), creditsPerUsd);
        expectRoundedUp(credits, exact, under * 1_000_000n);
      }),
    );
  });

  test('of anything priced each', () => {
    fc.assert(
      fc.property(priceText, fc.nat(100_000), scale, (text, units, creditsPerUsd) => {
        const { over, under } = fraction(text);
        const exact = over * BigInt(units) * BigInt(creditsPerUsd);
        fc.pre(exact / under < BigInt(Number.MAX_SAFE_INTEGER));
        expectRoundedUp(toCredits(perUnit(nano(text), units), creditsPerUsd), exact, under);
      }),
    );
  });

  // At $0.006 a minute a second is 100 credits, a nanosecond a hundred femto-dollars.
  test.each([
    [0, 0],
    [1, 1],
    [60_000, 6_000],
    [10_000, 1_000],
    [10_000.000_001, 1_001],
    [9_999.999_999, 1_000],
    [8_470.000_267_028_809, 848],
  ])('of %d ms of audio', (ms, credits) => {
    expect(toCredits(perMinute(nano('0.006'), ms), 1_000_000)).toBe(credits);
  });

  test('of so little audio that it costs less than can be counted', () => {
    expect(perMinute(nano('0.000000001'), 0.000_001)).toBe(1n);
    expect(perMinute(nano('0.000000001'), 60_000)).toBe(1_000_000n);
    expect(perMinute(0n, 60_000)).toBe(0n);
  });

  test('of a minute is the price of one, to the last femto-dollar', () => {
    expect(perMinute(nano('1'), 60_000)).toBe(1_000_000_000_000_000n);
  });

  test('of one thing at the smallest price is that price; of none, or for free, nothing', () => {
    expect(perMillion(nano('0.000000001'), 1)).toBe(1n);
    expect(perUnit(nano('0.000000001'), 1)).toBe(1_000_000n);
    expect([perMillion(nano('1'), 0), perMillion(0n, 1)]).toEqual([0n, 0n]);
    expect([perUnit(nano('1'), 0), perUnit(0n, 1)]).toEqual([0n, 0n]);
  });

  test('of a sum, where rounding each part would cost more', () => {
    const parts = [perMillion(nano('0.15'), 1), perMillion(nano('0.60'), 1)];
    expect(parts.map((part) => toCredits(part, 1_000_000))).toEqual([1, 1]);
    expect(
      toCredits(
        parts.reduce((sum, part) => sum + part, 0n),
        1_000_000,
      ),
    ).toBe(1);
  });

  test('which is nothing for nothing, and one credit for the smallest something', () => {
    expect(toCredits(0n, 1_000_000)).toBe(0);
    expect(toCredits(1n, 1_000_000)).toBe(1);
    expect(toCredits(perMillion(nano('1'), 3), 1_000_000)).toBe(3);
  });

  test('at the rate of each, though the one before had another', () => {
    const dollar = perUnit(nano('1'), 1);
    const rates = [1_000_000, 100, 1_000_000];
    expect(rates.map((rate) => toCredits(dollar, rate))).toEqual([1_000_000, 100, 1_000_000]);
    expect(rates.map((rate) => feeToCredits(dollar, 500, rate))).toEqual([50_000, 5, 50_000]);
  });
});

describe('a share of a price', () => {
  test.each([
    // 7,998 credits at 5 % are 399.9.
    [7_998_000_000_000n, 500, 400],
    [8_000_000_000_000n, 500, 400],
    [8_000_000_000_001n, 500, 401],
    [1_100_000_000n, 500, 1],
    // 1.2 credits at 150 % are 1.8, so 2; rounded twice it would be 3.
    [1_200_000_000n, 15_000, 2],
    [1n, 10_000, 1],
    [7_998_000_000_000n, 0, 0],
    [0n, 500, 0],
  ])('%d femto-dollars at %d basis points are %d credits', (amount, basisPoints, credits) => {
    expect(feeToCredits(amount, basisPoints, 1_000_000)).toBe(credits);
  });
});
