import { timingSafeEqual } from 'node:crypto';
import type { KeyKind } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { randomText } from '../core/ids.ts';

/** How keys look: `sk-tg-<public id>-<secret>`. The whole text is secret; its hash is stored. */
const prefixes: Readonly<Record<KeyKind | 'admin', string>> = {
  routing: 'sk-tg-',
  management: 'sk-mgmt-',
  admin: 'sk-admin-',
};

export interface GeneratedKey {
  readonly id: string;
  readonly text: string;
  readonly hash: Uint8Array;
  readonly label: string;
}

/** A fresh key of 36⁴⁰ possibilities. `id` keeps a rotated key's public id. */
export function generateKey(kind: KeyKind, id = `key_${randomText(16)}`): GeneratedKey {
  const text = `${prefixes[kind]}${id.replace('key_', '')}-${randomText(40)}`;
  return { id, text, ...hashAndLabel(text) };
}

/** What is stored of a key's text. */
export function hashAndLabel(text: string): Pick<GeneratedKey, 'hash' | 'label'> {
  return { hash: hashKey(text), label: labelOf(text) };
}

/** An id that no key can have is not looked up: a store may refuse its bytes. */
export function isKeyId(text: string): boolean {
  return /^key_[0-9a-z]{1,60}$/.test(text);
}

export function generateAdminToken(): string {
  return `${prefixes.admin}${randomText(48)}`;
}

export function hashKey(text: string): Uint8Array {
  const hash = new Uint8Array(32);
  Bun.SHA256.hash(text, hash);
  return hash;
}

/** Compares secrets by hash, in time that does not depend on where they differ. */
export function sameHash(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The kind a key text claims by its prefix; the store has the last word. */
export function kindByPrefix(text: string): KeyKind | 'admin' | undefined {
  if (text.startsWith(prefixes.routing)) return 'routing';
  if (text.startsWith(prefixes.management)) return 'management';
  if (text.startsWith(prefixes.admin)) return 'admin';
  return undefined;
}

/** `sk-tg-ab12…9f` */
function labelOf(text: string): string {
  const start = text.indexOf('-', 3) + 1;
  return `${text.slice(0, start + 4)}…${text.slice(-2)}`;
}

/**
 * Finds the key in a request's headers. SDKs disagree on the place: OpenAI's send a bearer token,
 * Anthropic's older ones `x-api-key`, Azure-style clients `api-key`, Google's `x-goog-api-key`.
 */
export function readPresentedKey(headers: Headers): string {
  const authorization = headers.get('authorization');
  const bearer = authorization === null ? null : readBearer(authorization);
  const own = headers.get('x-api-key');
  const azure = headers.get('api-key');
  const google = headers.get('x-goog-api-key');
  // Nearly every request has a bearer token and nothing else.
  if (bearer !== null && own === null && azure === null && google === null) return bearer;
  return soleKey([bearer, own, azure, google]);
}

/** The same key in several headers is one key. */
function soleKey(texts: readonly (string | null)[]): string {
  const candidates = texts.filter((text) => text !== null && text !== '');
  const [first] = candidates;
  if (!first) {
    const message = 'No API key: send it as "Authorization: Bearer <key>".';
    throw new GatewayError('invalid_api_key', message);
  }
  if (candidates.some((text) => text !== first)) {
    const message = 'Two different API keys in one request: send one, or the same in each header.';
    throw new GatewayError('invalid_api_key', message);
  }
  return first;
}

const bearerToken = /^Bearer +\S+$/i;
const emptyBearer = /^(?:Bearer)? *$/i;

function readBearer(value: string): string | null {
  if (bearerToken.test(value)) return value.slice(value.lastIndexOf(' ') + 1);
  // Tools that mean to send only x-api-key often leave an empty bearer behind.
  if (emptyBearer.test(value)) return null;
  const message = 'The Authorization header must read "Bearer <key>".';
  throw new GatewayError('invalid_api_key', message);
}
