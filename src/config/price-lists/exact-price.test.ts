import { expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { parseExactJson, readExactPrice, readTokens } from './exact-price.ts';

const million = 1_000_000;

test.each([
  ['1.5e-07', million, '0.15'],
  ['2.5E-6', million, '2.5'],
  ['0.00001', million, '10'],
  ['3.083e-05', 60, '0.0018498'],
  ['0.0', million, '0'],
  ['-0.0', million, '0'],
  ['0e-300', million, '0'],
  ['1', million, '1000000'],
  ['999.999999999', 1, '999.999999999'],
])('the price %s for %d units is %s', (text, factor, price) => {
  expect(readExactPrice(text, factor)).toEqual({ price });
});

test.each([
  ['-1e-06', 'is negative'],
  ['1.5000020000000002e-05', 'has more than 9 decimals'],
  ['1e999', 'is too high'],
  ['1e-999', 'has more than 9 decimals'],
  ['12345', 'is too high'],
  ['1e1000', 'is not a number'],
  ['0x10', 'is not a number'],
  ['', 'is not a number'],
  [true, 'is not a number'],
  [{}, 'is not a number'],
])('the price %j %s', (value, problem) => {
  expect(readExactPrice(value, million)).toEqual({ problem });
});

test('prices are exact, however a number is written', () => {
  // A price is `units` × 10⁻⁹ dollars per million, so `units` × 10⁻¹⁵ per token.
  const written = fc.record({
    units: fc.nat(2_000_000_000),
    shift: fc.integer({ min: 0, max: 6 }),
  });
  fc.assert(
    fc.property(written, ({ units, shift }) => {
      const text = `${units}${'0'.repeat(shift)}e-${15 + shift}`;
      const [price] = Object.values(readExactPrice(text, million));
      const [whole = '', decimals = ''] = String(price).split('.');
      expect(BigInt(whole + decimals.padEnd(9, '0'))).toBe(BigInt(units));
    }),
  );
});

test('numbers of JSON stay as they are written', () => {
  const text = '{"a": 1.5e-07, "b": [0.10], "c": "1", "d": true, "e": null}';
  expect(parseExactJson(text)).toEqual({ a: '1.5e-07', b: ['0.10'], c: '1', d: true, e: null });
});

test.each([
  ['128000', 128_000],
  ['1e6', 1_000_000],
  ['256000.0', 256_000],
  ['0', undefined],
  ['-1', undefined],
  ['1e300', undefined],
  ['many', undefined],
])('the number of tokens %s is %j', (text, tokens) => {
  expect(readTokens(text)).toBe(tokens);
});
