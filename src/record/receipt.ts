import { promptTokens, totalTokens, type Usage } from '../core/usage.ts';
import { failureOf } from './failure.ts';
import { isoTime } from './period.ts';
import { linesOf, notChargedOf, pricesUsed } from './receipt-lines.ts';
import { feesOf, type RequestRecord, totalCharge } from './request-record.ts';

/** Everything that is known of one request, so that nobody has to take its charge on trust. */

export function receiptObject(record: RequestRecord, creditsPerUsd: number) {
  const { texts, aboveTokens } = pricesUsed(record);
  const lines = linesOf(record, creditsPerUsd);
  const cost = totalCharge(record.charges);
  return {
    request_id: record.requestId,
    api_key_id: record.keyId,
    operation: record.operation,
    job_id: record.jobId ?? null,
    model: record.requestedModel,
    answered_by: { model: record.model, provider: record.provider },
    status: record.status,
    error: record.error,
    failure: failureOf(record),
    traffic_mode: record.trafficMode,
    tokens: tokensOf(record.usage),
    usage_estimated: record.usageEstimated,
    lines,
    prices: texts,
    prices_above_tokens: aboveTokens,
    cost,
    usd: cost / creditsPerUsd,
    cost_breakdown: { ...feesOf(record.charges), total_charge: cost },
    not_charged: notChargedOf(record, lines),
    search_requests: record.searches,
    skills_used: record.skills,
    billing_note: record.note,
    finish_reason: record.finishReason,
    streamed: record.streamed,
    cancelled: record.cancelled,
    cache_hit: record.cacheHit,
    first_byte_ms: record.firstByteMs,
    latency_ms: record.durationMs,
    user: record.endUser,
    attempts: forTenants(record.attempts),
    created_at: isoTime(record.createdAt),
    generation_url: `/v1/generation?id=${record.requestId}`,
  };
}

export type Receipt = ReturnType<typeof receiptObject>;

/**
 * What a provider says of an account, or in place of an answer, is for the account's owner: it may
 * tell what the account owes, or name an inner machine. Errors to clients leave it out, too.
 */
const forOwners: ReadonlySet<string> = new Set(['credential', 'quota', 'malformed']);

function forTenants(attempts: RequestRecord['attempts']): RequestRecord['attempts'] {
  return attempts.map((one) =>
    forOwners.has(one.outcome) && !one.own_account ? { ...one, message: null } : one,
  );
}

/** The classes do not overlap, except that reasoning is part of the output. */
function tokensOf(usage: Usage) {
  return {
    input: usage.inputTokens,
    audio: usage.inputAudioTokens ?? 0,
    cache_read: usage.cacheReadTokens,
    cache_write: usage.cacheWriteTokens,
    cache_write_1h: usage.cacheWrite1hTokens ?? 0,
    prompt: promptTokens(usage),
    completion: usage.outputTokens,
    reasoning: usage.reasoningTokens,
    total: totalTokens(usage),
  };
}
