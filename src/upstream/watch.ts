/**
 * One ticker for every deadline of every running request. A timer per chunk would cost more than
 * relaying the chunk; a field that says when the patience ends costs an assignment.
 */

const tickMs = 100;

/** Somebody who waits. `at` may be moved at any time; `fire` is called once it has passed. */
export interface Waiting {
  /** On the clock of `performance.now()`. */
  at: number;
  fire(): void;
}

export class Watch {
  readonly #waiting = new Set<Waiting>();
  #ticker: ReturnType<typeof setInterval> | undefined;

  add(waiting: Waiting): void {
    this.#waiting.add(waiting);
    this.#ticker ??= setInterval(() => this.#tick(), tickMs);
  }

  /** Forgetting twice is harmless. */
  remove(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    if (this.#waiting.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }

  #tick(): void {
    const now = performance.now();
    for (const waiting of this.#waiting) if (waiting.at <= now) waiting.fire();
  }
}
