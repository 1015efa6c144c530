import type { Call, Ending, Memory } from './call.ts';
import type { Caller } from './core/caller.ts';
import type { NamedAnswer, Remembered } from './core/claim.ts';
import { logText } from './core/log-text.ts';
import type { FirstRequest } from './core/recording.ts';
import { type Measured, noUnits, noUsage, totalTokens, type Usage } from './core/usage.ts';
import type { ReplyClosing, ReplyFacts } from './dialects/dialect.ts';
import type { Hold } from './ledger/hold.ts';
import type { Settlement } from './ledger/ledger-store.ts';
import { withWriteOff } from './ledger/write-off.ts';
import { isCredible } from './meter/credible.ts';
import { chargeAt, costOf } from './meter/price.ts';
import { noCharges, type RequestRecord, totalCharge } from './record/request-record.ts';
import type { Offer } from './route/catalogue.ts';
import type { Opened } from './upstream/fallback.ts';

/** The end of the story: what a request used, what that costs, and the line that says so. */

interface SettleParts {
  readonly creditsPerUsd: number;
  /** Resolves once the settlement cannot be lost any more. */
  keep(settlement: Settlement, wasDispatched: boolean): Promise<void> | void;
  /** Like `keep`, together with the answer that the settlement pays for. */
  keepWith(answer: NamedAnswer, settlement: Settlement): Promise<Remembered>;
  /** Tokens count towards the key's quota of the minute. */
  countTokens(caller: Caller, tokens: number): Promise<void> | void;
  /**
   * How the books call the model that was asked for. One too many of the names that no model has is
   * called by the model that answered, or `unknown`.
   */
  nameOf(asked: string, tenantId: string, answered: string | null): string;
  /** How fast an offer answered, for `provider.sort: throughput`. */
  observeSpeed(offer: Offer, tokensPerSecond: number): void;
  /** An offer that broke off in mid-answer counts as failed for the requests to come. */
  observeEnd(offer: Offer, isWhole: boolean): void;
}

export async function settle(
  call: Call,
  ending: Ending,
  parts: SettleParts,
): Promise<ReplyClosing> {
  const { hold, memory } = call;
  const isRemembered = memory !== undefined && ending.how === 'complete';
  if (memory && !isRemembered) await memory.duty.release();
  // When the journal fails, a call that was already settled is refused as well: not settled again.
  if (hold?.settled) return { usage: noUsage, costCredits: 0 };
  const bill = billOf(call, ending, parts);
  const owed = totalCharge(bill.charges);
  const charged = hold ? await hold.settle(owed) : { wallet: 0, key: 0 };
  const whole: Settlement = {
    record: recordOf(call, ending, bill, parts),
    writtenOff: 0,
    keyAccount: hold?.keyAccount ?? null,
    keyCharge: charged.key,
  };
  const settlement = charged.wallet < owed ? withWriteOff(whole, owed - charged.wallet) : whole;
  if ('opened' in ending) observe(call, ending, bill.usage, parts);
  const closing = { usage: bill.usage, costCredits: charged.wallet, endedAt: Date.now() };
  if (isRemembered) {
    await remember(memory, ending.facts, firstOf(call, closing), settlement, parts);
  } else {
    await parts.keep(settlement, hold !== undefined);
  }
  if (ending.how === 'recalled') return ending.first ?? closingOfOther(call, ending.facts);
  await parts.countTokens(call.caller, totalTokens(bill.usage));
  return closing;
}

/**
 * A client that gets an answer from the cache is told what it used the first time, estimated where
 * the provider did not count, and that this time it costs nothing.
 */
function closingOfOther({ errand }: Call, facts: ReplyFacts): ReplyClosing {
  return { usage: errand?.measure(facts, 'complete').usage ?? noUsage, costCredits: 0 };
}

function firstOf({ requestId, receivedAt }: Call, closing: Required<ReplyClosing>): FirstRequest {
  return { requestId, receivedAt, ...closing };
}

