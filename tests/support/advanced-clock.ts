import { spyOn } from 'bun:test';

/**
 * Moves this process's monotonic clock forward, so that tests of an in-process gateway don't wait
 * for its timeouts. Dispose of it to return to the real time.
 */
export class AdvancedClock implements Disposable {
  readonly #now = performance.now.bind(performance);
  #advancedMs = 0;
  readonly #spy = spyOn(performance, 'now').mockImplementation(
    () => this.#now() + this.#advancedMs,
  );

  advance(ms: number): void {
    this.#advancedMs += ms;
  }

  [Symbol.dispose](): void {
    this.#spy.mockRestore();
  }
}
