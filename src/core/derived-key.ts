import { hkdfSync } from 'node:crypto';
import type { Secret } from './secret.ts';

/**
 * A key of its own for each use, made from the operator's secret key: what was signed or sealed for
 * one use must never be accepted by another.
 */
export function derivedKey(secret: Secret, use: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret.reveal(), '', `tollgate ${use} v1`, 32));
}
