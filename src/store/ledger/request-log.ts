import { strict as assert } from 'node:assert';
import type { Insertable, Selectable, SelectQueryBuilder } from 'kysely';
import { formatUuid, requestIdPattern, requestIdTime } from '../../core/ids.ts';
import { definedFields } from '../../core/json.ts';
import { logText } from '../../core/text.ts';
import { type Units, type Usage, uncachedTokens, writtenTokens } from '../../core/usage.ts';
import type { Settlement } from '../../money/ledger.ts';
import { chargesFromFees, feeNames, feesOf } from '../../money/price/fee-kinds.ts';
import type { AllTenantsLog, RequestLog } from '../../records/customer-log.ts';
import type { Period } from '../../records/period.ts';
import type { RecordedMargin, RequestRecord } from '../../records/request-record.ts';
import { SqlRepository } from '../database.ts';
import type { RequestLogTable, Schema } from '../schema.ts';

export class SqlRequestLog extends SqlRepository implements RequestLog, AllTenantsLog {
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined> {
    return this.#find(requestId, tenantId);
  }

  findForAnyTenant(requestId: string): Promise<RequestRecord | undefined> {
    return this.#find(requestId, null);
  }

  async #find(requestId: string, tenantId: string | null): Promise<RequestRecord | undefined> {
    if (!requestIdPattern.test(requestId)) return undefined;
    const query = this.database.read
      .selectFrom('request_log')
      .selectAll()
      .where('request_id', '=', idBytes(requestId))
      .$if(tenantId !== null, (all) => all.where('tenant_id', '=', tenantId));
    const row = (await this.#findByTime(query, requestId)) ?? (await query.executeTakeFirst());
    return row && recordOf(row);
  }

  /** Reads a single partition. Misses pieces of jobs, because their IDs don't have their time. */
  async #findByTime(query: LogQuery, requestId: string): Promise<LogRow | undefined> {
    if (this.database.engine === 'sqlite') return undefined;
    const { from, until } = periodOfId(requestId);
    return query
      .where('created_at', '>=', from)
      .where('created_at', '<=', until)
      .executeTakeFirst();
  }
}

type LogRow = Selectable<RequestLogTable>;
type LogQuery = SelectQueryBuilder<Schema, 'request_log', LogRow>;

/** How far the time of a request may be from the time in its ID. */
const idTimeToleranceMs = 60_000;

/** Returns when the request arrived, unless its ID doesn't start with its time. */
export function periodOfId(requestId: string): Period {
  const time = requestIdTime(requestId.toLowerCase());
  return { from: time - idTimeToleranceMs, until: time + idTimeToleranceMs };
}

type Row = Insertable<RequestLogTable>;

/**
 * The fields that are displayed with a request but never searched or summed. They are stored in one
 * JSON column.
 */
interface Details extends Pick<RequestRecord, 'operation' | 'model' | 'prices' | 'attempts'> {
  readonly pricedFrom?: number;
  readonly margin?: RecordedMargin;
  readonly finishReason: string | null;
  readonly firstByteMs: number | null;
  /** The optional fields are left out of most rows. */
  readonly error?: string;
  readonly refusal?: string;
  readonly note?: string;
  readonly user?: string;
  readonly job?: string;
  readonly skills?: readonly string[];
  readonly units?: Units;
  /** The part of `input_tokens` that was audio. */
  readonly inputAudioTokens?: number;
  /** The part of `cache_write_tokens` with a lifetime of 1 hour. */
  readonly cacheWrite1hTokens?: number;
  readonly estimated?: true;
  readonly streamed?: true;
  readonly cancelled?: true;
  readonly cacheHit?: true;
}

export function rowOf({ record, writtenOff }: Settlement, entryId: number | null) {
  const { usage, charges } = record;
  return {
    request_id: idBytes(record.requestId),
    tenant_id: record.tenantId,
    key_id: record.keyId,
    requested_model: logText(record.requestedModel),
    provider: record.provider,
    status: record.status,
    traffic_mode: record.trafficMode,
    input_tokens: uncachedTokens(usage),
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: writtenTokens(usage),
    output_tokens: usage.outputTokens,
    reasoning_tokens: usage.reasoningTokens,
    ...feesOf(charges),
    written_off: writtenOff,
    searches: record.searches,
    duration_ms: record.durationMs,
    details: writeDetails(record),
    entry_id: entryId,
    created_at: record.createdAt,
  } satisfies Row;
}

