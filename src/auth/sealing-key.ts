import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { derivedKey, type Secret, type SecretKeys } from '../core/secret.ts';

/** First byte of what is sealed, so that another way of sealing can follow one day. */
const version = 1;
const nonceBytes = 12;
const tagBytes = 16;

/** One sealing key from each secret, in the same order. */
export function sealingKeysOf([current, ...former]: SecretKeys): readonly [
  SealingKey,
  ...SealingKey[],
] {
  return [new SealingKey(current), ...former.map((secret) => new SealingKey(secret))];
}

/**
 * Encrypts small secrets with AES-256-GCM. The purpose is authenticated with them: what was sealed
 * for one purpose does not open for another. Its key is derived, so that the operator's secret key
 * itself is never used twice.
 */
export class SealingKey {
  readonly #key: Uint8Array;
  /** Names the key without telling it. */
  readonly fingerprint: string;

  constructor(secret: Secret) {
    this.#key = derivedKey(secret, 'seal');
    this.fingerprint = derivedKey(secret, 'fingerprint').subarray(0, 16).toHex();
  }

  seal(text: string, purpose: string): Uint8Array {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce);
    cipher.setAAD(Buffer.from(purpose));
    const sealed = [cipher.update(text, 'utf8'), cipher.final()];
    return new Uint8Array(
      Buffer.concat([Buffer.of(version), nonce, ...sealed, cipher.getAuthTag()]),
    );
  }

  /** Undefined for what was changed, sealed for another purpose, or sealed with another key. */
  open(sealed: Uint8Array, purpose: string): string | undefined {
    const start = 1 + nonceBytes;
    const end = sealed.length - tagBytes;
    if (sealed[0] !== version || end < start) return undefined;
    const decipher = createDecipheriv('aes-256-gcm', this.#key, sealed.subarray(1, start));
    decipher.setAAD(Buffer.from(purpose));
    decipher.setAuthTag(sealed.subarray(end));
    try {
      const text = decipher.update(sealed.subarray(start, end));
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    } catch {
      return undefined;
    }
  }
}
