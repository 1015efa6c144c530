import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

/** Enough for the lines of about 2,000 answers, which is how many may be running. */
export const reserveBytes = 4 * 1024 * 1024;

const restoreMs = 1_000;

/** File systems that compress would store zeros without allocating space. */
const filler = crypto.getRandomValues(new Uint8Array(64 * 1024));

/**
 * Disk space that a journal allocates in advance. When the disk becomes full, the space is freed
 * for the charges of running requests, and new requests are rejected until it can be allocated
 * again.
 */
export class JournalReserve {
  readonly #path: string;
  #isSpent = false;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string) {
    this.#path = join(folder, 'reserve');
    this.#allocate();
  }

  /** Frees the space. Returns false if it was freed before. */
  spend(now = performance.now()): boolean {
    if (this.#isSpent) return false;
    this.#isSpent = true;
    this.#triedAt = now;
    this.#free();
    return true;
  }

  /**
   * Returns whether the space is allocated. If it isn't, tries to allocate it, at most once a
   * second.
   */
  restore(now = performance.now()): boolean {
    if (this.#isSpent && now - this.#triedAt >= restoreMs) {
      this.#triedAt = now;
      this.#allocate();
    }
    return !this.#isSpent;
  }

  #allocate(): void {
    try {
      const file = openSync(this.#path, 'w', 0o600);
      try {
        for (let bytes = 0; bytes < reserveBytes; ) bytes += writeSync(file, filler);
      } finally {
        closeSync(file);
      }
      this.#isSpent = false;
    } catch {
      this.#isSpent = true;
      this.#free();
    }
  }

  #free(): void {
    try {
      rmSync(this.#path, { force: true });
    } catch {
      // The folder may have been replaced. Nothing that is written there could be lost.
    }
  }
}
