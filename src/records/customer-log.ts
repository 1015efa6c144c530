import type { LogObject } from '../contract/customer.ts';
import { requestIdTime } from '../core/ids.ts';
import { promptTokens, totalTokens } from '../core/usage.ts';
import { feeNames, feesOf, totalCharge } from '../money/price/fee-kinds.ts';
import { type Cell, csvTable } from './csv.ts';
import { isoTime, type Period } from './period.ts';
import type { RequestRecord } from './request-record.ts';

/** Selects rows of the request log. */
export interface LogFilter extends Period {
  readonly tenantId: string;
  readonly status: 'success' | 'error' | null;
  /** The alias that was requested. */
  readonly model: string | null;
  readonly keyId: string | null;
}

/** The fields of a record that the tenant's log shows. */
export type LogRow = Pick<
  RequestRecord,
  | 'requestId'
  | 'keyId'
  | 'jobId'
  | 'endUser'
  | 'requestedModel'
  | 'provider'
  | 'status'
  | 'error'
  | 'trafficMode'
  | 'usage'
  | 'charges'
  | 'skills'
  | 'note'
  | 'durationMs'
  | 'createdAt'
>;

export interface LogPage {
  readonly rows: readonly LogRow[];
  /** The number of matching rows on all pages. */
  readonly total: number;
}

/** Reads the request log of a tenant, newest first by time of arrival. */
export interface LogReads {
  /** Returns true if the key belongs to the tenant, or did before it was deleted. */
  ownsKey(tenantId: string, keyId: string): Promise<boolean>;
  /**
   * Returns one page. Even with millions of rows, the last page must not be slower than the first.
   */
  page(filter: LogFilter, limit: number, offset: number): Promise<LogPage>;
  /** Returns all matching rows in pages, without rows written after the first page. */
  all(filter: LogFilter): AsyncIterable<readonly LogRow[]>;
}

export interface RequestLog {
  /** Returns undefined for another tenant's request, too. */
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined>;
}

/** Only for operators, who may have a request id without knowing its tenant. */
export interface AllTenantsLog {
  findForAnyTenant(requestId: string): Promise<RequestRecord | undefined>;
}

/** Returns one request as the tenant's log shows it. */
export function logObject(row: LogRow): LogObject {
  const { usage, charges } = row;
  const cost = totalCharge(charges);
  return {
    // Not the row number: its gaps would reveal how many requests other tenants send.
    id: `log_${row.requestId.replaceAll('-', '')}`,
    request_id: row.requestId,
    model: row.requestedModel,
    provider: row.provider ?? '',
    status: row.status,
    traffic_mode: row.trafficMode,
    tokens: {
      prompt: promptTokens(usage),
      completion: usage.outputTokens,
      total: totalTokens(usage),
    },
    cost,
    cost_breakdown: { ...feesOf(charges), total_charge: cost },
    skills_used: row.skills,
    billing_note: row.note,
    latency_ms: row.durationMs,
    created_at: isoTime(row.createdAt),
    api_key_id: row.keyId,
    error: row.error,
    job_id: row.jobId ?? null,
    user: row.endUser,
  };
}

export function logsCsv(pages: AsyncIterable<readonly LogRow[]>): AsyncGenerator<string> {
  return csvTable(columns, pages, cellsOf);
}

const columns = [
  'id',
  'request_id',
  'model',
  'provider',
  'status',
  'traffic_mode',
  'tokens_prompt',
  'tokens_completion',
  'tokens_total',
  'cost',
  ...feeNames,
  'total_charge',
  'skills_used',
  'billing_note',
  'latency_ms',
  'created_at',
  'api_key_id',
  'error',
  'job_id',
  'user',
] as const;

function cellsOf(row: LogRow): Cell[] {
  const { tokens, cost_breakdown, skills_used, ...rest } = logObject(row);
  const flat: Record<(typeof columns)[number], Cell> = {
    ...rest,
    ...cost_breakdown,
    tokens_prompt: tokens.prompt,
    tokens_completion: tokens.completion,
    tokens_total: tokens.total,
    skills_used: skills_used.join(';'),
  };
  return columns.map((name) => flat[name]);
}

/**
 * A younger request may be in no report of another process yet, and its record may not be committed
 * yet. Includes the second by which the time in an ID is rounded down.
 */
const freshMs = 2_500;
const retryMs = 100;

/** A record is committed about 200 ms after its request ended. This is enough even under load. */
const commitTries = 6;

interface AnyProcessLookup<Record, Running> {
  record(requestId: string): Promise<Record | undefined>;
  running(requestId: string): Promise<Running | undefined>;
  /** True if no other process can know more about the request. */
  isOnlyHere(requestId: string): boolean;
}

/**
 * Finds a request of any process. Retries if it may have arrived a moment ago, or if only a report
 * of another process says that it's running, because it may have ended since. Counts tries instead
 * of time, because a suspended machine stops the other processes as well.
 */
export async function findInAnyProcess<Record, Running>(
  requestId: string,
  lookup: AnyProcessLookup<Record, Running>,
): Promise<Record | Running | undefined> {
  const ageMs = Math.abs(Date.now() - requestIdTime(requestId));
  let freshTries = Math.ceil((freshMs - ageMs) / retryMs);
  let reportedTries = commitTries;
  for (;;) {
    const record = await lookup.record(requestId);
    if (record) return record;
    const running = await lookup.running(requestId);
    if (lookup.isOnlyHere(requestId)) return running;
    // A text that is no ID has no time, and is looked up once.
    const mayRetry = running ? reportedTries-- > 0 : freshTries-- > 0;
    if (!mayRetry) return running;
    await Bun.sleep(retryMs);
  }
}
