import { GatewayError } from '../core/errors.ts';
import type { FormFile } from '../core/form.ts';
import { readAudioKind, readExtension, sniffBytes } from '../core/media/audio.ts';
import { newObjectKey } from '../core/stored-object.ts';
import type { ObjectStorage } from './objects.ts';
import type { JobObjects } from './queue.ts';

interface UploadDeps {
  readonly storage: ObjectStorage;
  readonly objects: Pick<JobObjects, 'register' | 'releaseUnused' | 'unregister'>;
}

export interface StoredInput {
  readonly key: string;
  readonly bytes: number;
}

export interface StoredAudio extends StoredInput {
  readonly sha256: string;
}

/** An upload that no job came of is swept away after so long, should all else fail. */
const orphanMs = 24 * 3_600_000;

/** Stores an audio file as it arrives. Its first bytes decide what it is, before any is kept. */
export async function storeAudio(
  file: FormFile,
  jobId: string,
  now: number,
  deps: UploadDeps,
): Promise<StoredAudio> {
  const { storage, objects } = deps;
  readExtension(file.filename);
  const source = file.chunks[Symbol.asyncIterator]();
  const start = await firstBytes(source);
  const key = newObjectKey(readAudioKind(start));
  await objects.register(key, jobId, now + orphanMs);
  const hash = new Bun.CryptoHasher('sha256');
  try {
    const bytes = await storage.put(key, hashed(start, source, hash));
    return { key, bytes, sha256: hash.digest('hex') };
  } catch (error) {
    // Only after the client's failures: what a failed storage has kept, the sweep removes later.
    if (error instanceof GatewayError) await discardUpload(key, deps);
    return rethrowAsUnavailable(error);
  }
}

export async function storeText(
  text: string,
  jobId: string,
  now: number,
  { storage, objects }: UploadDeps,
): Promise<StoredInput> {
  const key = newObjectKey('txt');
  await objects.register(key, jobId, now + orphanMs);
  const bytes = await storage
    .put(key, [new TextEncoder().encode(text)])
    .catch(rethrowAsUnavailable);
  return { key, bytes };
}

/**
 * Removes an upload that became no job. The store decides, since a job may have been made whose
 * answer was lost.
 */
export async function discardUpload(key: string, { storage, objects }: UploadDeps): Promise<void> {
  try {
    if (!(await objects.releaseUnused(key))) return;
    await storage.delete(key);
    await objects.unregister(key);
  } catch {
    // The sweep finds the upload.
  }
}

/** A failure of the client's is told as it is; any other is one of the storage. */
function rethrowAsUnavailable(cause: unknown): never {
  if (cause instanceof GatewayError) throw cause;
  const message = 'The input cannot be stored right now; try again shortly.';
  throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5, cause });
}

/** As many chunks as it takes: each may be a single byte. */
async function firstBytes(source: AsyncIterator<Uint8Array>): Promise<Uint8Array> {
  let start: Uint8Array = new Uint8Array();
  while (start.length < sniffBytes) {
    const next = await source.next();
    if (next.done) break;
    start = start.length === 0 ? next.value : Buffer.concat([start, next.value]);
  }
  return start;
}

async function* hashed(
  start: Uint8Array,
  source: AsyncIterator<Uint8Array>,
  hash: Bun.CryptoHasher,
): AsyncGenerator<Uint8Array> {
  let next: IteratorResult<Uint8Array> = { value: start };
  for (; !next.done; next = await source.next()) {
    hash.update(next.value);
    yield next.value;
  }
}
