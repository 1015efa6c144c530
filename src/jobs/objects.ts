import { createHmac, timingSafeEqual } from 'node:crypto';
import { derivedKeys, type SecretKeys } from '../core/secret.ts';
import { isObjectKey } from '../core/stored-object.ts';

/** Where the inputs and outputs of jobs lie: files, or S3. No client chooses a key. */
export interface ObjectStorage {
  /**
   * Keeps the bytes as they come, without holding them all. The object is there whole or not at
   * all: when the source fails, nothing stays and its failure is passed on. Answers the size.
   */
  put(key: string, chunks: Chunks): Promise<number>;
  /** Undefined when there is none. */
  open(key: string): Promise<StoredObject | undefined>;
  /** Also clears away what an upload under this key left when its process died. */
  delete(key: string): Promise<void>;
  /** An address that lets anybody fetch the object until then, and nothing else. */
  link(key: string, options: LinkOptions): string;
}

export type Chunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface StoredObject {
  readonly bytes: number;
  /** Read only when somebody asks for it, as a whole or in slices. */
  readonly body: Blob;
}

/**
 * A part of an object, or all of it. A proxy between us and a storage may give less than was asked
 * for, or all instead of a part: nobody should pay for half of a text.
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
  throw new Error(`The object storage gave ${read.length} bytes instead of ${end - from}.`);
}

export interface LinkOptions {
  readonly now: number;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** Where clients reach this gateway; S3 has an address of its own. */
  readonly baseUrl: string;
}

/**
 * Links to objects in the embedded store. Whoever has one may fetch that object until it expires;
 * every character of it is part of what is signed.
 */
export class ObjectLinks {
  readonly #keys: ReturnType<typeof derivedKeys>;

  constructor(...secrets: SecretKeys) {
    this.#keys = derivedKeys(secrets, 'object links');
  }

  make(key: string, { expiresAt, baseUrl }: LinkOptions): string {
    const expires = String(Math.floor(expiresAt / 1000));
    return `${baseUrl}/v1/objects/${key}?${queryOf(this.#keys[0], key, expires)}`;
  }

  /** `query` as it came, without the question mark: a parameter more or less is a change. */
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
