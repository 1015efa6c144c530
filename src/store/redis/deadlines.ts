/** How often deadlines are looked at. */
const tickMs = 20;

interface WaitingCommand {
  readonly untilTick: number;
  readonly giveUp: () => void;
}

/**
 * One ticker for the deadlines of all commands: a timer for each would cost more than asking. They
 * are counted in ticks and not by the clock: while this process, or its whole machine, stands
 * still, no answer can come and none is missing.
 */
export class Deadlines {
  readonly ms: number;
  readonly #waiting = new Set<WaitingCommand>();
  #ticks = 0;
  #ticker: ReturnType<typeof setInterval> | undefined;

  constructor(ms: number) {
    this.ms = ms;
  }

  /** Rejects when the answer takes longer than a command may, by a tick or two. */
  within<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiting: WaitingCommand = {
        // +2: the first tick may come at once, and the last leaves time to read late answers.
        untilTick: this.#ticks + Math.ceil(this.ms / tickMs) + 2,
        giveUp: () => reject(new Error(`No answer within ${this.ms} ms.`)),
      };
      this.#waiting.add(waiting);
      this.#ticker ??= setInterval(() => this.#tick(), tickMs).unref();
      answer.then(
        (value) => {
          this.#waiting.delete(waiting);
          resolve(value);
        },
        (thrown) => {
          this.#waiting.delete(waiting);
          reject(thrown);
        },
      );
    });
  }

  #tick(): void {
    this.#ticks += 1;
    for (const waiting of this.#waiting) {
      // A Set keeps the order of insertion: those behind it were asked later.
      if (waiting.untilTick > this.#ticks) break;
      this.#waiting.delete(waiting);
      waiting.giveUp();
    }
    if (this.#waiting.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
  }
}