/** The charge is written along with the answer: an unpaid answer must never be given again. */
function remember(
  { tape, duty }: Memory,
  { finishReason }: ReplyFacts,
  first: FirstRequest,
  settlement: Settlement,
  parts: SettleParts,
) {
  const recording = tape.recording(finishReason);
  return duty.finish(recording ? { ...recording, first } : null, {
    keep: () => parts.keep(settlement, true),
    keepWith: (answer) => parts.keepWith(answer, settlement),
  });
}

function observe(call: Call, ending: Answered, usage: Usage, parts: SettleParts): void {
  const { how, opened, error, facts } = ending;
  // As in openFirst: a request that is itself at fault says nothing about the offer's health.
  const isOffersFault = error?.symbol === 'upstream_error' && facts.failure?.kind !== 'request';
  // Behind a finish reason, it is the model's own words that are no answer.
  if (how === 'cut' && isOffersFault && facts.finishReason === undefined)
    parts.observeEnd(opened.offer, false);
  if (how !== 'complete') return;
  parts.observeEnd(opened.offer, true);
  const seconds = (performance.now() - call.startedAt) / 1000;
  if (usage.outputTokens > 0) parts.observeSpeed(opened.offer, usage.outputTokens / seconds);
}

type Bill = Pick<
  RequestRecord,
  'usage' | 'units' | 'usageEstimated' | 'charges' | 'prices' | 'note' | 'searches'
>;
type Answered = Extract<Ending, { opened: Opened }>;

const freeOfCharge: Bill = {
  usage: noUsage,
  usageEstimated: false,
  charges: noCharges,
  prices: null,
  note: null,
  searches: 0,
};

function billOf(call: Call, ending: Ending, parts: SettleParts): Bill {
  if ('opened' in ending) return priced(call, ending, parts);
  if (ending.how === 'recalled') return { ...freeOfCharge, note: recalledNote(ending.first) };
  return wasLeft(call, ending) ? { ...freeOfCharge, note: leftNote } : freeOfCharge;
}

/**
 * Whether the client left before an answer began: then neither a provider nor the gateway failed.
 */
function wasLeft({ trail }: Call, { how }: Ending): boolean {
  return how === 'refused' && trail.at(-1)?.outcome === 'left';
}

const leftNote = 'The client left before the answer began; nothing is charged.';

function recalledNote(first: FirstRequest | undefined): string {
  const which = first ? `The answer of request ${first.requestId}` : 'An earlier answer';
  return `${which} was given again; nothing is charged for it.`;
}

function priced(call: Call, ending: Answered, { creditsPerUsd }: SettleParts): Bill {
  const { offer } = ending.opened;
  const measured = measure(call, ending);
  const { usage, units, isEstimate, note, reported, searches = 0, toolCredits = 0 } = measured;
  const charge = chargeFor(usage, measured, offer, creditsPerUsd);
  // A guess never costs more than was set aside for the request; what the provider counted may.
  const counted = reported ? chargeFor(reported, measured, offer, creditsPerUsd) : 0;
  const most = Math.max(leftForModel(call.hold, toolCredits), counted);
  const capped = isEstimate ? Math.min(charge, most) : charge;
  return {
    usage,
    units: units === noUnits ? undefined : units,
    usageEstimated: isEstimate,
    charges: {
      modelCharge: offer.own ? 0 : capped,
      byokPlatformFee: offer.own ? capped : 0,
      managedToolFee: toolCredits,
      agentRuntimeFee: 0,
    },
    searches,
    prices: pricesOf(offer),
    note: noteOf(offer, capped < charge ? `${note ?? ''} ${cappedNote}`.trim() : note),
  };
}

const cappedNote = 'An estimate never costs more than was set aside.';

function chargeFor(
  usage: Usage,
  { units, isFree }: Measured,
  offer: Offer,
  creditsPerUsd: number,
): number {
  return isFree ? 0 : chargeAt(offer, costOf(usage, offer.prices, units), creditsPerUsd);
}

