import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { uploadBytesMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import type { Upload, UploadDirectory } from '../core/form.ts';
import { randomText } from '../core/ids.ts';
import { MemoryBudget, type MemoryReservation } from '../limits/memory-budget.ts';

/** Read and written at once: large enough for a disk, small beside a file. */
const chunkBytes = 256 * 1024;

/**
 * Uploads of running requests. Their files are unlinked as soon as they are open, before a byte is
 * written: not even a process that is killed leaves a byte of them behind.
 */
export class UploadFolder {
  readonly path: string;
  readonly budget: MemoryBudget;

  constructor(path: string, bytesMax = uploadBytesMax) {
    this.path = path;
    const refusal = 'Too many uploads are under way here; try again shortly.';
    this.budget = new MemoryBudget(bytesMax, refusal);
  }

  /** A process that is killed before it can unlink a file leaves it behind, empty. */
  async sweep(): Promise<void> {
    const names = await readdir(this.path).catch(() => []);
    // Network disks keep what is unlinked and still open, under a name with a dot.
    const left = names.filter((name) => !name.startsWith('.'));
    await Promise.allSettled(left.map((name) => unlink(join(this.path, name))));
  }

  uploadsFor(tenantId: string): UploadDirectory {
    return new RequestUploads(this.path, this.budget.openReservation(tenantId));
  }
}

class RequestUploads implements UploadDirectory {
  readonly #folder: string;
  readonly #reservation: MemoryReservation;
  readonly #files = new Set<FileHandle>();

  constructor(folder: string, reservation: MemoryReservation) {
    this.#folder = folder;
    this.#reservation = reservation;
  }

  async keep(chunks: AsyncIterable<Uint8Array>): Promise<Upload> {
    const file = await this.#open();
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of chunks) {
      this.#reservation.reserve(chunk.length);
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
      // With `force`, since a process that starts may have swept the file away.
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
  for (let at = 0; at < bytes; at += chunkBytes) {
    yield await readAt(file, at, Math.min(chunkBytes, bytes - at));
  }
}

async function readAt(file: FileHandle, at: number, length: number): Promise<Uint8Array> {
  const chunk = new Uint8Array(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(chunk, done, length - done, at + done);
    if (bytesRead === 0) throw new Error('An upload is shorter than it was.');
    done += bytesRead;
  }
  return chunk;
}

function storageError(cause: unknown): GatewayError {
  const message = 'Tollgate cannot store uploads right now.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 5, cause });
}
