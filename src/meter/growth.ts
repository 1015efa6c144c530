/** An answer that is paid for as it grows: how far what is set aside reaches. */

/** Output that one hold or one extension of it covers. */
export const stretchTokens = 4_096;
/** Below this much output an answer is of no use to anybody. */
export const leastOutputTokens = 16;

/** Text that surely is more than its tokens: an upstream that sends this ignores its cap. */
const charactersPerCappedToken = 8;
/** Text that may well be more than its tokens: time to set more aside. */
const charactersPerOpenToken = 3;

export class Growth {
  readonly #mostTokens: number;
  readonly #creditsFor: (tokens: number) => number;
  #paidTokens: number;

  /** `mostTokens` is where the upstream is told to stop; infinite where nobody tells it. */
  constructor(
    paidTokens: number,
    mostTokens: number,
    creditsFor: (outputTokens: number) => number,
  ) {
    this.#paidTokens = paidTokens;
    this.#mostTokens = mostTokens;
    this.#creditsFor = creditsFor;
  }

  get charactersMax(): number {
    const isAll = this.#paidTokens >= this.#mostTokens;
    return this.#paidTokens * (isAll ? charactersPerCappedToken : charactersPerOpenToken);
  }

  /** What the next stretch costs, and the least of it that is worth going on for. */
  next(): { readonly wanted: number; readonly least: number } {
    const tokens = this.#nextTokens;
    const wanted = this.#creditsFor(tokens);
    return { wanted, least: this.#creditsFor(Math.min(leastOutputTokens, tokens)) };
  }

  /** So much of it was set aside. */
  paid(credits: number, wanted: number): void {
    const share = wanted === 0 ? 1 : credits / wanted;
    this.#paidTokens += Math.floor(this.#nextTokens * share);
  }

  get #nextTokens(): number {
    const left = this.#mostTokens - this.#paidTokens;
    // One that goes on after its cap is paid for in whole stretches.
    return left > 0 ? Math.min(left, stretchTokens) : stretchTokens;
  }
}
