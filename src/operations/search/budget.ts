import { searchTextMax } from '../../core/bounds.ts';
import type { ChatRequestInfo } from '../../core/request-info.ts';
import { noUsage, type Usage } from '../../core/usage.ts';
import {
  ChatBounds,
  firstHoldTokens,
  holdPrices,
  inputBound,
  maxTokensIn,
  textBytes,
} from '../../money/price/bounds.ts';
import { chargeAt, costOf, flatRateCost, maxCostOverTiers } from '../../money/price/cost.ts';
import { perUnit, toCredits, type UsdPrice } from '../../money/price/usd.ts';
import type { Offer } from '../../route/catalog.ts';
import type { AttemptContext } from '../../upstream/attempt.ts';

/** What an attempt has used so far. */
export interface SearchUsage {
  /** The number of successful searches. */
  readonly searches: number;
  readonly usage: Usage | undefined;
  readonly usageOfRounds: readonly Usage[];
}

interface SearchPrices {
  readonly usdPerSearch: UsdPrice;
  readonly creditsPerUsd: number;
}

/** The credits that one request may spend on rounds and searches, across all offers it tries. */
export class SearchBudget {
  readonly request: ChatRequestInfo;
  readonly creditsPerUsd: number;
  /** Credits held in addition to the request's own hold, including those for offers that failed. */
  extraCredits = 0;
  readonly #usdPerSearch: UsdPrice;

  constructor(request: ChatRequestInfo, { usdPerSearch, creditsPerUsd }: SearchPrices) {
    this.request = request;
    this.creditsPerUsd = creditsPerUsd;
    this.#usdPerSearch = usdPerSearch;
  }

  /** Returns the fee for all searches together, rounded once. */
  feeFor(searches: number): number {
    return toCredits(perUnit(this.#usdPerSearch, searches), this.creditsPerUsd);
  }
}

/** Holds credits for the rounds and searches of one attempt at one offer. */
export class AttemptBudget {
  readonly #budget: SearchBudget;
  readonly #offer: Offer;
  readonly #context: AttemptContext;
  readonly #heldPrices: Offer['prices'];
  /** Output tokens held for each round. */
  readonly #roundTokens: number;
  /** The charge that the request's own hold covers. */
  readonly #firstCharge: number;
  /** The largest prompt that credits are held for, with the results of its searches. */
  #promptTokensMax: number;
  /** Credits spent or held for the next round. Excludes unspent credits from earlier rounds. */
  #neededCredits = 0;
  #outputTokensMax: number | null;

  constructor(budget: SearchBudget, offer: Offer, context: AttemptContext) {
    this.#budget = budget;
    this.#offer = offer;
    this.#context = context;
    const { request } = budget;
    this.#heldPrices = holdPrices(offer.prices, request);
    this.#roundTokens = firstHoldTokens(request, offer);
    this.#promptTokensMax = inputBound(request);
    this.#outputTokensMax = context.outputTokensMax;
    this.#firstCharge = this.#chargeMax({
      inputTokens: this.#promptTokensMax,
      outputTokens: Math.min(this.#roundTokens, context.outputTokensMax ?? this.#roundTokens),
    });
  }

  /** The output cap of the next round. Null keeps the client's own cap. */
  get outputTokensMax(): number | null {
    return this.#outputTokensMax;
  }

  /**
   * Holds credits for another round, given the size of its prompt and the number of searches whose
   * results will be added to it. Returns false if there are too few credits.
   */
  async reserveRound(promptBytes: number, searches: number, used: SearchUsage): Promise<boolean> {
    const { request } = this.#budget;
    this.#neededCredits = this.#spent(used);
    const moreBytes = promptBytes - textBytes(request);
    const inputTokens = inputBound(request) + maxTokensIn(moreBytes);
    this.#promptTokensMax = inputTokens + searches * maxTokensIn(searchTextMax);
    const charge = this.#chargeMax({ inputTokens, outputTokens: this.#roundTokens });
    if (!(await this.#extend(charge))) return false;
    this.#outputTokensMax = await this.#outputCap(moreBytes, used);
    return true;
  }

  /** Holds credits for the fee of one search and for the prompt tokens of its results. */
  reserveSearch(used: SearchUsage): Promise<boolean> {
    // If the model also called the client's tools, no round follows whose hold includes what has
    // been spent so far.
    this.#neededCredits = Math.max(this.#neededCredits, this.#spent(used));
    const results = { inputTokens: maxTokensIn(searchTextMax), outputTokens: 0 };
    return this.#extend(this.#chargeMax(results) + this.#budget.feeFor(1));
  }

  /** Returns the highest charge for these tokens. The price per request is already held. */
  #chargeMax(tokens: Pick<Usage, 'inputTokens' | 'outputTokens'>): number {
    const cost = maxCostOverTiers(this.#heldPrices, this.#promptTokensMax, (prices) =>
      flatRateCost({ ...noUsage, ...tokens }, { ...prices, request: 0n }),
    );
    return chargeAt(this.#offer, cost, this.#budget.creditsPerUsd);
  }

  async #extend(credits: number): Promise<boolean> {
    const budget = this.#budget;
    this.#neededCredits += credits;
    const missingCredits = Math.max(
      0,
      this.#neededCredits - this.#firstCharge - budget.extraCredits,
    );
    // Count the credits before the hold is extended, because the searches of a round run
    // concurrently.
    budget.extraCredits += missingCredits;
    if (missingCredits === 0 || (await this.#context.extendHold(missingCredits))) return true;
    this.#neededCredits -= credits;
    budget.extraCredits -= missingCredits;
    this.#context.recorder?.markTruncated();
    return false;
  }

  /** Returns an output cap that keeps the next round within the credits that are left. */
  async #outputCap(moreBytes: number, used: SearchUsage): Promise<number | null> {
    const { request, creditsPerUsd } = this.#budget;
    const bounds = new ChatBounds({ ...request, inputBytes: request.inputBytes + moreBytes });
    const spent = this.#spent(used);
    const chargeMax = spent + bounds.boundFor([this.#offer], creditsPerUsd).maximum;
    const spendable = await this.#context.spendableCredits(chargeMax);
    // With a longer prompt, the operator's cap may no longer fit the model's context.
    if (spendable >= chargeMax) return bounds.defaultCapFor(this.#offer);
    this.#context.recorder?.markTruncated();
    const affordable = bounds.capWithin(spendable - spent, this.#offer, creditsPerUsd);
    // Tokens for the first part of the output are already held. Rounding their price again could
    // make them one credit too expensive.
    return Math.max(affordable, firstHoldTokens(request, this.#offer));
  }

  /** Returns the charge for rounds and searches so far, without the price per request. */
  #spent({ usage = noUsage, usageOfRounds: calls, searches }: SearchUsage): number {
    const cost = costOf(usage, { ...this.#offer.prices, request: 0n }, { calls });
    return chargeAt(this.#offer, cost, this.#budget.creditsPerUsd) + this.#budget.feeFor(searches);
  }
}
