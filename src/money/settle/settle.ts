import type { Call, RecordingSession, RequestOutcome } from '../../call.ts';
import type { Caller } from '../../core/caller.ts';
import type { AnswerWriteResult, FirstRequest, IdempotentAnswer } from '../../core/recording.ts';
import { logText } from '../../core/text.ts';
import { type Measured, noUnits, noUsage, totalTokens, type Usage } from '../../core/usage.ts';
import type { AnswerMetrics, SettledUsage } from '../../dialects/dialect.ts';
import type { RecordedMargin, RequestRecord } from '../../records/request-record.ts';
import type { Offer } from '../../route/catalog.ts';
import type { OpenedAnswer } from '../../upstream/fallback.ts';
import type { Settlement } from '../ledger.ts';
import { chargeAt, costOf } from '../price/cost.ts';
import { chargesFor, noCharges, totalCharge } from '../price/fee-kinds.ts';
import { excessiveNote } from '../price/usage-report.ts';
import { withWriteOff } from './write-off.ts';

interface SettleDeps {
  readonly creditsPerUsd: number;
  /** Whether a client that disconnects while a provider processes its request pays the input. */
  readonly chargesAbandonedInput: boolean;
  /** Saves a settlement. Returns a promise if saving has to wait. */
  saveSettlement(settlement: Settlement, wasDispatched: boolean): Promise<void> | void;
  /** Saves a settlement together with the answer it pays for. */
  saveWithAnswer(answer: IdempotentAnswer, settlement: Settlement): Promise<AnswerWriteResult>;
  /** Counts tokens toward the key's limit per minute. */
  countTokens(caller: Caller, tokens: number): Promise<void> | void;
  /**
   * Returns the name under which to record the requested model. If a tenant uses too many unknown
   * names, returns the model that answered, or `unknown`.
   */
  nameOf(requested: string, tenantId: string, answered: string | null): string;
  /** Records an offer's speed, for `provider.sort: throughput`. */
  observeSpeed(offer: Offer, tokensPerSecond: number): void;
  /** Records whether an offer completed its answer, for its health. */
  observeEnd(offer: Offer, isComplete: boolean): void;
}

/**
 * Ends a request: measures what it used, charges for it, and saves its record. Returns the usage
 * and cost for the client.
 */
export async function settle(
  call: Call,
  outcome: RequestOutcome,
  deps: SettleDeps,
): Promise<SettledUsage> {
  const { hold, recordingSession } = call;
  const isRecorded = recordingSession !== undefined && outcome.kind === 'complete';
  if (recordingSession && !isRecorded) await recordingSession.inFlight.release();
  // If journaling fails, a settled call ends a second time as rejected. Don't charge it again.
  if (hold?.settled) return { usage: noUsage, costCredits: 0 };
  const bill = billOf(call, outcome, deps);
  const owed = totalCharge(bill.charges);
  const charged = hold ? await hold.settle(owed) : { wallet: 0, key: 0 };
  const fullSettlement: Settlement = {
    record: recordOf(call, outcome, bill, deps),
    writtenOff: 0,
    keyAccount: hold?.keyAccount ?? null,
    keyCharge: charged.key,
  };
  const settlement =
    charged.wallet < owed ? withWriteOff(fullSettlement, owed - charged.wallet) : fullSettlement;
  if (isAnswered(outcome)) recordHealth(call, outcome, bill.usage, deps);
  const settled = { usage: bill.usage, costCredits: charged.wallet, endedAt: Date.now() };
  if (isRecorded) {
    await saveRecording(
      recordingSession,
      outcome.metrics,
      toFirstRequest(call, settled),
      settlement,
      deps,
    );
  } else {
    await deps.saveSettlement(settlement, hold !== undefined);
  }
  if (outcome.kind === 'replayed') {
    return forClient(call, outcome.first ?? usageOfReplay(call, outcome.metrics), deps);
  }
  await deps.countTokens(call.caller, totalTokens(bill.usage));
  return forClient(call, settled, deps);
}

