import { hkdfSync } from 'node:crypto';
import type { Secret } from './secret.ts';

/**
 * A key of its own for each use, made from the operator's secret key: what was signed or sealed for
 * one use must never be accepted by another.
 */
export function derivedKey(secret: Secret, use: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret.reveal(), '', `tollgate ${use} v1`, 32));
}

/** With those of the former secret: the first makes what is new, and all of them are accepted. */
export function derivedKeys(secret: Secret, use: string): readonly [Uint8Array, ...Uint8Array[]] {
  const former = secret.former === null ? [] : derivedKeys(secret.former, use);
  return [derivedKey(secret, use), ...former];
}
