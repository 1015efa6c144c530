/**
 * Divides the reading of provider streams and long bodies into turns of the event loop. More can
 * arrive at once than can be processed in a second, and all other requests would wait for it.
 */

/** The slowest bytes, such as empty events, take less than 0.5 µs each. */
export const bytesPerTurn = 64 * 1024;

interface Waiter {
  readonly bytes: number;
  readonly resume: () => void;
}

class Turns {
  /** Bytes processed since the last time that others had a turn. */
  #bytes = 0;
  #waiters: Waiter[] = [];

  /** Returns whether this many bytes may be processed now. */
  take(bytes: number): boolean {
    if (this.#bytes >= bytesPerTurn) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Calls `resume` in a later turn, when these bytes may be processed. */
  wait(bytes: number, resume: () => void): void {
    this.#waiters.push({ bytes, resume });
    if (this.#waiters.length === 1) setImmediate(this.#startTurn);
  }

  /** Resolves when this many bytes may be processed. */
  async pass(bytes: number): Promise<void> {
    if (!this.take(bytes)) await new Promise<void>((resolve) => this.wait(bytes, resolve));
  }

  readonly #startTurn = () => {
    const waiters = this.#waiters;
    let resumed = 0;
    this.#bytes = 0;
    for (const { bytes, resume } of waiters) {
      if (!this.take(bytes)) break;
      resumed += 1;
      resume();
    }
    waiters.splice(0, resumed);
    if (waiters.length > 0) setImmediate(this.#startTurn);
  };
}

/** Shared by all streams of the process. */
export const turns = new Turns();
