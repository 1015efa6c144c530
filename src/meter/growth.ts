/** An answer that is paid for as it grows: how far what is set aside reaches. */

/** Output that one hold or one extension of it covers. */
export const stretchTokens = 4_096;
/** Below this much output an answer is of no use to anybody. */
export const leastOutputTokens = 16;

/** Text that surely is more than its tokens: an upstream that sends this ignores its cap. */
const charactersPerCappedToken = 8;
/** Text that may well be more than its tokens: time to set more aside. */
export const charactersPerOpenToken = 3;

/** The most tokens up to `high` that the credits pay for; `low` of them are paid in any case. */
export function lastPaid(
  low: number,
  high: number,
  credits: number,
  creditsFor: (tokens: number) => number,
): number {
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (creditsFor(middle) <= credits) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Sets more aside: so much, or less but not under the least. Null when there is no more. */
type Take = (wanted: number, least: number) => Promise<number | null>;

export class Growth {
  readonly #mostTokens: number;
  readonly #creditsFor: (outputTokens: number) => number;
  #paidTokens: number;
  #credits: number;

  /**
   * `mostTokens` is where the upstream is told to stop; infinite where nobody tells it. `credits`
   * are those that pay for the first tokens, or for more where they were held for a dearer offer.
   * All that was paid is counted together, as the bill will be: it is rounded once.
   */
  constructor(
    paidTokens: number,
    mostTokens: number,
    credits: number,
    creditsFor: (outputTokens: number) => number,
  ) {
    this.#paidTokens = paidTokens;
    this.#mostTokens = mostTokens;
    this.#credits = credits;
    this.#creditsFor = creditsFor;
  }

  get charactersMax(): number {
    const isAll = this.#paidTokens >= this.#mostTokens;
    return this.#paidTokens * (isAll ? charactersPerCappedToken : charactersPerOpenToken);
  }

  /** Pays for the next stretch, or for as much of it as is worth going on for. */
  async extend(take: Take): Promise<boolean> {
    const before = this.#paidTokens;
    const tokens = this.#nextTokens;
    const isHeld = this.#reachFor(before + tokens) > before;
    if (isHeld) return true;
    const missing = (more: number) => this.#creditsFor(before + more) - this.#credits;
    const more = await take(missing(tokens), missing(Math.min(leastOutputTokens, tokens)));
    if (more === null) return false;
    this.#credits += more;
    this.#reachFor(before + tokens);
    return true;
  }

  /** Goes as far towards so many tokens as the credits do. */
  #reachFor(tokens: number): number {
    this.#paidTokens = lastPaid(this.#paidTokens, tokens, this.#credits, this.#creditsFor);
    return this.#paidTokens;
  }

  get #nextTokens(): number {
    const left = this.#mostTokens - this.#paidTokens;
    // One that goes on after its cap is paid for in whole stretches.
    return left > 0 ? Math.min(left, stretchTokens) : stretchTokens;
  }
}
