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

const nowhere = -1;

/** Somebody who waits. `at` may be moved at any time; `fire` is called once it has passed. */
export abstract class Waiting {
  /** On the clock of `performance.now()`. */
  at = Number.POSITIVE_INFINITY;
  /** Its index in the watch's list; only the watch sets it. */
  place = nowhere;

  abstract fire(): void;

  /** Called when there is no time left for anybody. */
  giveUp(): void {}
}

export class Watch {
  /**
   * A list, not a set: until they are rebuilt, the sets of this runtime hold on to what was deleted
   * from them, and with a deadline to its whole request, which then outlives the next collection.
   */
  readonly #waiting: Waiting[] = [];
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
    for (const waiting of [...this.#waiting]) waiting.giveUp();
  }

  add(waiting: Waiting): void {
    waiting.place = this.#waiting.push(waiting) - 1;
    if (this.#ticker !== undefined) return;
    this.#tickedAt = performance.now();
    this.#ticker = setInterval(() => this.#tick(), tickMs);
  }

  /** The last one takes the place that becomes free. False for one that has left already. */
  remove(waiting: Waiting): boolean {
    const { place } = waiting;
    if (place === nowhere) return false;
    waiting.place = nowhere;
    const last = this.#waiting.pop();
    if (last && last !== waiting) {
      this.#waiting[place] = last;
      last.place = place;
    }
    return true;
  }

  #tick(): void {
    if (this.#waiting.length === 0) this.#rest();
    const now = performance.now();
    if (this.#isLate(now)) return;
    for (const due of this.#waiting.filter(({ at }) => at <= now)) {
      // One that fired before it may have ended it.
      if (due.place !== nowhere) due.fire();
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
  #rest(): void {
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}
