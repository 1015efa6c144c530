// Measures how long this process was running. A busy machine can stop the process for seconds
// between any two lines of a test. That time isn't counted, because the gateway doesn't cause it.

const tickMs = 5;
/** A longer gap between two ticks means that the process was stopped. The excess isn't counted. */
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
