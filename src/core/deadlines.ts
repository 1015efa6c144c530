/**
 * One ticker for the deadlines of many requests. A timer per chunk would cost more than relaying
 * the chunk; a field that says when the patience ends costs an assignment.
 */

const tickMs = 100;

/** A tick this late means that the process was stopped, or busy with other things. */
const lateMs = 2 * tickMs;

/**
 * Extra ticks after a late one, until what came in the meantime is read: other threads have to wake
 * up, too. Counted in ticks and not by the clock: a process that is stopped again has not read it.
 */
const catchUpTicks = 2;

const unlisted = -1;

/** Somebody who waits. `at` may be moved at any time; `fire` is called once it has passed. */
export abstract class Deadline {
  /** On the clock of `performance.now()`. */
  at = Number.POSITIVE_INFINITY;
  /** Its index in the watch's list; only the watch sets it. */
  index = unlisted;

  abstract fire(): void;

  /** Called when there is no time left for anybody. */
  giveUp(): void {}
}

export class DeadlineWatcher {
  /**
   * A list, not a set: until they are rebuilt, the sets of this runtime hold on to what was deleted
   * from them, and with a deadline to its whole request, which then outlives the next collection.
   */
  readonly #deadlines: Deadline[] = [];
  #ticker: ReturnType<typeof setInterval> | undefined;
  #isOver = false;
  #tickedAt = 0;
  #catchUpTicks = 0;
  #caughtUp = false;

  /** There is no time left, neither for those who wait nor for those who come. */
  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
    // A copy, because one that gives up leaves the list.
    for (const deadline of [...this.#deadlines]) deadline.giveUp();
  }

  add(deadline: Deadline): void {
    deadline.index = this.#deadlines.push(deadline) - 1;
    if (this.#ticker !== undefined) return;
    this.#tickedAt = performance.now();
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  /** The last one takes the place that becomes free. False for one that has left already. */
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
      // One that fired before it may have ended it.
      if (due.index !== unlisted) due.fire();
    }
  }

  /**
   * What came while the process slept has not been read yet, and must not count as missing: there
   * is some time for it. Never twice in a row, or a busy process would wait for ever.
   */
  #isLate(now: number): boolean {
    const isLate = now - this.#tickedAt > lateMs;
    this.#tickedAt = now;
    if (this.#catchUpTicks > 0) {
      this.#catchUpTicks -= 1;
      return true;
    }
    this.#caughtUp = isLate && !this.#caughtUp;
    if (this.#caughtUp) this.#catchUpTicks = catchUpTicks;
    return this.#caughtUp;
  }

  /** Not until a tick after the last left: requests that come one by one would each restart it. */
  #stopTicker(): void {
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}

/** What a promise brings within a time; undefined when it takes longer. */
export async function withTimeout<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const timeout = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => timeout.resolve(undefined), ms);
  try {
    return await Promise.race([promise, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** What a promise brings; undefined when the signal aborts first. */
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
 * Makes a call with a signal that fires when the time is over, when the client leaves, and when the
 * call has ended: that closes whatever an answer nobody read to its end still holds open.
 */
export async function boundedCall<T>(
  ms: number,
  client: AbortSignal | undefined,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = setTimeout(abort, ms);
  client?.addEventListener('abort', abort);
  if (client?.aborted) abort();
  try {
    return await call(controller.signal);
  } finally {
    clearTimeout(timer);
    client?.removeEventListener('abort', abort);
    abort();
  }
}

/** The text of an answer; undefined when it has more bytes, of which the rest is not read. */
export async function readBounded(
  { body }: Response,
  bytesMax: number,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString('utf8');
}
