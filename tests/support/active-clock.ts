/**
 * Measures for how long this process really ran. A busy machine may stop it for seconds between any
 * two lines of a test: that time is no delay of the gateway's and is not counted.
 */

const tickMs = 5;
/**
 * A longer gap between two ticks means that the process was stopped; only this much of it counts.
 */
const countedMsMax = 4 * tickMs;

export class ActiveClock implements Disposable {
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