/** Adds the cost in dollars if the client expects it. */
function forClient(
  { showsUsd }: Call,
  settled: SettledUsage,
  { creditsPerUsd }: SettleDeps,
): SettledUsage {
  return showsUsd ? { ...settled, costUsd: settled.costCredits / creditsPerUsd } : settled;
}

/** Returns the usage of the first answer, estimated if the provider reported none, at no cost. */
function usageOfReplay({ operation }: Call, metrics: AnswerMetrics): SettledUsage {
  return { usage: operation?.measure(metrics, 'complete').usage ?? noUsage, costCredits: 0 };
}

function toFirstRequest(
  { requestId, receivedAt }: Call,
  settled: SettledUsage & Pick<FirstRequest, 'endedAt'>,
): FirstRequest {
  return { requestId, receivedAt, ...settled };
}

/** Saves the charge together with the answer, so that an unpaid answer is never replayed. */
function saveRecording(
  { recorder, inFlight }: RecordingSession,
  { finishReason }: AnswerMetrics,
  first: FirstRequest,
  settlement: Settlement,
  deps: SettleDeps,
) {
  const recording = recorder.recording(finishReason);
  return inFlight.finish(recording ? { ...recording, first } : null, {
    saveSettlement: () => deps.saveSettlement(settlement, true),
    saveWithAnswer: (answer) => deps.saveWithAnswer(answer, settlement),
  });
}

function recordHealth(call: Call, outcome: AnsweredOutcome, usage: Usage, deps: SettleDeps): void {
  const { kind, opened, error, metrics } = outcome;
  // As in tryOffers, don't count failures caused by the request against the offer.
  const isOffersFault = error?.symbol === 'upstream_error' && metrics.failure?.kind !== 'request';
  // After a finish reason, the provider is fine, but the model's output was unusable.
  if (kind === 'interrupted' && isOffersFault && metrics.finishReason === undefined)
    deps.observeEnd(opened.offer, false);
  if (kind !== 'complete') return;
  deps.observeEnd(opened.offer, true);
  const seconds = (performance.now() - call.startedAt) / 1000;
  if (usage.outputTokens > 0) deps.observeSpeed(opened.offer, usage.outputTokens / seconds);
}

type Bill = Pick<
  RequestRecord,
  | 'usage'
  | 'units'
  | 'usageEstimated'
  | 'charges'
  | 'prices'
  | 'pricedFrom'
  | 'margin'
  | 'note'
  | 'searches'
>;
type AnsweredOutcome = Extract<RequestOutcome, { opened: OpenedAnswer }>;

function isAnswered(outcome: RequestOutcome): outcome is AnsweredOutcome {
  return 'opened' in outcome;
}

const freeOfCharge: Bill = {
  usage: noUsage,
  usageEstimated: false,
  charges: noCharges,
  prices: null,
  note: null,
  searches: 0,
};

function isPaidBefore({ recordingSession }: Call): boolean {
  return recordingSession?.inFlight.isPaid ?? false;
}

function billOf(call: Call, outcome: RequestOutcome, deps: SettleDeps): Bill {
  const bill = fullBillOf(call, outcome, deps);
  return isPaidBefore(call) ? paidBefore(bill) : bill;
}

function fullBillOf(call: Call, outcome: RequestOutcome, deps: SettleDeps): Bill {
  if (isAnswered(outcome))
    return billUsage(call, outcome.opened.offer, measure(call, outcome), deps);
  if (outcome.kind === 'replayed') return { ...freeOfCharge, note: replayNote(outcome.first) };
  if (!disconnectedEarly(call, outcome)) return freeOfCharge;
  const bill = outcome.kind === 'abandoned' && billInput(call, outcome.offer, deps);
  return bill || { ...freeOfCharge, note: `${disconnectedNote} Nothing is charged.` };
}

/** Returns a bill without charges, for a request whose first answer was charged but lost. */
function paidBefore(bill: Bill): Bill {
  const note = bill.note === null ? paidNote : `${bill.note} ${paidNote}`;
  return { ...bill, charges: noCharges, note };
}

