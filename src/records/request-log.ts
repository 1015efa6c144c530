import { attemptMsMax } from '../core/bounds.ts';
import { requestIdTime } from '../core/ids.ts';
import { promptTokens, totalTokens } from '../core/usage.ts';
import { type Cell, csvTable } from './csv.ts';
import { isoTime, type Period } from './period.ts';
import { feesOf, type RequestRecord, totalCharge } from './request-record.ts';

/** Which rows of the request log somebody wants to see. */
export interface LogFilter extends Period {
  readonly tenantId: string;
  readonly status: 'success' | 'error' | null;
  /** The alias that was asked for. */
  readonly model: string | null;
  readonly keyId: string | null;
}

/** The part of a record that its tenant reads. */
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
  /** All rows that match, on whatever page. */
  readonly total: number;
}

/** The store behind the request log that customers read. Newest first, by time of arrival. */
export interface LogReads {
  /** Whether a key is, or was before it was deleted, one of the tenant's. */
  ownsKey(tenantId: string, keyId: string): Promise<boolean>;
  /** Costs the same for the first page and for the last of millions. */
  page(filter: LogFilter, limit: number, offset: number): Promise<LogPage>;
  /** All matching rows in pages; rows written after the first page are not among them. */
  all(filter: LogFilter): AsyncIterable<readonly LogRow[]>;
}

/** The store that reads of the log need. */
export interface RequestLog {
  /** Another tenant's request is as absent as none. */
  find(tenantId: string, requestId: string): Promise<RequestRecord | undefined>;
}

/** For the operator alone, who has an id and does not know whose request it was. */
export interface AllTenantsLog {
  findForAnyTenant(requestId: string): Promise<RequestRecord | undefined>;
}

/** One request as its tenant reads it, in JSON and as a line of a table. */

export function logObject(row: LogRow) {
  const { usage, charges } = row;
  const cost = totalCharge(charges);
  return {
    // Not the row's number: its gaps would tell how much the other tenants do.
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
  'model_charge',
  'byok_platform_fee',
  'managed_tool_fee',
  'agent_runtime_fee',
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

/** Processes book in batches: what another one has answered can be found a moment later. */
const writeDelayMsMax = 2_000;
const retryMs = 100;

/**
 * Looks again for a request that may have ended just now, in another process. Counts looks and not
 * time: while the machine stood still, other processes could not book either.
 */
export async function findWithRetry(
  requestId: string,
  find: (requestId: string) => Promise<RequestRecord | undefined>,
): Promise<RequestRecord | undefined> {
  const mayBePending = Math.abs(Date.now() - requestIdTime(requestId)) <= attemptMsMax;
  let record = await find(requestId);
  for (let ms = mayBePending ? writeDelayMsMax : 0; !record && ms > 0; ms -= retryMs) {
    await Bun.sleep(retryMs);
    record = await find(requestId);
  }
  return record;
}
