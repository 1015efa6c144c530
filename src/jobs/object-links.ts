import { createHmac, timingSafeEqual } from 'node:crypto';
import { isObjectKey } from '../core/object-key.ts';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';
import type { LinkWish } from './objects.ts';

/**
 * Links to objects in the embedded store. Whoever has one may fetch that object until it expires;
 * every character of it is part of what is signed.
 */
export class ObjectLinks {
  readonly #keys: ReturnType<typeof derivedKeys>;

  constructor(...secrets: SecretKeys) {
    this.#keys = derivedKeys(secrets, 'object links');
  }

  make(key: string, { expiresAt, baseUrl }: LinkWish): string {
    const expires = String(Math.floor(expiresAt / 1000));
    return `${baseUrl}/v1/objects/${key}?${queryOf(this.#keys[0], key, expires)}`;
  }

  /** `query` as it came, without the question mark: a parameter more or less is a change. */
  isValid(key: string, query: string, now: number): boolean {
    const [, expires = ''] = /^expires=(\d{1,12})&/.exec(query) ?? [];
    if (!isObjectKey(key) || expires === '') return false;
    const isSigned = this.#keys.some((by) => isEqual(query, queryOf(by, key, expires)));
    return isSigned && now < Number(expires) * 1000;
  }
}

function queryOf(signingKey: Uint8Array, key: string, expires: string): string {
  const signed = `GET\n${key}\n${expires}`;
  const signature = createHmac('sha256', signingKey).update(signed).digest('hex');
  return `expires=${expires}&signature=${signature}`;
}

function isEqual(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
