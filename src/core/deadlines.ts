// All deadlines share one ticker. Restarting a timer for each chunk would cost more than forwarding
// the chunk, but moving a deadline only sets a field.

const tickMs = 100;

/** A tick this late means that the process was suspended or busy. */
const lateMs = 2 * tickMs;

/**
 * Ticks to skip after a late tick, so that other threads wake up and received data is read. This is
 * a number of ticks rather than a time, because no data is read while the process is suspended
 * again.
 */
const catchUpTicks = 2;

const unlisted = -1;

/** A deadline that can be moved by setting `at`. `fire` is called once it has passed. */
export abstract class Deadline {
  /** Milliseconds on the clock of `performance.now()`. */
  at = Number.POSITIVE_INFINITY;
  /** Its index in the watcher's list, set only by the watcher. */
  index = unlisted;

  abstract fire(): void;

  /** Called when the watcher ends. */
  giveUp(): void {}
}

export class DeadlineWatcher {
  /**
   * A list rather than a Set, because Sets of this runtime retain deleted entries until they are
   * rebuilt, and a deadline retains its whole request.
   */
  readonly #deadlines: Deadline[] = [];
  #ticker: ReturnType<typeof setInterval> | undefined;
  #isOver = false;
  #tickedAt = 0;
  #ticksToSkip = 0;
  #wasDelayed = false;

  /** True once the watcher has ended. Deadlines that are added later must check it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
    // A copy, because `giveUp` removes deadlines from the list.
    for (const deadline of [...this.#deadlines]) deadline.giveUp();
  }

  add(deadline: Deadline): void {
    deadline.index = this.#deadlines.push(deadline) - 1;
    if (this.#ticker !== undefined) return;
    this.#tickedAt = performance.now();
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  /** Removes a deadline by moving the last one to its index. Returns false if already removed. */
  remove(deadline: Deadline): boolean {
    const { index } = deadline;
    if (index === unlisted) return false;
    deadline.index = unlisted;
    const last = this.#deadlines.pop();
    if (last && last !== deadline) {
      this.#deadlines[index] = last;
      last.index = index;
    }
    return true;
  }

  #tick(): void {
    if (this.#deadlines.length === 0) this.#stopTicker();
    const now = performance.now();
    if (this.#isLate(now)) return;
    for (const due of this.#deadlines.filter(({ at }) => at <= now)) {
      // A deadline fired before it may have removed it.
      if (due.index !== unlisted) due.fire();
    }
  }

  /**
   * Returns true if deadlines must wait because the process was suspended: data received meanwhile
   * hasn't been read yet. Late ticks in a row cause only one delay. Otherwise, the deadlines of a
   * busy process would never fire.
   */
  #isLate(now: number): boolean {
    const isLate = now - this.#tickedAt > lateMs;
    this.#tickedAt = now;
    if (this.#ticksToSkip > 0) {
      this.#ticksToSkip -= 1;
      return true;
    }
    this.#wasDelayed = isLate && !this.#wasDelayed;
    if (this.#wasDelayed) this.#ticksToSkip = catchUpTicks;
    return this.#wasDelayed;
  }

  /** Called a tick after the last deadline was removed, so that the ticker rarely restarts. */
  #stopTicker(): void {
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}

/** Resolves to the promise's value, or to undefined if it takes longer. */
export async function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const timeout = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeout.resolve(undefined), ms);
  try {
    return await Promise.race([promise, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves to the promise's value, or to undefined if the signal aborts first. */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const aborted = Promise.withResolvers<undefined>();
  const onAbort = () => aborted.resolve(undefined);
  if (signal.aborted) onAbort();
  else signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([aborted.promise, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/**
 * Makes a call with a signal that aborts on timeout and when the client disconnects. It also aborts
 * when the call has ended, to close the connection of a response that wasn't read to its end.
 */
export async function boundedCall<T>(
  ms: number,
  clientSignal: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, ms);
  clientSignal?.addEventListener('abort', abort);
  if (clientSignal?.aborted) abort();
  try {
    return await call(controller.signal);
  } finally {
    clearTimeout(timer);
    clientSignal?.removeEventListener('abort', abort);
    abort();
  }
}
