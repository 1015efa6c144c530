import assert from 'node:assert/strict';
import type { Insertable, Selectable } from 'kysely';
import type { Settlement } from '../ledger/ledger-store.ts';
import type { AttemptRecord, RequestRecord } from '../record/request-record.ts';
import type { RequestLogTable } from './schema.ts';

type Row = Insertable<RequestLogTable>;

/** What is shown with one request but never searched: kept as JSON beside the columns. */
interface Details {
  readonly prices: Readonly<Record<string, string>> | null;
  readonly skills: readonly string[];
  readonly user: string | null;
  readonly attempts: readonly AttemptRecord[];
}

/** The row without its ledger entry, which is known only when the batch is booked. */
export function rowOf({ record, writtenOff }: Settlement) {
  const { usage, charges } = record;
  const details: Details = {
    prices: record.prices,
    skills: record.skills,
    user: record.endUser,
    attempts: record.attempts,
  };
  return {
    request_id: idBytes(record.requestId),
    tenant_id: record.tenantId,
    key_id: record.keyId,
    operation: record.operation,
    requested_model: storable(record.requestedModel),
    model: record.model,
    provider: record.provider,
    status: record.status,
    error: record.error,
    traffic_mode: record.trafficMode,
    input_tokens: usage.inputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    output_tokens: usage.outputTokens,
    reasoning_tokens: usage.reasoningTokens,
    usage_estimated: flag(record.usageEstimated),
    model_charge: charges.modelCharge,
    byok_platform_fee: charges.byokPlatformFee,
    managed_tool_fee: charges.managedToolFee,
    agent_runtime_fee: charges.agentRuntimeFee,
    written_off: writtenOff,
    searches: record.searches,
    note: record.note,
    finish_reason: record.finishReason === null ? null : storable(record.finishReason),
    streamed: flag(record.streamed),
    cancelled: flag(record.cancelled),
    cache_hit: flag(record.cacheHit),
    first_byte_ms: record.firstByteMs,
    duration_ms: record.durationMs,
    details: JSON.stringify(details),
    created_at: record.createdAt,
  } satisfies Omit<Row, 'entry_id'>;
}

export const logColumns = [
  'request_id',
  'tenant_id',
  'key_id',
  'operation',
  'requested_model',
  'model',
  'provider',
  'status',
  'error',
  'traffic_mode',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'usage_estimated',
  'model_charge',
  'byok_platform_fee',
  'managed_tool_fee',
  'agent_runtime_fee',
  'written_off',
  'searches',
  'note',
  'finish_reason',
  'streamed',
  'cancelled',
  'cache_hit',
  'first_byte_ms',
  'duration_ms',
  'details',
  'entry_id',
  'created_at',
] as const satisfies readonly (keyof Row)[];

export function detailsOf({ details }: Pick<RequestLogTable, 'details'>): Details {
  // Written by rowOf() above, into a column that nothing else writes.
  return JSON.parse(details) as Details;
}

export function recordOf(row: Selectable<RequestLogTable>): RequestRecord {
  const details = detailsOf(row);
  return {
    requestId: idText(row.request_id),
    tenantId: row.tenant_id,
    keyId: row.key_id,
    operation: row.operation,
    requestedModel: row.requested_model,
    model: row.model,
    provider: row.provider,
    status: row.status,
    error: row.error,
    trafficMode: row.traffic_mode,
    usage: {
      inputTokens: row.input_tokens,
      cacheReadTokens: row.cache_read_tokens,
      cacheWriteTokens: row.cache_write_tokens,
      outputTokens: row.output_tokens,
      reasoningTokens: row.reasoning_tokens,
    },
    usageEstimated: row.usage_estimated === 1,
    charges: {
      modelCharge: row.model_charge,
      byokPlatformFee: row.byok_platform_fee,
      managedToolFee: row.managed_tool_fee,
      agentRuntimeFee: row.agent_runtime_fee,
    },
    prices: details.prices,
    searches: row.searches,
    skills: details.skills,
    note: row.note,
    finishReason: row.finish_reason,
    streamed: row.streamed === 1,
    cancelled: row.cancelled === 1,
    cacheHit: row.cache_hit === 1,
    firstByteMs: row.first_byte_ms,
    durationMs: row.duration_ms,
    endUser: details.user,
    attempts: details.attempts,
    createdAt: row.created_at,
  };
}

/**
 * Clients name models and providers name finish reasons as they like, but Postgres takes neither
 * NUL nor half a surrogate pair: one such row would be refused with its whole batch, for ever.
 */
export function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '\uFFFD');
}

function flag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}

export function isRequestId(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

export function idBytes(requestId: string): Uint8Array {
  assert(isRequestId(requestId), 'A request id is a UUID.');
  return Uint8Array.fromHex(requestId.replaceAll('-', ''));
}

export function idText(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
