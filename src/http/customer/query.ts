import { isKeyId } from '../../auth/api-key.ts';
import {
  type Granularity,
  type GroupBy,
  granularitySchema,
  groupBySchema,
  monthsCap,
  monthsSchema,
  statusSchema,
} from '../../contract/customer.ts';
import type { Caller } from '../../core/caller.ts';
import { invalidRequest, notFound } from '../../core/errors.ts';
import type { LogFilter, LogReads } from '../../records/customer-log.ts';
import { type DayRange, type PeriodQuery, readPeriod } from '../../records/period.ts';
import { readCapped, readParameter } from '../query.ts';

type KeyLookup = Pick<LogReads, 'ownsKey'>;

export async function readLogFilter(
  query: URLSearchParams,
  { tenantId }: Caller,
  keys: KeyLookup,
): Promise<LogFilter> {
  return {
    tenantId,
    ...readPeriod(datesOf(query)),
    status: readParameter(query, 'status', statusSchema) ?? null,
    model: readModel(query),
    keyId: await readKeyId(query, tenantId, keys),
  };
}

export function datesOf(query: URLSearchParams): PeriodQuery {
  return { start: query.get('start_date'), end: query.get('end_date') };
}

export function readMonths(query: URLSearchParams): number {
  return readCapped(query, 'months', monthsSchema, monthsCap);
}

/** Throws 404 for an unknown key and for another tenant's key. */
export async function readKeyId(
  query: URLSearchParams,
  tenantId: string,
  keys: KeyLookup,
): Promise<string | null> {
  const id = query.get('api_key_id');
  if (id === null) return null;
  const isKnown = isKeyId(id) && (await keys.ownsKey(tenantId, id));
  if (!isKnown) throw notFound('There is no key with this ID.', 'api_key_id');
  return id;
}

export function readGroupBy(query: URLSearchParams): GroupBy | null {
  return readParameter(query, 'group_by', groupBySchema) ?? null;
}

/** Throws 400 for the hours of several days, because each bucket is an entry of the answer. */
export function readGranularity(query: URLSearchParams, { first, last }: DayRange): Granularity {
  const granularity = readParameter(query, 'granularity', granularitySchema) ?? 'day';
  if (granularity === 'hour' && first !== last) {
    throw invalidRequest(
      'granularity=hour covers one day. Set start_date and end_date to the same date.',
      'granularity',
    );
  }
  return granularity;
}

function readModel(query: URLSearchParams): string | null {
  const model = query.get('model');
  // Postgres rejects text with NUL, and no alias contains it.
  if (model?.includes('\0')) throw invalidRequest('model must not contain NUL.', 'model');
  return model;
}
