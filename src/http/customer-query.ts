import type { Caller } from '../core/caller.ts';
import { invalidRequest, notFound } from '../core/errors.ts';
import type { LogFilter, LogReads } from '../record/log-reads.ts';
import { type PeriodQuery, readPeriod } from '../record/period.ts';

/** What customers write behind the question mark of their reads. */

const limitUsual = 50;
const limitMax = 100;

type Keys = Pick<LogReads, 'ownsKey'>;

export async function readLogFilter(
  query: URLSearchParams,
  { tenantId }: Caller,
  keys: Keys,
): Promise<LogFilter> {
  return {
    tenantId,
    ...readPeriod(datesOf(query)),
    status: readStatus(query),
    model: readModel(query),
    keyId: await readKeyId(query, tenantId, keys),
  };
}

export function datesOf(query: URLSearchParams): PeriodQuery {
  return { start: query.get('start_date'), end: query.get('end_date') };
}

/** More than the most is answered with the most. */
export function readLimit(query: URLSearchParams): number {
  const text = query.get('limit') ?? String(limitUsual);
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw invalidRequest('limit must be a whole number of at least 1.', 'limit');
  return Math.min(limit, limitMax);
}

/** Another tenant's key is as absent as one that never was. */
export async function readKeyId(
  query: URLSearchParams,
  tenantId: string,
  keys: Keys,
): Promise<string | null> {
  const id = query.get('api_key_id');
  if (id === null) return null;
  // An id that no key can have is not taken to the store, which may not even hold its bytes.
  const isKnown = /^key_[0-9a-z]{1,60}$/.test(id) && (await keys.ownsKey(tenantId, id));
  if (!isKnown) throw notFound('There is no key with this id.', 'api_key_id');
  return id;
}

function readStatus(query: URLSearchParams): LogFilter['status'] {
  const status = query.get('status');
  if (status === null || status === 'success' || status === 'error') return status;
  throw invalidRequest('status must be "success" or "error".', 'status');
}

function readModel(query: URLSearchParams): string | null {
  const model = query.get('model');
  // Postgres refuses texts with this character; no alias has it.
  if (model?.includes('\0')) throw invalidRequest('model must not contain NUL.', 'model');
  return model;
}
