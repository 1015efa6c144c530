import type { Migration } from './migration.ts';

export const requestLog: Migration = {
  number: 2,
  name: 'request log and daily sums',
  statements: ({ id, rowId, integer, bytes, tableEnd }) => [
    // Integer keys in commit order and 16-byte request IDs halve the cost of a row, compared with
    // text keys. Only fields that are searched or summed have a column, because each column costs
    // every request 0.1 µs.
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
    // Failures are rare but often searched for. Without this index, finding one takes a long scan.
    `create index request_log_failures on request_log (tenant_id, created_at, id)
      where status = 'error'`,
    // For statements, which list requests under their entry. The index grows only at its end.
    'create index request_log_by_entry on request_log (entry_id) where entry_id is not null',
    // Analytics, statements, and key usage read these sums, so that they cost the same for a
    // thousand requests and for ten million. `day` is the UTC day on which a request arrived,
    // counted since 1970.
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
