import type { Selectable } from 'kysely';
import type { LogRow } from '../record/log-reads.ts';
import { detailsOf, idText } from './request-log-rows.ts';
import type { RequestLogTable } from './schema.ts';

/** Only what is shown: an export of millions of rows pays for every column. */
export const shownColumns = [
  'id',
  'request_id',
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
  const { skills = [], note = null } = detailsOf(row);
  return {
    id: row.id,
    requestId: idText(row.request_id),
    requestedModel: row.requested_model,
    provider: row.provider,
    status: row.status,
    trafficMode: row.traffic_mode,
    ...amountsOf(row),
    skills,
    note,
    durationMs: row.duration_ms,
    createdAt: row.created_at,
  };
}

type Amounts = Pick<
  ShownRow,
  | 'input_tokens'
  | 'cache_read_tokens'
  | 'cache_write_tokens'
  | 'output_tokens'
  | 'reasoning_tokens'
  | 'model_charge'
  | 'byok_platform_fee'
  | 'managed_tool_fee'
  | 'agent_runtime_fee'
>;

/** What a request used and cost, as the rooms above count it. */
export function amountsOf(row: Amounts): Pick<LogRow, 'usage' | 'charges'> {
  return {
    usage: {
      inputTokens: row.input_tokens,
      cacheReadTokens: row.cache_read_tokens,
      cacheWriteTokens: row.cache_write_tokens,
      outputTokens: row.output_tokens,
      reasoningTokens: row.reasoning_tokens,
    },
    charges: {
      modelCharge: row.model_charge,
      byokPlatformFee: row.byok_platform_fee,
      managedToolFee: row.managed_tool_fee,
      agentRuntimeFee: row.agent_runtime_fee,
    },
  };
}
