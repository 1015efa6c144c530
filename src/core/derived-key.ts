import { hkdfSync } from 'node:crypto';
import type { Secret, SecretKeys } from './secret.ts';

/**
 * A key of its own for each use, made from the operator's secret key: what was signed or sealed for
 * one use must never be accepted by another.
 */
export function derivedKey(secret: Secret, use: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret.reveal(), '', `tollgate ${use} v1`, 32));
}

/** One from each, in the same order. */
export function derivedKeys(
  [current, ...former]: SecretKeys,
  use: string,
): readonly [Uint8Array, ...Uint8Array[]] {
  return [derivedKey(current, use), ...former.map((secret) => derivedKey(secret, use))];
}
