import { Type } from 'typebox';
import { isKeyId } from '../../auth/api-key.ts';
import type { Caller } from '../../core/caller.ts';
import { invalidRequest, notFound } from '../../core/errors.ts';
import { type Split, splits } from '../../record/analytics-split.ts';
import type { LogFilter, LogReads } from '../../record/log-reads.ts';
import { type PeriodQuery, readPeriod } from '../../record/period.ts';
import { cappedSchema, readCapped, readParameter } from '../query.ts';

/** The query parameters of customers' reads. */

/** Ten years: each month costs the store a few lookups. */
const months = { usual: 12, most: 120 };
export const monthsSchema = cappedSchema(months);

const statusSchema = Type.Enum(['success', 'error']);
export const groupBySchema = Type.Enum([...splits], { description: 'Divide the sums by this.' });

export const keyQuery = { api_key_id: Type.String({ description: 'Of one key only.' }) };
export const datesQuery = {
  start_date: Type.String({ description: 'YYYY-MM-DD or ISO 8601, UTC, inclusive.' }),
  end_date: Type.String({ description: 'YYYY-MM-DD or ISO 8601, UTC, inclusive.' }),
};
export const logQuery = {
  status: statusSchema,
  model: Type.String({ description: 'The alias that was asked for.' }),
  ...datesQuery,
  ...keyQuery,
};

type Keys = Pick<LogReads, 'ownsKey'>;

export async function readLogFilter(
  query: URLSearchParams,
  { tenantId }: Caller,
  keys: Keys,
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
  return readCapped(query, 'months', monthsSchema, months);
}

/** A key of another tenant is treated like one that does not exist. */
export async function readKeyId(
  query: URLSearchParams,
  tenantId: string,
  keys: Keys,
): Promise<string | null> {
  const id = query.get('api_key_id');
  if (id === null) return null;
  const isKnown = isKeyId(id) && (await keys.ownsKey(tenantId, id));
  if (!isKnown) throw notFound('There is no key with this id.', 'api_key_id');
  return id;
}

export function readSplit(query: URLSearchParams): Split | null {
  return readParameter(query, 'group_by', groupBySchema) ?? null;
}

function readModel(query: URLSearchParams): string | null {
  const model = query.get('model');
  // Postgres refuses texts with this character; no alias has it.
  if (model?.includes('\0')) throw invalidRequest('model must not contain NUL.', 'model');
  return model;
}
