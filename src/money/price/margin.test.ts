import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { noUsage } from '../../core/usage.ts';
import { costOf, modelCharge } from './cost.ts';
import { withMargin } from './margin.ts';
import { priceNames, tokenPriceNames } from './price-classes.ts';
import { readPriceList } from './price-list.ts';

/** A fraction of whole numbers, so that the test's book never rounds. */
interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}
const fraction = (over: bigint, under = 1n): Fraction => ({ over, under });
const plus = (a: Fraction, b: Fraction) =>
  fraction(a.over * b.under + b.over * a.under, a.under * b.under);
const times = (a: Fraction, b: Fraction) => fraction(a.over * b.over, a.under * b.under);
const read = (dollars = '0') => {
  const [whole = '', decimals = ''] = dollars.split('.');
  return fraction(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
};
const roundUp = ({ over, under }: Fraction) => (over + under - 1n) / under;

type Strings = Readonly<Record<string, string | undefined>>;
/** What an unset price is, written down here again: docs/configuration.md promises it. */
const fallbacks: Strings = {
  audio: 'prompt',
  cache_read: 'prompt',
  cache_write: 'prompt',
  cache_write_1h: 'cache_write',
};
const priceIn = (strings: Strings, name: string): Fraction => {
  const fallback = fallbacks[name];
  const price = strings[name];
  if (price !== undefined || fallback === undefined) return read(price);
  return priceIn(strings, fallback);
};

const dollars = fc
  .tuple(fc.nat(99), fc.stringMatching(/^\d{1,9}$/))
  .map(([whole, decimals]) => `${whole}.${decimals}`);
const some = <Name extends string>(names: readonly Name[]) =>
  fc
    .record(Object.fromEntries(names.map((name) => [name, fc.option(dollars, { nil: undefined })])))
    .map((prices) => Object.fromEntries(Object.entries(prices).filter(([, price]) => price)));

/** The quantity of each class, and how many units its price is for. */
const quantities = fc.record({
  prompt: fc.nat(400_000),
  audio: fc.nat(9_000),
  cache_read: fc.nat(9_000),
  cache_write: fc.nat(9_000),
  cache_write_1h: fc.nat(9_000),
  completion: fc.nat(90_000),
  image: fc.nat(4),
  output_image: fc.nat(4),
  characters: fc.nat(9_000),
  bytes: fc.nat(9_000),
  minute: fc.nat(9_000),
});
const unitsOf: Readonly<Record<string, bigint>> = {
  ...{ image: 1n, output_image: 1n, request: 1n, minute: 60_000n },
};

describe('withMargin', () => {
  test('charges what a book of fractions says, rounded up once', () => {
    const tier = fc.tuple(fc.nat(300_000), some(tokenPriceNames));
    const margin = fc.record({ factor: fc.nat(50_000), surcharge: some(priceNames) });
    const rate = fc.constantFrom(1, 1_000, 1_000_000);
    fc.assert(
      fc.property(
        some(priceNames),
        fc.option(tier, { nil: null }),
        margin,
        quantities,
        rate,
        (base, tiered, { factor, surcharge }, used, creditsPerUsd) => {
          const [above, changed] = tiered ?? [0, {}];
          const list = tiered
            ? { ...base, long_prompts: [{ above_tokens: above + 1, ...changed }] }
            : base;
          const usage = {
            ...noUsage,
            inputTokens: used.prompt,
            inputAudioTokens: used.audio,
            cacheReadTokens: used.cache_read,
            cacheWriteTokens: used.cache_write,
            cacheWrite1hTokens: used.cache_write_1h,
            outputTokens: used.completion,
          };
          const units = {
            inputImages: used.image,
            outputImages: used.output_image,
            characters: used.characters,
            bytes: used.bytes,
            audioMs: used.minute,
          };
          const length =
            used.prompt + used.audio + used.cache_read + used.cache_write + used.cache_write_1h;
          const inForce = tiered && length > above + 1 ? { ...base, ...changed } : base;
          let due = fraction(0n);
          for (const name of priceNames) {
            const quantity = name === 'request' ? 1 : used[name];
            const atList = times(priceIn(inForce, name), fraction(BigInt(factor), 10_000n));
            const price = plus(atList, priceIn(surcharge, name));
            const share = fraction(BigInt(quantity), unitsOf[name] ?? 1_000_000n);
            due = plus(due, times(price, share));
          }
          const expected = roundUp(times(due, fraction(BigInt(creditsPerUsd))));

          const charged = withMargin(list, { plan: 'pro', factorBasisPoints: factor, surcharge });
          const charge = modelCharge(costOf(usage, readPriceList(charged), units), creditsPerUsd);
          expect(BigInt(charge)).toBe(expected);
        },
      ),
      { numRuns: 500 },
    );
  });

  test('shows only the charged prices', () => {
    const list = {
      prompt: '3',
      completion: '15',
      long_prompts: [{ above_tokens: 9, prompt: '6' }],
    };
    const surcharge = { prompt: '0.5', request: '0.001' };
    expect(withMargin(list, { plan: 'pro', factorBasisPoints: 12_500, surcharge })).toEqual({
      prompt: '4.25',
      completion: '18.75',
      request: '0.001',
      long_prompts: [{ above_tokens: 9, prompt: '8', completion: '18.75' }],
    });
  });
});
