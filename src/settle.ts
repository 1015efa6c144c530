import { noUsage, type Usage } from './core/usage.ts';
import type { ReplyClosing } from './dialects/dialect.ts';
import type { Call, Ending } from './gateway.ts';
import { estimateUsage } from './meter/estimate.ts';
import { modelCharge, tokenCost } from './meter/price.ts';
import { noCharges, type RequestRecord, totalCharge } from './record/request-record.ts';

/** The end of the story: what a request used, what that costs, and the row that says so. */

export interface SettleParts {
  readonly creditsPerUsd: number;
  record(record: RequestRecord): void;
}

export function settle(call: Call, ending: Ending, parts: SettleParts): ReplyClosing {
  const bill = ending.how === 'refused' ? freeOfCharge : priced(call, ending, parts.creditsPerUsd);
  const costCredits = totalCharge(bill.charges);
  parts.record(recordOf(call, ending, bill));
  return { usage: bill.usage, costCredits };
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

function priced(call: Call, { facts, opened }: Answered, creditsPerUsd: number): Bill {
  const { offer } = opened;
  const ask = call.conversation?.ask;
  const usage: Usage = facts.usage ?? estimateUsage(ask?.inputBytes ?? 0, facts.outputCharacters);
  const cost = tokenCost(usage, offer.prices, ask?.images.length ?? 0);
  return {
    usage,
    usageEstimated: facts.usage === undefined,
    charges: { ...noCharges, modelCharge: modelCharge(cost, creditsPerUsd) },
    prices: offer.pricing,
    note: facts.usage ? null : 'The provider reported no usage; the tokens are an estimate.',
  };
}

function recordOf(call: Call, ending: Ending, bill: Bill): RequestRecord {
  const answered = ending.how === 'refused' ? undefined : ending;
  const ask = call.conversation?.ask;
  return {
    ...bill,
    requestId: call.requestId,
    tenantId: call.caller.tenantId,
    keyId: call.caller.keyId,
    operation: 'chat',
    requestedModel: ask?.models[0] ?? '',
    model: answered?.opened.offer.model.id ?? null,
    provider: answered?.opened.offer.provider.name ?? null,
    status: ending.how === 'complete' || ending.how === 'left' ? 'success' : 'error',
    error: ending.error?.symbol ?? null,
    trafficMode: 'shared',
    searches: 0,
    skills: [],
    finishReason: answered?.facts.finishReason ?? null,
    streamed: ask?.stream ?? false,
    cancelled: ending.how === 'left',
    cacheHit: false,
    firstByteMs: answered?.opened.firstByteMs ?? null,
    durationMs: Math.round(performance.now() - call.startedAt),
    endUser: ask?.user ?? null,
    attempts: call.trail,
    createdAt: call.receivedAt,
  };
}
