import { createHmac, timingSafeEqual } from 'node:crypto';
import { derivedKey } from '../core/derived-key.ts';
import { isObjectKey } from '../core/object-key.ts';
import type { Secret } from '../core/secret.ts';
import type { LinkWish } from './objects.ts';

/**
 * Links to objects in the embedded store. Whoever has one may fetch that object until it expires;
 * every character of it is part of what is signed.
 */
export class ObjectLinks {
  readonly #key: Uint8Array;

  constructor(secret: Secret) {
    this.#key = derivedKey(secret, 'object links');
  }

  make(key: string, { expiresAt, baseUrl }: LinkWish): string {
    const expires = String(Math.floor(expiresAt / 1000));
    return `${baseUrl}/v1/objects/${key}?${this.#query(key, expires)}`;
  }

  /** `query` as it came, without the question mark: a parameter more or less is a change. */
  isValid(key: string, query: string, now: number): boolean {
    const [, expires = ''] = /^expires=(\d{1,12})&/.exec(query) ?? [];
    if (!isObjectKey(key) || expires === '') return false;
    return isEqual(query, this.#query(key, expires)) && now < Number(expires) * 1000;
  }

  #query(key: string, expires: string): string {
    const signed = `GET\n${key}\n${expires}`;
    const signature = createHmac('sha256', this.#key).update(signed).digest('hex');
    return `expires=${expires}&signature=${signature}`;
  }
}

function isEqual(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
