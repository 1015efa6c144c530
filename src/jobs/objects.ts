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
  link(key: string, wish: LinkWish): string;
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
  const part = from === 0 && end === bytes ? body : body.slice(from, end);
  const read = new Uint8Array(await part.arrayBuffer());
  if (read.length === end - from) return read;
  throw new Error(`The object storage gave ${read.length} bytes instead of ${end - from}.`);
}

export interface LinkWish {
  readonly now: number;
  /** Epoch milliseconds. */
  readonly expiresAt: number;
  /** Where clients reach this gateway; S3 has an address of its own. */
  readonly baseUrl: string;
}
