/**
 * How long this process was awake since. A busy machine may stop it for seconds between any two
 * lines of a test, and everything in it with it: that time is nobody's delay and does not count.
 */

const tickMs = 5;
/** What passes between two ticks beyond this, others have taken. */
const countedMsMax = 4 * tickMs;

export class Awake implements Disposable {
  #countedMs = 0;
  #lookedAt = performance.now();
  readonly #ticker = setInterval(() => this.ms, tickMs);

  get ms(): number {
    const now = performance.now();
    this.#countedMs += Math.min(now - this.#lookedAt, countedMsMax);
    this.#lookedAt = now;
    return this.#countedMs;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#ticker);
  }
}
