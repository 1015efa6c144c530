import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { GatewayError } from '../core/errors.ts';
import type { Upload, UploadDirectory } from '../core/form.ts';
import { randomText } from '../core/ids.ts';
import { FairShareBudget, type MemoryReservation } from '../limits/memory-budget.ts';
import { type FreeBytes, FreeSpaceGuard, freeBytesOf } from './free-space.ts';

/**
 * The maximum total size of the files of running requests and unfinished job forms, enough for 40
 * image edits of the maximum size.
 */
export const uploadBytesMax = 4 * 1024 * 1024 * 1024;

/** Bytes per read. */
const chunkBytes = 256 * 1024;

/**
 * Uploads of running requests. Files are unlinked right after opening, before anything is written,
 * so that even a killed process leaves nothing behind.
 */
export class UploadFolder {
  readonly path: string;
  readonly budget: FairShareBudget;
  readonly #freeBytes: FreeBytes;

  constructor(path: string, bytesMax = uploadBytesMax, freeBytes = freeBytesOf) {
    this.path = path;
    this.#freeBytes = freeBytes;
    const message = 'This gateway has too many uploads in progress; try again shortly.';
    this.budget = new FairShareBudget(bytesMax, message);
  }

  /** Deletes the empty files of processes that were killed before they could unlink them. */
  async sweep(): Promise<void> {
    const names = await readdir(this.path).catch(() => []);
    // Network file systems keep files that are unlinked but open, under a name with a dot.
    const leftovers = names.filter((name) => !name.startsWith('.'));
    await Promise.allSettled(leftovers.map((name) => unlink(join(this.path, name))));
  }

  uploadsFor(tenantId: string): UploadDirectory {
    const reservation = this.budget.openReservation(tenantId);
    return new RequestUploads(this.path, reservation, this.#freeBytes);
  }
}

class RequestUploads implements UploadDirectory {
  readonly #folder: string;
  readonly #reservation: MemoryReservation;
  readonly #freeBytes: FreeBytes;
  readonly #files = new Set<FileHandle>();

  constructor(folder: string, reservation: MemoryReservation, freeBytes: FreeBytes) {
    this.#folder = folder;
    this.#reservation = reservation;
    this.#freeBytes = freeBytes;
  }

  async store(chunks: AsyncIterable<Uint8Array>): Promise<Upload> {
    const file = await this.#open();
    const space = new FreeSpaceGuard(this.#folder, this.#freeBytes);
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of chunks) {
      this.#reservation.reserve(chunk.length);
      await space.beforeWrite(chunk.length);
      hash.update(chunk);
      await writeFully(file, chunk, bytes);
      bytes += chunk.length;
    }
    return {
      bytes,
      sha256: hash.digest('hex'),
      chunks: () => readFrom(file, bytes),
      start: (bytesMax) => readAt(file, 0, Math.min(bytes, bytesMax)),
    };
  }

  async clear(): Promise<void> {
    const files = [...this.#files];
    this.#files.clear();
    this.#reservation.release();
    await Promise.all(files.map((file) => file.close()));
  }

  async #open(): Promise<FileHandle> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      const path = join(this.#folder, randomText(26));
      const file = await open(path, 'wx+', 0o600);
      this.#files.add(file);
      // `force`, because a starting process may already have deleted the file.
      await rm(path, { force: true });
      return file;
    } catch (cause) {
      throw storageError(cause);
    }
  }
}

async function writeFully(file: FileHandle, chunk: Uint8Array, at: number): Promise<void> {
  try {
    for (let done = 0; done < chunk.length; ) {
      const { bytesWritten } = await file.write(chunk, done, chunk.length - done, at + done);
      done += bytesWritten;
    }
  } catch (cause) {
    throw storageError(cause);
  }
}

async function* readFrom(file: FileHandle, bytes: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < bytes; index += chunkBytes) {
    yield await readAt(file, index, Math.min(chunkBytes, bytes - index));
  }
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Uint8Array> {
  const chunk = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(chunk, done, length - done, at + done);
    if (bytesRead === 0) throw new Error('An upload became shorter.');
    done += bytesRead;
  }
  return chunk;
}

function storageError(cause: unknown): GatewayError {
  const message = "Tollgate can't store uploads right now.";
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 5, cause });
}