const paidNote =
  'An earlier answer to this Idempotency-Key was charged but lost, so this one is free.';

/** Bills the input of an abandoned request. Returns undefined if it costs nothing. */
function billInput(call: Call, offer: Offer, deps: SettleDeps): Bill | undefined {
  const measured = deps.chargesAbandonedInput ? call.operation?.measureInput?.() : undefined;
  if (!measured) return undefined;
  const bill = billUsage(call, offer, { ...measured, note: abandonedNote }, deps);
  return totalCharge(bill.charges) > 0 ? bill : undefined;
}

/** Returns whether the client disconnected before an answer started. That isn't a failure. */
function disconnectedEarly({ attempts }: Call, { kind }: RequestOutcome): boolean {
  if (kind === 'abandoned') return true;
  return kind === 'rejected' && attempts.at(-1)?.outcome === 'client_disconnected';
}

const disconnectedNote = 'The client disconnected before the answer started.';
const abandonedNote =
  `${disconnectedNote} The provider was already processing the request, so its input is charged, ` +
  'as an estimate.';

function replayNote(first: FirstRequest | undefined): string {
  const source = first ? `the answer of request ${first.requestId}` : 'an earlier answer';
  return `Served ${source} again. Nothing is charged.`;
}

function billUsage(
  call: Call,
  offer: Offer,
  measured: Measured,
  { creditsPerUsd }: SettleDeps,
): Bill {
  const { usage, units, isEstimate, note, reported, searches = 0 } = measured;
  const trafficMode = offer.ownAccount ? 'byok' : 'shared';
  const otherFees = totalCharge(chargesFor(trafficMode, 0, measured));
  const charge = chargeFor(usage, measured, offer, creditsPerUsd);
  // An estimate never costs more than the hold, but tokens that the provider counted may.
  const countedCharge = reported ? chargeFor(reported, measured, offer, creditsPerUsd) : 0;
  const maxCharge = Math.max(creditsForModel(call, otherFees), countedCharge);
  const capped = isEstimate ? Math.min(charge, maxCharge) : charge;
  return {
    usage,
    units: units === noUnits ? undefined : units,
    usageEstimated: isEstimate,
    charges: chargesFor(trafficMode, capped, measured),
    searches,
    prices: pricesOf(offer),
    pricedFrom: offer.pricedFrom ?? undefined,
    margin: offer.margin ? recordedMargin(offer.margin) : undefined,
    note: noteOf(offer, capped < charge ? `${note ?? ''} ${cappedNote}`.trim() : note),
  };
}

const cappedNote = 'An estimate never costs more than the credits held for the request.';

function chargeFor(
  usage: Usage,
  { units, isFree }: Measured,
  offer: Offer,
  creditsPerUsd: number,
): number {
  return isFree ? 0 : chargeAt(offer, costOf(usage, offer.prices, units), creditsPerUsd);
}

/** Returns the part of a hold that is left for the model after all other fees. */
function creditsForModel(call: Call, otherFees: number): number {
  const { hold } = call;
  return hold && !isPaidBefore(call) ? hold.credits - otherFees : Number.POSITIVE_INFINITY;
}

function measure({ operation }: Call, { metrics, opened, kind }: AnsweredOutcome): Measured {
  if (!operation) return nothingUsed;
  const measured = operation.measure(metrics, kind);
  const tokensMax = operation.bounds.tokensMaxFor(opened.offer);
  if (totalTokens(measured.usage) <= tokensMax) return measured;
  // Don't spread the metrics: they may be getters of a class.
  const { finishReason, outputCharacters, failure } = metrics;
  const estimate = operation.measure(
    { usage: undefined, finishReason, outputCharacters, failure },
    kind,
  );
  return { ...estimate, note: excessiveNote };
}

const nothingUsed: Measured = { usage: noUsage, units: noUnits, isEstimate: false, note: null };

function pricesOf({ pricing, ownAccount }: Offer): RequestRecord['prices'] {
  return ownAccount
    ? { ...pricing, byok_fee_basis_points: String(ownAccount.feeBasisPoints) }
    : pricing;
}

