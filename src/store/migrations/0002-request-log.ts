import type { Migration } from './migration.ts';

export const requestLog: Migration = {
  number: 2,
  name: 'request log and daily sums',
  statements: ({ id, rowId, integer, bytes, tableEnd }) => [
    // Integer keys in commit order and a 16-byte request id: half the cost of text keys per row.
    // Only what is searched or summed has a column; each costs every request 0.1 µs.
    `create table request_log (
      id ${rowId},
      request_id ${bytes} not null unique check (length(request_id) = 16),
      tenant_id ${id} not null,
      key_id ${id} not null,
      requested_model text not null,
      provider text,
      status text not null check (status in ('success', 'error')),
      traffic_mode text not null check (traffic_mode in ('shared', 'byok')),
      input_tokens ${integer} not null,
      cache_read_tokens ${integer} not null,
      cache_write_tokens ${integer} not null,
      output_tokens ${integer} not null,
      reasoning_tokens ${integer} not null,
      model_charge ${integer} not null check (model_charge >= 0),
      byok_platform_fee ${integer} not null check (byok_platform_fee >= 0),
      managed_tool_fee ${integer} not null check (managed_tool_fee >= 0),
      agent_runtime_fee ${integer} not null check (agent_runtime_fee >= 0),
      written_off ${integer} not null check (written_off >= 0),
      searches ${integer} not null,
      duration_ms ${integer} not null,
      details text not null,
      entry_id ${integer},
      created_at ${integer} not null
    )${tableEnd}`,
    'create index request_log_by_tenant on request_log (tenant_id, created_at, id)',
    // People look for failures, which are rare. Without this, finding one is a long scan.
    `create index request_log_failures on request_log (tenant_id, created_at, id)
      where status = 'error'`,
    // For statements, which list requests under their entry. It grows only at its end.
    'create index request_log_by_entry on request_log (entry_id) where entry_id is not null',
    // Analytics, statements, and key usage read these sums, so that they cost the same with a
    // thousand and with ten million requests. Days are counted since 1970 in UTC, by arrival.
    `create table usage_daily (
      tenant_id ${id} not null,
      day ${integer} not null,
      key_id ${id} not null,
      model text not null,
      provider text not null,
      traffic_mode text not null,
      requests ${integer} not null,
      failed_requests ${integer} not null,
      prompt_tokens ${integer} not null,
      completion_tokens ${integer} not null,
      model_charge ${integer} not null,
      byok_platform_fee ${integer} not null,
      managed_tool_fee ${integer} not null,
      agent_runtime_fee ${integer} not null,
      written_off ${integer} not null,
      searches ${integer} not null,
      duration_ms ${integer} not null,
      primary key (tenant_id, day, key_id, model, provider, traffic_mode)
    )${tableEnd}`,
    'create index usage_daily_by_key on usage_daily (key_id, day)',
  ],
};
