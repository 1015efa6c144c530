import { statfs } from 'node:fs/promises';
import { diskFreeBytesMin } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';

/** How much is written between two checks. All uploads at once must stay below the reserve. */
const checkEveryBytes = 1024 * 1024;

/** Returns the free bytes of the disk that holds a folder. */
export type FreeBytes = (folder: string) => Promise<number>;

export const freeBytesOf: FreeBytes = async (folder) => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

/**
 * Stops one file before it fills the disk. The journal and the database are usually on the same
 * disk, and without space for them, no request can be billed or served.
 */
export class FreeSpaceGuard {
  readonly #folder: string;
  readonly #freeBytes: FreeBytes;
  #bytesUntilCheck = 0;

  constructor(folder: string, freeBytes: FreeBytes) {
    this.#folder = folder;
    this.#freeBytes = freeBytes;
  }

  /** Call before each write. Throws 503 if the disk is too full. */
  async beforeWrite(bytes: number): Promise<void> {
    this.#bytesUntilCheck -= bytes;
    if (this.#bytesUntilCheck > 0) return;
    this.#bytesUntilCheck = checkEveryBytes;
    if ((await this.#freeBytes(this.#folder)) - bytes >= diskFreeBytesMin) return;
    const message = "The gateway's disk is almost full, so it stores no files. Try again later.";
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 60 });
  }
}
