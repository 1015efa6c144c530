import { logText } from './core/log-text.ts';
import { noUsage, type Usage } from './core/usage.ts';
import type { ReplyClosing } from './dialects/dialect.ts';
import type { Call, Ending } from './gateway.ts';
import type { Hold } from './ledger/hold.ts';
import type { Settlement } from './ledger/ledger-store.ts';
import { lessen } from './ledger/write-off.ts';
import { textBytes } from './meter/bound.ts';
import { estimateUsage } from './meter/estimate.ts';
import { chargeAt, tokenCost } from './meter/price.ts';
import { noCharges, type RequestRecord, totalCharge } from './record/request-record.ts';
import type { Offer } from './route/catalogue.ts';

/** The end of the story: what a request used, what that costs, and the line that says so. */

export interface SettleParts {
  readonly creditsPerUsd: number;
  /** Resolves once the settlement cannot be lost any more. */
  keep(settlement: Settlement, wasDispatched: boolean): Promise<void> | void;
  /** How fast an offer answered, for `provider.sort: throughput`. */
  observeSpeed(offer: Offer, tokensPerSecond: number): void;
  /** An offer that broke off in mid-answer counts as failed for the requests to come. */
  observeBreak(offer: Offer): void;
}

export async function settle(
  call: Call,
  ending: Ending,
  hold: Hold | undefined,
  parts: SettleParts,
): Promise<ReplyClosing> {
  // An answer whose end could not be written down fails after it was settled; once is enough.
  if (hold?.settled) return { usage: noUsage, costCredits: 0 };
  const bill = ending.how === 'refused' ? freeOfCharge : priced(call, ending, hold, parts);
  const owed = totalCharge(bill.charges);
  const charged = hold ? await hold.settle(owed) : { wallet: 0, key: 0 };
  const whole: Settlement = {
    record: recordOf(call, ending, bill),
    writtenOff: 0,
    keyAccount: hold?.keyAccount ?? null,
    keyCharge: charged.key,
  };
  const settlement = charged.wallet < owed ? lessen(whole, owed - charged.wallet) : whole;
  if (ending.how !== 'refused') observe(call, ending, bill.usage, parts);
  await parts.keep(settlement, hold !== undefined);
  return { usage: bill.usage, costCredits: charged.wallet };
}

function observe(call: Call, ending: Answered, usage: Usage, parts: SettleParts): void {
  const { how, opened, error } = ending;
  if (how === 'cut' && error?.symbol === 'upstream_error') parts.observeBreak(opened.offer);
  if (how !== 'complete') return;
  const seconds = (performance.now() - call.startedAt) / 1000;
  if (usage.outputTokens > 0) parts.observeSpeed(opened.offer, usage.outputTokens / seconds);
}

type Bill = Pick<RequestRecord, 'usage' | 'usageEstimated' | 'charges' | 'prices' | 'note'>;
type Answered = Exclude<Ending, { how: 'refused' }>;

const freeOfCharge: Bill = {
  usage: noUsage,
  usageEstimated: false,
  charges: noCharges,
  prices: null,
  note: null,
};

function priced(
  call: Call,
  { facts, opened }: Answered,
  hold: Hold | undefined,
  { creditsPerUsd }: SettleParts,
): Bill {
  const { offer } = opened;
  const ask = call.conversation?.ask;
  const usage: Usage =
    facts.usage ?? estimateUsage(ask ? textBytes(ask) : 0, facts.outputCharacters);
  const cost = tokenCost(usage, offer.prices, ask?.images.length ?? 0);
  const charge = chargeAt(offer, cost, creditsPerUsd);
  const isEstimate = facts.usage === undefined;
  // A guess must never cost more than what was set aside for the request.
  const capped = isEstimate ? Math.min(charge, hold?.credits ?? charge) : charge;
  return {
    usage,
    usageEstimated: isEstimate,
    charges: offer.own
      ? { ...noCharges, byokPlatformFee: capped }
      : { ...noCharges, modelCharge: capped },
    prices: pricesOf(offer),
    note: noteOf(offer, isEstimate),
  };
}

function pricesOf({ pricing, own }: Offer): RequestRecord['prices'] {
  return own ? { ...pricing, byok_fee_basis_points: String(own.feeBasisPoints) } : pricing;
}

const ownAccountNote =
  'The provider bills this usage to your own account; only the platform fee is charged here.';
const estimateNote = 'The provider reported no usage; the tokens are an estimate.';

function noteOf({ own }: Offer, isEstimate: boolean): string | null {
  const notes = [...(own ? [ownAccountNote] : []), ...(isEstimate ? [estimateNote] : [])];
  return notes.length > 0 ? notes.join(' ') : null;
}

function recordOf(call: Call, ending: Ending, bill: Bill): RequestRecord {
  const answered = ending.how === 'refused' ? undefined : ending;
  const ask = call.conversation?.ask;
  const finishReason = answered?.facts.finishReason;
  return {
    ...bill,
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: 'chat',
    requestedModel: logText(ask?.models[0] ?? ''),
    model: answered?.opened.offer.model.id ?? null,
    provider: answered?.opened.offer.provider.name ?? null,
    status: ending.how === 'complete' || ending.how === 'left' ? 'success' : 'error',
    error: ending.error?.symbol ?? null,
    trafficMode: answered?.opened.offer.own ? 'byok' : 'shared',
    searches: 0,
    skills: [],
    finishReason: finishReason === undefined ? null : logText(finishReason),
    streamed: ask?.stream ?? false,
    cancelled: call.client.aborted && ending.how !== 'complete',
    cacheHit: false,
    firstByteMs: answered?.opened.firstByteMs ?? null,
    durationMs: Math.round(performance.now() - call.startedAt),
    endUser: ask?.user ?? null,
    attempts: call.trail,
    createdAt: call.receivedAt,
  };
}
