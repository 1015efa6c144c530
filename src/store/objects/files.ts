import { strict as assert } from 'node:assert';
import { mkdirSync } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { failureCode } from '../../core/errors.ts';
import type {
  Chunks,
  LinkOptions,
  ObjectLinks,
  ObjectStorage,
  StoredObject,
} from '../../jobs/objects.ts';
import { storeError } from '../errors.ts';

/** Objects as files of one folder, open to nobody else on the machine. */
export class FileObjects implements ObjectStorage {
  readonly #folder: string;
  readonly #links: ObjectLinks;

  constructor(folder: string, links: ObjectLinks) {
    this.#folder = resolve(folder);
    this.#links = links;
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    } catch (cause) {
      const reason = failureCode(cause) ?? String(cause);
      throw storeError(`The folder for objects ${this.#folder} cannot be made (${reason}).`, cause);
    }
  }

  async put(key: string, chunks: Chunks): Promise<number> {
    const [path, draft] = [this.#path(key), this.#draft(key)];
    try {
      const file = await open(draft, 'wx', 0o600);
      let bytes: number;
      try {
        bytes = await writeAll(file, chunks);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(draft, path);
      return bytes;
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  }

  async open(key: string): Promise<StoredObject | undefined> {
    const path = this.#path(key);
    try {
      const { size } = await stat(path);
      return { bytes: size, body: Bun.file(path) };
    } catch (error) {
      if (failureCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  async delete(key: string): Promise<void> {
    await rm(this.#path(key), { force: true });
    await rm(this.#draft(key), { force: true });
  }

  link(key: string, options: LinkOptions): string {
    return this.#links.make(key, options);
  }

  #path(key: string): string {
    // Keys are made by us; this check is the last fence before the file system.
    assert(/^[0-9a-z.]+$/.test(key) && !key.startsWith('.'), 'An object key is malformed.');
    return join(this.#folder, key);
  }

  #draft(key: string): string {
    return `${this.#path(key)}.part`;
  }
}

async function writeAll(file: FileHandle, chunks: Chunks): Promise<number> {
  let bytes = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      const { bytesWritten } = await file.write(chunk, at, chunk.length - at);
      at += bytesWritten;
    }
    bytes += chunk.length;
  }
  return bytes;
}
