import type { ChatAsk } from './core/chat.ts';
import { GatewayError } from './core/errors.ts';
import { logText } from './core/log-text.ts';
import { noUsage } from './core/usage.ts';
import type { Call } from './gateway.ts';
import type { Hold } from './ledger/hold.ts';
import type { Dispatched } from './ledger/journal-lines.ts';
import type { HoldOrder } from './ledger/wallets.ts';
import {
  affordableOutput,
  type Bound,
  boundOf,
  firstOutputTokens,
  outputBound,
} from './meter/bound.ts';
import { chargeAt, tokenCost } from './meter/price.ts';
import type { Offer } from './route/catalogue.ts';
import type { OutputBudget } from './upstream/relay.ts';

/** The beginning of the money's story: credits set aside before anything is sent anywhere. */

/** Text that surely is more than its tokens: an upstream that sends this ignores its cap. */
const charactersPerCappedToken = 8;
/** Text that may well be more than its tokens: time to set more aside. */
const charactersPerOpenToken = 3;

export interface ReserveParts {
  readonly creditsPerUsd: number;
  hold(call: Call, order: HoldOrder): Hold | Promise<Hold>;
  /** Writes down that the request is about to be sent; rejects when that is impossible. */
  dispatched(call: Dispatched): Promise<void>;
}

export interface Reservation {
  readonly hold: Hold;
  /** Those of the plan that the hold is for. */
  readonly offers: readonly Offer[];
  /** The output cap for one offer: null where the client's own is affordable. */
  capFor(offer: Offer): number | null;
  budgetFor(offer: Offer): OutputBudget;
}

export async function reserve(
  call: Call,
  ask: ChatAsk,
  plan: readonly Offer[],
  parts: ReserveParts,
): Promise<Reservation> {
  const { creditsPerUsd } = parts;
  const { offers, bound, hold } = await holdFor(call, ask, plan, parts);
  try {
    await parts.dispatched(dispatchedOf(call, ask));
  } catch (cause) {
    await hold.settle(0);
    const message = 'Tollgate cannot write its journal right now, so it sends nothing.';
    throw new GatewayError('service_unavailable', message, { retryAfterSeconds: 2, cause });
  }
  // A hold that is too small for the dearest offer may well do for another.
  const isShortFor = (offer: Offer) =>
    hold.credits < bound.wanted && hold.credits < boundOf(ask, [offer], creditsPerUsd).wanted;
  const capFor = (offer: Offer) =>
    isShortFor(offer) ? affordableOutput(ask, offer, hold.credits, creditsPerUsd) : null;
  return {
    hold,
    offers,
    capFor,
    budgetFor: (offer) => budgetOf(ask, offer, hold, capFor(offer), creditsPerUsd),
  };
}

/**
 * Sets credits aside for the dearest offer. Who cannot pay for shared capacity may still use an
 * account of its own, without the shared one behind it.
 */
async function holdFor(
  call: Call,
  ask: ChatAsk,
  plan: readonly Offer[],
  { creditsPerUsd, hold }: ReserveParts,
): Promise<{ offers: readonly Offer[]; bound: Bound; hold: Hold }> {
  const bound = boundOf(ask, plan, creditsPerUsd);
  try {
    return { offers: plan, bound, hold: await hold(call, bound) };
  } catch (refusal) {
    const offers = plan.filter(({ own }) => own !== null);
    if (offers.length === 0 || offers.length === plan.length) throw refusal;
    const fees = boundOf(ask, offers, creditsPerUsd);
    return { offers, bound: fees, hold: await hold(call, fees) };
  }
}

function dispatchedOf(call: Call, ask: ChatAsk): Dispatched {
  return {
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: 'chat',
    requestedModel: logText(ask.models[0] ?? ''),
    streamed: ask.stream,
    createdAt: call.receivedAt,
  };
}

/** How far a stream may go on its hold, and how it gets more. */
function budgetOf(
  ask: ChatAsk,
  offer: Offer,
  hold: Hold,
  cap: number | null,
  creditsPerUsd: number,
): OutputBudget {
  const held = cap ?? outputBound(ask, offer);
  const isCapped = cap !== null || (ask.outputTokensMax ?? Number.POSITIVE_INFINITY) <= held;
  const perToken = isCapped ? charactersPerCappedToken : charactersPerOpenToken;
  const step = { ...noUsage, outputTokens: firstOutputTokens };
  // A hold covers the request's fixed price already; an extension is output alone.
  const stepCost = tokenCost(step, { ...offer.prices, request: 0n });
  const stepCredits = chargeAt(offer, stepCost, creditsPerUsd);
  const budget: OutputBudget = {
    charactersMax: held * ask.choices * perToken,
    async extend() {
      if (!(await hold.extend(stepCredits))) return false;
      budget.charactersMax += firstOutputTokens * perToken;
      return true;
    },
  };
  return budget;
}
