import { timingSafeEqual } from 'node:crypto';
import type { KeyKind } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { randomText } from '../core/ids.ts';

/** Keys look like `sk-tg-<public id>-<secret>`. Only the hash of the full text is stored. */
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

/** Generates a key with 36^40 possible secrets. Pass `id` to rotate a key. */
export function generateKey(kind: KeyKind, id = `key_${randomText(16)}`): GeneratedKey {
  const text = `${prefixes[kind]}${id.replace('key_', '')}-${randomText(40)}`;
  return { id, text, ...hashAndLabel(text) };
}

/** Returns the parts of a key's text that are stored. */
export function hashAndLabel(text: string): Pick<GeneratedKey, 'hash' | 'label'> {
  return { hash: hashKey(text), label: labelOf(text) };
}

/** Call this before a lookup, because a database may reject the characters of invalid IDs. */
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

/** Compares hashes in constant time. */
export function sameHash(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Returns the kind of key that the text's prefix names. The key itself isn't verified. */
export function kindByPrefix(text: string): KeyKind | 'admin' | undefined {
  if (text.startsWith(prefixes.routing)) return 'routing';
  if (text.startsWith(prefixes.management)) return 'management';
  if (text.startsWith(prefixes.admin)) return 'admin';
  return undefined;
}

/** Returns a label such as `sk-tg-ab12…9f`. */
function labelOf(text: string): string {
  const start = text.indexOf('-', 3) + 1;
  return `${text.slice(0, start + 4)}…${text.slice(-2)}`;
}

/**
 * Reads the key from the request headers. OpenAI's SDKs send a bearer token, older Anthropic SDKs
 * `x-api-key`, Azure clients `api-key`, and Google's `x-goog-api-key`. Throws 401.
 */
export function readPresentedKey(headers: Headers): string {
  const authorization = headers.get('authorization');
  const bearer = authorization === null ? null : readBearer(authorization);
  const anthropic = headers.get('x-api-key');
  const azure = headers.get('api-key');
  const google = headers.get('x-goog-api-key');
  // Nearly every request has a bearer token and nothing else.
  if (bearer !== null && anthropic === null && azure === null && google === null) return bearer;
  return soleKey([bearer, anthropic, azure, google]);
}

/** The same key may be in several headers. */
function soleKey(texts: readonly (string | null)[]): string {
  const candidates = texts.filter((text) => text !== null && text !== '');
  const [first] = candidates;
  if (!first) {
    const message = 'The API key is missing. Send it as "Authorization: Bearer <key>".';
    throw new GatewayError('invalid_api_key', message);
  }
  if (candidates.some((text) => text !== first)) {
    const message = 'The request has different API keys in several headers. Send only one key.';
    throw new GatewayError('invalid_api_key', message);
  }
  return first;
}

const bearerToken = /^Bearer +\S+$/i;
const emptyBearer = /^(?:Bearer)? *$/i;

function readBearer(value: string): string | null {
  if (bearerToken.test(value)) return value.slice(value.lastIndexOf(' ') + 1);
  // Tools that use x-api-key often send an empty bearer token, too.
  if (emptyBearer.test(value)) return null;
  const message = 'The Authorization header must be "Bearer <key>".';
  throw new GatewayError('invalid_api_key', message);
}
