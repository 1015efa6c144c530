import { GatewayError } from '../core/errors.ts';
import type { FormFile } from '../core/form.ts';
import { readAudioKind, readExtension, sniffBytes } from '../core/media/audio.ts';
import { newObjectKey } from '../core/stored-object.ts';
import type { ObjectStorage } from './object-storage.ts';
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

/** An upload that has no job after this time is deleted by the sweep. */
const orphanMs = 24 * 3_600_000;

/** Streams an audio file into storage. Detects its type from the first bytes before storing any. */
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
    // After a storage failure, leave the cleanup to the sweep.
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
 * Deletes an upload if no job was created from it. Only the store knows that for certain: a job may
 * have been created even though its confirmation was lost.
 */
export async function discardUpload(key: string, { storage, objects }: UploadDeps): Promise<void> {
  try {
    if (!(await objects.releaseUnused(key))) return;
    await storage.delete(key);
    await objects.unregister(key);
  } catch {
    // The sweep deletes the upload later.
  }
}

/** Rethrows client errors. Reports all other errors as unavailable storage, with 503. */
function rethrowAsUnavailable(cause: unknown): never {
  if (cause instanceof GatewayError) throw cause;
  const message = "The input can't be stored right now. Retry in a few seconds.";
  throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5, cause });
}

/** Reads chunks, which may be single bytes, until there are enough to detect the file type. */
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
