/** An answer that is paid for as it grows, and how far the credits set aside for it reach. */

/** Output that one hold or one extension of it covers. */
export const stretchTokens = 4_096;
/** With less output than this an answer is of no use to anybody. */
export const leastOutputTokens = 16;

/** Surely more text than a token has: an upstream that sends more per token ignores its cap. */
const charactersPerCappedToken = 8;
/**
 * About the text of a token: beyond this, what is paid for may be used up, and more is set aside.
 */
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

/**
 * Sets more credits aside: as many as wanted, or fewer, but not below the least. Null: too few
 * left.
 */
type Take = (wanted: number, least: number) => Promise<number | null>;

export class Growth {
  readonly #mostTokens: number;
  readonly #creditsFor: (outputTokens: number) => number;
  #paidTokens: number;
  #credits: number;

  /**
   * The upstream is told to stop at `mostTokens`; infinite where it is not told. `credits` pay for
   * the first tokens, or for more where they were held for a dearer offer. All that was paid is
   * counted together, as the bill will be: it is rounded once.
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

  /** Raises the paid tokens towards this number, as far as the credits reach. */
  #reachFor(tokens: number): number {
    this.#paidTokens = lastPaid(this.#paidTokens, tokens, this.#credits, this.#creditsFor);
    return this.#paidTokens;
  }

  get #nextTokens(): number {
    const left = this.#mostTokens - this.#paidTokens;
    // An answer that goes on after its cap is paid for in whole stretches.
    return left > 0 ? Math.min(left, stretchTokens) : stretchTokens;
  }
}
