import { expect, test } from 'bun:test';
import { KnownCredentials } from './known-credentials.ts';

test('KnownCredentials finds all credentials in a text, even if they share an end', () => {
  const known = new KnownCredentials();
  for (const text of ['first-0123456789', 'second-0123456789', 'short']) known.add(text);
  expect(known.findIn('Bad key second-0123456789, not first-0123456789 or short.')).toEqual([
    'second-0123456789',
    'first-0123456789',
  ]);
  expect(known.findIn('other-0123456789')).toEqual([]);
  expect(known.findIn('')).toEqual([]);
});

test('KnownCredentials forgets the least recently used credentials above its limit', () => {
  const known = new KnownCredentials();
  const name = (n: number) => `credential-${n}-${n}`;
  for (let n = 0; n < 20_000; n += 1) known.add(name(n));
  known.add(name(0));
  known.add(name(20_000));
  const found = [0, 1, 2, 20_000].filter((n) => known.findIn(name(n)).length > 0);
  expect(found).toEqual([0, 2, 20_000]);
});
