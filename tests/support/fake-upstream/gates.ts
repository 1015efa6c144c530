/** Named gates. An answer waits at a gate until a test opens it. */

import type { Ticker } from './ticker.ts';

export class Gates {
  private opened = new Set<string>();
  private readonly waiting = new Map<string, Set<() => void>>();
  private readonly ticker: Ticker;

  constructor(ticker: Ticker) {
    this.ticker = ticker;
  }

  open(gate: string): void {
    this.opened.add(gate);
    const waiting = this.waiting.get(gate) ?? [];
    this.waiting.delete(gate);
    for (const run of waiting) run();
  }

  onOpen(gate: string, run: () => void): () => void {
    if (this.opened.has(gate)) return this.ticker.after(0, run);
    const waiting = this.waiting.get(gate) ?? new Set();
    this.waiting.set(gate, waiting.add(run));
    return () => {
      waiting.delete(run);
    };
  }

  reset(): void {
    this.opened = new Set();
  }
}
