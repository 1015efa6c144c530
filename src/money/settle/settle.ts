import type { Call, RecordingSession, RequestOutcome } from '../../call.ts';
import type { Caller } from '../../core/caller.ts';
import type { AnswerWriteResult, FirstRequest, IdempotentAnswer } from '../../core/recording.ts';
import { logText } from '../../core/text.ts';
import { type Measured, noUnits, noUsage, totalTokens, type Usage } from '../../core/usage.ts';
import type { AnswerMetrics, SettledUsage } from '../../dialects/dialect.ts';
import type { RequestRecord } from '../../records/request-record.ts';
import type { Offer } from '../../route/catalog.ts';
import type { Opened } from '../../upstream/fallback.ts';
import type { Hold } from '../hold/hold.ts';
import type { Settlement } from '../ledger.ts';
import { chargeAt, costOf, isCredible } from '../price/cost.ts';
import { chargesFor, noCharges, totalCharge } from '../price/fee-kinds.ts';
import { withWriteOff } from './write-off.ts';

/** The end of the story: what a request used, what that costs, and the line that says so. */

interface SettleDeps {
  readonly creditsPerUsd: number;
  /** Resolves once the settlement cannot be lost any more. */
  saveSettlement(settlement: Settlement, wasDispatched: boolean): Promise<void> | void;
  /** Like `keep`, together with the answer that the settlement pays for. */
  saveWithAnswer(answer: IdempotentAnswer, settlement: Settlement): Promise<AnswerWriteResult>;
  /** Tokens count towards the key's quota of the minute. */
  countTokens(caller: Caller, tokens: number): Promise<void> | void;
  /**
   * How the books call the model that was asked for. One too many of the names that no model has is
   * called by the model that answered, or `unknown`.
   */
  nameOf(requested: string, tenantId: string, answered: string | null): string;
  /** How fast an offer answered, for `provider.sort: throughput`. */
  observeSpeed(offer: Offer, tokensPerSecond: number): void;
  /** An offer that broke off in mid-answer counts as failed for the requests to come. */
  observeEnd(offer: Offer, isComplete: boolean): void;
}

export async function settle(
  call: Call,
  outcome: RequestOutcome,
  deps: SettleDeps,
): Promise<SettledUsage> {
  const { hold, recordingSession } = call;
  const isRecorded = recordingSession !== undefined && outcome.kind === 'complete';
  if (recordingSession && !isRecorded) await recordingSession.inFlight.release();
  // When the journal fails, a call that was already settled is refused as well: not settled again.
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
  if ('opened' in outcome) recordHealth(call, outcome, bill.usage, deps);
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
  if (outcome.kind === 'replayed') return outcome.first ?? usageOfReplay(call, outcome.metrics);
  await deps.countTokens(call.caller, totalTokens(bill.usage));
  return settled;
}

/**
 * A client that gets an answer from the cache is told what it used the first time, estimated where
 * the provider did not count, and that this time it costs nothing.
 */
function usageOfReplay({ operation }: Call, metrics: AnswerMetrics): SettledUsage {
  return { usage: operation?.measure(metrics, 'complete').usage ?? noUsage, costCredits: 0 };
}

function toFirstRequest(
  { requestId, receivedAt }: Call,
  settled: Required<SettledUsage>,
): FirstRequest {
  return { requestId, receivedAt, ...settled };
}

/** The charge is written along with the answer: an unpaid answer must never be given again. */
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
  // As in openFirst: a request that is itself at fault says nothing about the offer's health.
  const isOffersFault = error?.symbol === 'upstream_error' && metrics.failure?.kind !== 'request';
  // Behind a finish reason, it is the model's own words that are no answer.
  if (kind === 'interrupted' && isOffersFault && metrics.finishReason === undefined)
    deps.observeEnd(opened.offer, false);
  if (kind !== 'complete') return;
  deps.observeEnd(opened.offer, true);
  const seconds = (performance.now() - call.startedAt) / 1000;
  if (usage.outputTokens > 0) deps.observeSpeed(opened.offer, usage.outputTokens / seconds);
}

type Bill = Pick<
  RequestRecord,
  'usage' | 'units' | 'usageEstimated' | 'charges' | 'prices' | 'note' | 'searches'
>;
type AnsweredOutcome = Extract<RequestOutcome, { opened: Opened }>;

const freeOfCharge: Bill = {
  usage: noUsage,
  usageEstimated: false,
  charges: noCharges,
  prices: null,
  note: null,
  searches: 0,
};

