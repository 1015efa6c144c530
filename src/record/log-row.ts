import { promptTokens, totalTokens } from '../core/usage.ts';
import { type Cell, csvTable } from './csv.ts';
import type { LogRow } from './log-reads.ts';
import { isoTime } from './period.ts';
import { feesOf, totalCharge } from './request-record.ts';

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
