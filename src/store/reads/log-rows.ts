import type { Selectable } from 'kysely';
import type { LogRow } from '../../record/log-reads.ts';
import { amountsOf, detailsOf, idText } from '../books/request-log-rows.ts';
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
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'model_charge',
  'byok_platform_fee',
  'managed_tool_fee',
  'agent_runtime_fee',
  'duration_ms',
  'details',
  'created_at',
] as const satisfies readonly (keyof RequestLogTable)[];

export type ShownRow = Pick<Selectable<RequestLogTable>, (typeof shownColumns)[number]>;

export function logRowOf(row: ShownRow): LogRow {
  const { skills = [], note = null, error = null } = detailsOf(row);
  return {
    id: row.id,
    requestId: idText(row.request_id),
    keyId: row.key_id,
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