/** Leaves out other settings of the plan. */
function recordedMargin({ plan, factorBasisPoints, surcharge, list }: RecordedMargin) {
  return { plan, factorBasisPoints, surcharge, list };
}

const ownAccountNote =
  'The provider bills your own account for this usage. Only the platform fee is charged.';

function noteOf({ ownAccount }: Offer, note: string | null): string | null {
  if (!ownAccount) return note;
  return note === null ? ownAccountNote : `${ownAccountNote} ${note}`;
}

function recordOf(
  call: Call,
  outcome: RequestOutcome,
  bill: Bill,
  deps: Pick<SettleDeps, 'nameOf'>,
): RequestRecord {
  const request = call.operation?.request;
  const { tenantId, keyId } = call.caller;
  const finishReason = 'metrics' in outcome ? outcome.metrics.finishReason : undefined;
  const { model, provider, trafficMode, firstByteMs } = answererOf(call, outcome, bill);
  // The fields are listed rather than spread, because this runs for every request.
  return {
    usage: bill.usage,
    units: bill.units,
    usageEstimated: bill.usageEstimated,
    charges: bill.charges,
    prices: bill.prices,
    pricedFrom: bill.pricedFrom,
    margin: bill.margin,
    note: bill.note,
    searches: bill.searches,
    model,
    provider,
    trafficMode,
    firstByteMs,
    requestId: call.requestId,
    tenantId,
    keyId,
    operation: request?.operationName ?? call.operationName,
    jobId: call.jobId,
    requestedModel: deps.nameOf(
      logText(request?.models[0] ?? call.requestedModel),
      tenantId,
      model,
    ),
    status: successKinds.has(outcome.kind) ? 'success' : 'error',
    error: disconnectedEarly(call, outcome) ? null : (outcome.error?.symbol ?? null),
    refusal: rejectionReason(call, outcome),
    skills: call.operation?.skills ?? [],
    finishReason: finishReason === undefined ? null : logText(finishReason),
    streamed: request?.stream ?? false,
    cancelled: call.clientSignal.aborted && outcome.kind !== 'complete',
    cacheHit: outcome.kind === 'replayed',
    durationMs: Math.round(performance.now() - call.startedAt),
    endUser: request?.user ?? null,
    attempts: call.attempts,
    createdAt: call.receivedAt,
  };
}

/** Returns why we rejected a request. Errors of providers are recorded with the attempts. */
function rejectionReason({ attempts }: Call, outcome: RequestOutcome): string | undefined {
  if (outcome.kind !== 'rejected' || attempts.length > 0) return undefined;
  return logText(outcome.error.unquoted);
}

const successKinds: ReadonlySet<RequestOutcome['kind']> = new Set([
  'complete',
  'client_disconnected',
  'replayed',
]);

type Answerer = Pick<RequestRecord, 'model' | 'provider' | 'trafficMode' | 'firstByteMs'>;

const noAnswerer: Answerer = {
  model: null,
  provider: null,
  trafficMode: 'shared',
  firstByteMs: null,
};

function answererOf({ attempts }: Call, outcome: RequestOutcome, { prices }: Bill): Answerer {
  // A failed request has the mode of its last attempt, so that its owner knows which key failed.
  if (outcome.kind === 'rejected')
    return attempts.at(-1)?.own_account ? { ...noAnswerer, trafficMode: 'byok' } : noAnswerer;
  if (outcome.kind === 'abandoned')
    return prices ? { ...servedBy(outcome.offer), firstByteMs: null } : noAnswerer;
  if (outcome.kind === 'replayed') {
    const { model, provider } = outcome.recording;
    return { ...noAnswerer, model, provider };
  }
  const { offer, firstByteMs } = outcome.opened;
  return { ...servedBy(offer), firstByteMs };
}

function servedBy({ model, provider, ownAccount }: Offer): Omit<Answerer, 'firstByteMs'> {
  const trafficMode = ownAccount ? 'byok' : 'shared';
  return { model: model.id, provider: provider.name, trafficMode };
}