/** The part of a hold that is left for the model after the fees of its tools. */
function leftForModel(hold: Hold | undefined, toolCredits: number): number {
  return hold ? hold.credits - toolCredits : Number.POSITIVE_INFINITY;
}

function measure({ errand }: Call, { facts, opened, how }: Answered): Measured {
  if (!errand) return nothingUsed;
  const measured = errand.measure(facts, how);
  if (isCredible(measured.usage, errand.bounds.contextTokensAt(opened.offer))) return measured;
  // Facts may be getters of a class: spreading would lose most of them.
  const { finishReason, outputCharacters, failure } = facts;
  const estimate = errand.measure(
    { usage: undefined, finishReason, outputCharacters, failure },
    how,
  );
  return {
    ...estimate,
    note: 'The provider reported more tokens than its model can use; they are an estimate.',
  };
}

const nothingUsed: Measured = { usage: noUsage, units: noUnits, isEstimate: false, note: null };

function pricesOf({ pricing, own }: Offer): RequestRecord['prices'] {
  return own ? { ...pricing, byok_fee_basis_points: String(own.feeBasisPoints) } : pricing;
}

const ownAccountNote =
  'The provider bills this usage to your own account; only the platform fee is charged here.';

function noteOf({ own }: Offer, note: string | null): string | null {
  if (!own) return note;
  return note === null ? ownAccountNote : `${ownAccountNote} ${note}`;
}

function recordOf(
  call: Call,
  ending: Ending,
  bill: Bill,
  parts: Pick<SettleParts, 'nameOf'>,
): RequestRecord {
  const ask = call.errand?.ask;
  const { tenantId, keyId } = call.caller;
  const finishReason = ending.how === 'refused' ? undefined : ending.facts.finishReason;
  const { model, provider, trafficMode, firstByteMs } = answererOf(ending);
  // Spelled out instead of spread, because it runs for every request.
  return {
    usage: bill.usage,
    units: bill.units,
    usageEstimated: bill.usageEstimated,
    charges: bill.charges,
    prices: bill.prices,
    note: bill.note,
    searches: bill.searches,
    model,
    provider,
    trafficMode,
    firstByteMs,
    requestId: call.requestId,
    tenantId,
    keyId,
    operation: ask?.operation ?? call.operation,
    jobId: call.jobId,
    requestedModel: parts.nameOf(logText(ask?.models[0] ?? call.modelNamed), tenantId, model),
    status: succeeded.has(ending.how) ? 'success' : 'error',
    error: wasLeft(call, ending) ? null : (ending.error?.symbol ?? null),
    refusal: refusalOf(call, ending),
    skills: call.errand?.skills ?? [],
    finishReason: finishReason === undefined ? null : logText(finishReason),
    streamed: ask?.stream ?? false,
    cancelled: call.client.aborted && ending.how !== 'complete',
    cacheHit: ending.how === 'recalled',
    durationMs: Math.round(performance.now() - call.startedAt),
    endUser: ask?.user ?? null,
    attempts: call.trail,
    createdAt: call.receivedAt,
  };
}

/** Only where no provider was asked: what providers said stands with the attempts. */
function refusalOf({ trail }: Call, ending: Ending): string | undefined {
  if (ending.how !== 'refused' || trail.length > 0) return undefined;
  return logText(ending.error.unquoted);
}

const succeeded: ReadonlySet<Ending['how']> = new Set(['complete', 'left', 'recalled']);

type Answerer = Pick<RequestRecord, 'model' | 'provider' | 'trafficMode' | 'firstByteMs'>;

const nobody: Answerer = { model: null, provider: null, trafficMode: 'shared', firstByteMs: null };

function answererOf(ending: Ending): Answerer {
  if (ending.how === 'refused') return nobody;
  if (ending.how === 'recalled') {
    const { model, provider } = ending.recording;
    return { ...nobody, model, provider };
  }
  const { offer, firstByteMs } = ending.opened;
  return {
    model: offer.model.id,
    provider: offer.provider.name,
    trafficMode: offer.own ? 'byok' : 'shared',
    firstByteMs,
  };
}