function billOf(call: Call, outcome: RequestOutcome, deps: SettleDeps): Bill {
  if ('opened' in outcome) return billAnswer(call, outcome, deps);
  if (outcome.kind === 'replayed') return { ...freeOfCharge, note: replayNote(outcome.first) };
  return clientLeft(call, outcome) ? { ...freeOfCharge, note: clientLeftNote } : freeOfCharge;
}

/**
 * Whether the client left before an answer began: then neither a provider nor the gateway failed.
 */
function clientLeft({ attempts }: Call, { kind }: RequestOutcome): boolean {
  return kind === 'rejected' && attempts.at(-1)?.outcome === 'client_disconnected';
}

const clientLeftNote = 'The client left before the answer began; nothing is charged.';

function replayNote(first: FirstRequest | undefined): string {
  const which = first ? `The answer of request ${first.requestId}` : 'An earlier answer';
  return `${which} was given again; nothing is charged for it.`;
}

function billAnswer(call: Call, outcome: AnsweredOutcome, { creditsPerUsd }: SettleDeps): Bill {
  const { offer } = outcome.opened;
  const measured = measure(call, outcome);
  const { usage, units, isEstimate, note, reported, searches = 0 } = measured;
  const trafficMode = offer.own ? 'byok' : 'shared';
  const otherFees = totalCharge(chargesFor(trafficMode, 0, measured));
  const charge = chargeFor(usage, measured, offer, creditsPerUsd);
  // An estimate never costs more than the hold. What the provider counted may.
  const countedCharge = reported ? chargeFor(reported, measured, offer, creditsPerUsd) : 0;
  const most = Math.max(creditsForModel(call.hold, otherFees), countedCharge);
  const capped = isEstimate ? Math.min(charge, most) : charge;
  return {
    usage,
    units: units === noUnits ? undefined : units,
    usageEstimated: isEstimate,
    charges: chargesFor(trafficMode, capped, measured),
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

/** Returns the part of a hold that is left for the model after all other fees. */
function creditsForModel(hold: Hold | undefined, otherFees: number): number {
  return hold ? hold.credits - otherFees : Number.POSITIVE_INFINITY;
}

function measure({ operation }: Call, { metrics, opened, kind }: AnsweredOutcome): Measured {
  if (!operation) return nothingUsed;
  const measured = operation.measure(metrics, kind);
  if (isCredible(measured.usage, operation.bounds.contextTokensFor(opened.offer))) return measured;
  // Facts may be getters of a class: spreading would lose most of them.
  const { finishReason, outputCharacters, failure } = metrics;
  const estimate = operation.measure(
    { usage: undefined, finishReason, outputCharacters, failure },
    kind,
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
  outcome: RequestOutcome,
  bill: Bill,
  deps: Pick<SettleDeps, 'nameOf'>,
): RequestRecord {
  const request = call.operation?.request;
  const { tenantId, keyId } = call.caller;
  const finishReason = outcome.kind === 'rejected' ? undefined : outcome.metrics.finishReason;
  const { model, provider, trafficMode, firstByteMs } = answererOf(outcome);
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
    operation: request?.operationName ?? call.operationName,
    jobId: call.jobId,
    requestedModel: deps.nameOf(
      logText(request?.models[0] ?? call.requestedModel),
      tenantId,
      model,
    ),
    status: successKinds.has(outcome.kind) ? 'success' : 'error',
    error: clientLeft(call, outcome) ? null : (outcome.error?.symbol ?? null),
    refusal: refusalOf(call, outcome),
    skills: call.operation?.skills ?? [],
    finishReason: finishReason === undefined ? null : logText(finishReason),
    streamed: request?.stream ?? false,
    cancelled: call.client.aborted && outcome.kind !== 'complete',
    cacheHit: outcome.kind === 'replayed',
    durationMs: Math.round(performance.now() - call.startedAt),
    endUser: request?.user ?? null,
    attempts: call.attempts,
    createdAt: call.receivedAt,
  };
}

/** Only where no provider was asked: what providers said stands with the attempts. */
function refusalOf({ attempts }: Call, outcome: RequestOutcome): string | undefined {
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

function answererOf(outcome: RequestOutcome): Answerer {
  if (outcome.kind === 'rejected') return noAnswerer;
  if (outcome.kind === 'replayed') {
    const { model, provider } = outcome.recording;
    return { ...noAnswerer, model, provider };
  }
  const { offer, firstByteMs } = outcome.opened;
  return {
    model: offer.model.id,
    provider: offer.provider.name,
    trafficMode: offer.own ? 'byok' : 'shared',
    firstByteMs,
  };
}
