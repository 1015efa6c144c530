import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { Secret } from '../core/secret.ts';
import { SealingKey } from './vault.ts';

const key = new SealingKey(new Secret('0123456789-0123456789-0123456789'));
const other = new SealingKey(new Secret('another-0123456789-0123456789-01'));

test('what was sealed opens for the same purpose with the same key, and only so', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string(), fc.string(), (text, purpose, wrong) => {
      const sealed = key.seal(text, purpose);
      expect(key.open(sealed, purpose)).toBe(Buffer.from(text).toString());
      expect(other.open(sealed, purpose)).toBeUndefined();
      if (wrong !== purpose) expect(key.open(sealed, wrong)).toBeUndefined();
    }),
  );
});

test('a change of any byte is noticed, and so is a piece', () => {
  const sealed = key.seal('sk-secret', 'a');
  sealed.forEach((byte, at) => {
    const changed = sealed.with(at, byte ^ 1);
    expect(key.open(changed, 'a')).toBeUndefined();
    expect(key.open(sealed.subarray(0, at), 'a')).toBeUndefined();
  });
});

test('the same text is never sealed to the same bytes, and never shows in them', () => {
  const seals = Array.from({ length: 100 }, () => Buffer.from(key.seal('sk-secret', 'a')));
  const nonces = new Set(seals.map((sealed) => sealed.subarray(1, 13).toString('hex')));
  expect(nonces.size).toBe(100);
  expect(seals.some((sealed) => sealed.includes('sk-secret'))).toBe(false);
});

test('the fingerprint tells keys apart', () => {
  expect(key.fingerprint).toMatch(/^[0-9a-f]{32}$/);
  expect(key.fingerprint).not.toBe(other.fingerprint);
});
