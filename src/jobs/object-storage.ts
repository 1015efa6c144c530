import { createHmac, timingSafeEqual } from 'node:crypto';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';
import { isObjectKey } from '../core/stored-object.ts';

/** Stores the inputs and outputs of jobs as files or in S3. Clients never choose a key. */
export interface ObjectStorage {
  /**
   * Streams the bytes into an object and returns its size. If the source fails, no object is
   * stored, and the error is rethrown.
   */
  put(key: string, chunks: Chunks): Promise<number>;
  /** Returns undefined if there is no such object. */
  open(key: string): Promise<StoredObject | undefined>;
  /** Also deletes a partial upload under this key that a crashed process left. */
  delete(key: string): Promise<void>;
  /** Returns a URL that gives anyone read access to this object until it expires. */
  link(key: string, options: LinkOptions): string;
}

export type Chunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface StoredObject {
  readonly bytes: number;
  /** Reads lazily: the full object or a slice of it. */
  readonly body: Blob;
}

/**
 * Reads a range of an object, or all of it. Checks the length, because a proxy in front of the
 * storage may ignore or truncate the range. The tenant would then pay for incomplete input.
 */
export async function readObject(
  { bytes, body }: StoredObject,
  from = 0,
  to = bytes,
): Promise<Uint8Array> {
  const end = Math.min(to, bytes);
  const slice = from === 0 && end === bytes ? body : body.slice(from, end);
  const read = new Uint8Array(await slice.arrayBuffer());
  if (read.length === end - from) return read;
  throw new Error(`The object storage returned ${read.length} bytes instead of ${end - from}.`);
}

export interface LinkOptions {
  readonly now: number;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** The URL of this gateway; not used for S3 links. */
  readonly baseUrl: string;
}

/** Signs and verifies links to objects stored as files. A link works until it expires. */
export class ObjectLinks {
  readonly #keys: ReturnType<typeof derivedKeys>;

  constructor(...secrets: SecretKeys) {
    this.#keys = derivedKeys(secrets, 'object links');
  }

  make(key: string, { expiresAt, baseUrl }: LinkOptions): string {
    const expires = String(Math.floor(expiresAt / 1000));
    return `${baseUrl}/v1/objects/${key}?${queryOf(this.#keys[0], key, expires)}`;
  }

  /** `query` is the raw query string, without `?`. With extra parameters, the link is invalid. */
  isValid(key: string, query: string, now: number): boolean {
    const [, expires = ''] = /^expires=(\d{1,12})&/.exec(query) ?? [];
    if (!isObjectKey(key) || expires === '') return false;
    const isSigned = this.#keys.some((signingKey) =>
      isEqual(query, queryOf(signingKey, key, expires)),
    );
    return isSigned && now < Number(expires) * 1000;
  }
}

function queryOf(signingKey: Uint8Array, key: string, expires: string): string {
  const signed = `GET\n${key}\n${expires}`;
  const signature = createHmac('sha256', signingKey).update(signed).digest('hex');
  return `expires=${expires}&signature=${signature}`;
}

function isEqual(actual: string, expected: string): boolean {
  const [a, b] = [Buffer.from(actual), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
