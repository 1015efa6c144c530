import { readExtension, readKind, sniffBytes } from '../core/audio-type.ts';
import { GatewayError } from '../core/errors.ts';
import type { FormFile } from '../core/form.ts';
import { newObjectKey } from '../core/object-key.ts';
import type { ObjectStore } from './objects.ts';
import type { JobObjects } from './queue.ts';

export interface UploadParts {
  readonly store: ObjectStore;
  readonly objects: Pick<JobObjects, 'note'>;
}

export interface Upload {
  readonly key: string;
  readonly bytes: number;
}

/** An upload that no job came of is swept away after so long, should all else fail. */
const orphanMs = 24 * 3_600_000;

/** Stores an audio file as it arrives. Its first bytes decide what it is, before any is kept. */
export async function storeAudio(
  file: FormFile,
  jobId: string,
  now: number,
  { store, objects }: UploadParts,
): Promise<Upload> {
  readExtension(file.filename);
  const source = file.chunks[Symbol.asyncIterator]();
  const start = await firstBytes(source);
  const key = newObjectKey(readKind(start));
  await objects.note(key, jobId, now + orphanMs);
  return { key, bytes: await store.put(key, rest(start, source)).catch(notStored) };
}

export async function storeText(
  text: string,
  jobId: string,
  now: number,
  { store, objects }: UploadParts,
): Promise<Upload> {
  const key = newObjectKey('txt');
  await objects.note(key, jobId, now + orphanMs);
  const bytes = await store.put(key, [new TextEncoder().encode(text)]).catch(notStored);
  return { key, bytes };
}

/** A failure of the client's is told as it is; any other is one of the storage. */
function notStored(cause: unknown): never {
  if (cause instanceof GatewayError) throw cause;
  const message = 'The input cannot be stored right now; try again shortly.';
  throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 5, cause });
}

/** Chunks may be of one byte. */
async function firstBytes(source: AsyncIterator<Uint8Array>): Promise<Uint8Array> {
  let start: Uint8Array = new Uint8Array();
  while (start.length < sniffBytes) {
    const next = await source.next();
    if (next.done) break;
    start = start.length === 0 ? next.value : Buffer.concat([start, next.value]);
  }
  return start;
}

async function* rest(
  start: Uint8Array,
  source: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield start;
  for (let next = await source.next(); !next.done; next = await source.next()) yield next.value;
}