function writeDetails(record: RequestRecord): string {
  const { operation, model, prices, attempts, finishReason, firstByteMs } = record;
  // JSON leaves out undefined fields.
  const details: { readonly [Name in keyof Details]: Details[Name] | undefined } = {
    operation,
    model,
    prices,
    attempts,
    finishReason: finishReason === null ? null : logText(finishReason),
    firstByteMs,
    error: record.error ?? undefined,
    refusal: record.refusal,
    note: record.note ?? undefined,
    user: record.endUser ?? undefined,
    job: record.jobId,
    pricedFrom: record.pricedFrom,
    margin: record.margin,
    skills: record.skills.length > 0 ? record.skills : undefined,
    units: record.units,
    inputAudioTokens: record.usage.inputAudioTokens,
    cacheWrite1hTokens: record.usage.cacheWrite1hTokens,
    estimated: record.usageEstimated || undefined,
    streamed: record.streamed || undefined,
    cancelled: record.cancelled || undefined,
    cacheHit: record.cacheHit || undefined,
  };
  return JSON.stringify(details);
}

/** The columns with the usage and the cost of a request. */
export const amountColumns = [
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  ...feeNames,
] as const satisfies readonly (keyof Row)[];

export const logColumns = [
  'request_id',
  'tenant_id',
  'key_id',
  'requested_model',
  'provider',
  'status',
  'traffic_mode',
  ...amountColumns,
  'written_off',
  'searches',
  'duration_ms',
  'details',
  'entry_id',
  'created_at',
] as const satisfies readonly (keyof Row)[];

export function detailsOf({ details }: Pick<RequestLogTable, 'details'>): Details {
  // Only writeDetails() writes this column.
  return JSON.parse(details) as Details;
}

function recordOf(row: LogRow): RequestRecord {
  const details = detailsOf(row);
  const { usage, charges } = amountsOf(row);
  return {
    requestId: idText(row.request_id),
    tenantId: row.tenant_id,
    keyId: row.key_id,
    operation: details.operation,
    jobId: details.job,
    requestedModel: row.requested_model,
    model: details.model,
    provider: row.provider,
    status: row.status,
    error: details.error ?? null,
    ...(details.refusal ? { refusal: details.refusal } : {}),
    trafficMode: row.traffic_mode,
    usage: splitTokens(usage, details),
    charges,
    ...(details.units ? { units: details.units } : {}),
    usageEstimated: details.estimated === true,
    prices: details.prices,
    ...definedFields({ pricedFrom: details.pricedFrom, margin: details.margin }),
    searches: row.searches,
    skills: details.skills ?? [],
    note: details.note ?? null,
    finishReason: details.finishReason,
    streamed: details.streamed === true,
    cancelled: details.cancelled === true,
    cacheHit: details.cacheHit === true,
    firstByteMs: details.firstByteMs,
    durationMs: row.duration_ms,
    endUser: details.user ?? null,
    attempts: details.attempts,
    createdAt: row.created_at,
  };
}

/**
 * Splits token counts, because one column counts text and audio tokens together, and another counts
 * cache writes of all lifetimes together.
 */
function splitTokens(
  usage: Usage,
  { inputAudioTokens = 0, cacheWrite1hTokens = 0 }: Details,
): Usage {
  return {
    ...usage,
    inputTokens: usage.inputTokens - inputAudioTokens,
    inputAudioTokens: inputAudioTokens || undefined,
    cacheWriteTokens: usage.cacheWriteTokens - cacheWrite1hTokens,
    cacheWrite1hTokens: cacheWrite1hTokens || undefined,
  };
}

type Amounts = Pick<Selectable<RequestLogTable>, (typeof amountColumns)[number]>;

/** Converts columns into usage and charges. */
export function amountsOf(row: Amounts): Pick<RequestRecord, 'usage' | 'charges'> {
  return {
    usage: {
      inputTokens: row.input_tokens,
      cacheReadTokens: row.cache_read_tokens,
      cacheWriteTokens: row.cache_write_tokens,
      outputTokens: row.output_tokens,
      reasoningTokens: row.reasoning_tokens,
    },
    charges: chargesFromFees(row),
  };
}

export function idBytes(requestId: string): Uint8Array {
  assert(requestIdPattern.test(requestId), 'The request id is not a UUID.');
  return Uint8Array.fromHex(requestId.replaceAll('-', ''));
}

export function idText(bytes: Uint8Array): string {
  return formatUuid(bytes.toHex());
}
