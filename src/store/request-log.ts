import type { Insertable, Selectable } from 'kysely';
import type { RequestLog } from '../record/recorder.ts';
import type { AttemptRecord, RequestRecord } from '../record/request-record.ts';
import type { Database } from './database.ts';
import { insertRows } from './insert-rows.ts';
import type { RequestLogTable } from './schema.ts';

type Row = Insertable<RequestLogTable>;

export class SqlRequestLog implements RequestLog {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async append(records: readonly RequestRecord[]): Promise<void> {
    const { engine, write } = this.#database;
    const rows = records.map(rowOf);
    await write
      .transaction()
      .execute((change) => insertRows(change, engine, 'request_log', columns, rows));
  }

  async find(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    const bytes = idBytes(requestId);
    if (!bytes) return undefined;
    const row = await this.#database.read
      .selectFrom('request_log')
      .selectAll()
      .where('request_id', '=', bytes)
      .where('tenant_id', '=', tenantId)
      .executeTakeFirst();
    return row && recordOf(row);
  }
}

/** What is shown with one request but never searched: kept as JSON beside the columns. */
interface Details {
  readonly prices: Readonly<Record<string, string>> | null;
  readonly skills: readonly string[];
  readonly user: string | null;
  readonly attempts: readonly AttemptRecord[];
}

export function rowOf(record: RequestRecord) {
  const { usage, charges } = record;
  const details: Details = {
    prices: record.prices,
    skills: record.skills,
    user: record.endUser,
    attempts: record.attempts,
  };
  return {
    request_id: idBytes(record.requestId) ?? new Uint8Array(16),
    tenant_id: record.tenantId,
    key_id: record.keyId,
    operation: record.operation,
    requested_model: record.requestedModel,
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
    searches: record.searches,
    note: record.note,
    finish_reason: record.finishReason,
    streamed: flag(record.streamed),
    cancelled: flag(record.cancelled),
    cache_hit: flag(record.cacheHit),
    first_byte_ms: record.firstByteMs,
    duration_ms: record.durationMs,
    details: JSON.stringify(details),
    created_at: record.createdAt,
  } satisfies Row;
}

const columns = [
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
  'searches',
  'note',
  'finish_reason',
  'streamed',
  'cancelled',
  'cache_hit',
  'first_byte_ms',
  'duration_ms',
  'details',
  'created_at',
] as const satisfies readonly (keyof Row)[];

function recordOf(row: Selectable<RequestLogTable>): RequestRecord {
  // Written by rowOf() above, into a column that nothing else writes.
  const details = JSON.parse(row.details) as Details;
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

function flag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}

/** Undefined for what is not a UUID: no request has such an id. */
function idBytes(requestId: string): Uint8Array | undefined {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(requestId)) return undefined;
  return Uint8Array.fromHex(requestId.replaceAll('-', ''));
}

function idText(bytes: Uint8Array): string {
  return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
