import type { Selectable } from 'kysely';
import type { LogRow } from '../../record/log-reads.ts';
import { amountColumns, amountsOf, detailsOf, idText } from '../books/request-log-rows.ts';
import type { RequestLogTable } from '../schema.ts';

/** Only what is shown: an export of millions of rows pays for every column. */
export const shownColumns = [
  'id',
  'request_id',
  'key_id',
  'requested_model',
  'provider',
  'status',
  'traffic_mode',
  ...amountColumns,
  'duration_ms',
  'details',
  'created_at',
] as const satisfies readonly (keyof RequestLogTable)[];

type ShownRow = Pick<Selectable<RequestLogTable>, (typeof shownColumns)[number]>;

export function logRowOf(row: ShownRow): LogRow {
  const { skills = [], note = null, error = null, job, user = null } = detailsOf(row);
  return {
    requestId: idText(row.request_id),
    keyId: row.key_id,
    jobId: job,
    endUser: user,
    requestedModel: row.requested_model,
    provider: row.provider,
    status: row.status,
    error,
    trafficMode: row.traffic_mode,
    ...amountsOf(row),
    skills,
    note,
    durationMs: row.duration_ms,
    createdAt: row.created_at,
  };
}
