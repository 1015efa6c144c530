/** Where no address of a user may lead, name by name and port by port. */
import { expect, test } from 'bun:test';
import { checkUserUrl } from './address-guard.ts';

test.each([
  ...[1, 22, 25, 79, 81, 110, 442, 444, 1_023],
  ...[2_049, 2_181, 2_375, 2_376, 2_379, 2_380, 2_525, 3_306, 3_389, 5_060, 5_061, 5_432, 5_672],
  ...[5_900, 5_984, 6_379, 6_443, 6_667, 6_697, 8_500, 9_042, 9_092, 9_200, 9_300, 10_250],
  ...[10_255, 11_211, 26_379, 27_017, 27_018, 27_019],
])('nobody knocks at port %i through us', (port) => {
  const refusal = `The URL must not use port ${port}.`;
  expect(checkUserUrl(`http://example.com:${port}/`)).toBe(refusal);
});

test.each([80, 443, 1_024, 3_000, 8_080, 8_443])('pictures are served at port %i', (port) => {
  expect(checkUserUrl(`http://example.com:${port}/`)).toBeInstanceOf(URL);
});

test.each([
  ...['localhost', 'local', 'localdomain', 'internal', 'intranet', 'private', 'corp', 'home'],
  ...['lan', 'svc', 'home.arpa', 'metadata.tencentyun.com'],
])('names that end in %s mean something inside a network only', (suffix) => {
  for (const host of [suffix, `a.${suffix}`, `A.B.${suffix.toUpperCase()}`, `a.${suffix}.`]) {
    expect(checkUserUrl(`https://${host}/`)).toBeString();
  }
  expect(checkUserUrl(`https://not${suffix}.example.com/`)).toBeInstanceOf(URL);
});

test('a part of a name has up to 63 characters', () => {
  const [longest, longer] = ['a'.repeat(63), 'a'.repeat(64)];
  expect(checkUserUrl(`https://${longest}.example.com/`)).toBeInstanceOf(URL);
  expect(checkUserUrl(`https://${longer}.example.com/`)).toBeString();
});
