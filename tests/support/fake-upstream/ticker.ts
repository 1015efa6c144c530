// Timers in buckets, so that a thousand streams that wait for the same time share a timer.

export class Ticker {
  private readonly buckets = new Map<number, Set<() => void>>();

  /** Returns a function that cancels. 0 means the next turn of the event loop. */
  after(delayMs: number, run: () => void): () => void {
    if (delayMs <= 0) {
      const turn = setImmediate(run);
      return () => clearImmediate(turn);
    }
    // Long waits are rounded up to 5 ms, so that more of them share a timer.
    const gridMs = delayMs >= 50 ? 5 : 1;
    const due = Math.ceil((performance.now() + delayMs) / gridMs) * gridMs;
    const bucket = this.buckets.get(due) ?? this.newBucket(due);
    bucket.add(run);
    return () => {
      bucket.delete(run);
    };
  }

  private newBucket(due: number): Set<() => void> {
    const bucket = new Set<() => void>();
    this.buckets.set(due, bucket);
    const turn = () => {
      this.buckets.delete(due);
      for (const run of bucket) run();
    };
    // If the process was paused, the time may have passed, and timers reject negative delays.
    setTimeout(turn, Math.max(0, due - performance.now()));
    return bucket;
  }
}
