import type { Migration } from './migration.ts';

const dayMs = 86_400_000;

export const hourlyUsage: Migration = {
  number: 10,
  name: 'hourly sums',
  statements: ({ id, integer, tableEnd }) => [
    // Charts of one day read these sums, so that they cost the same for a thousand requests and for
    // ten million. `hour` is the UTC hour in which a request arrived, counted since 1970.
    `create table usage_hourly (
      tenant_id ${id} not null,
      hour ${integer} not null,
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
      primary key (tenant_id, hour, key_id, model, provider, traffic_mode)
    )${tableEnd}`,
    // Fill in only the last week, through the index by tenant and time, because reading a large log
    // would delay the first startup for minutes. Older days keep their daily sums.
    `insert into usage_hourly
      select log.tenant_id, log.created_at / 3600000, log.key_id, log.requested_model,
        coalesce(log.provider, ''), log.traffic_mode, count(*),
        sum(case when log.status = 'error' then 1 else 0 end),
        sum(log.input_tokens + log.cache_read_tokens + log.cache_write_tokens),
        sum(log.output_tokens), sum(log.model_charge), sum(log.byok_platform_fee),
        sum(log.managed_tool_fee), sum(log.agent_runtime_fee), sum(log.written_off),
        sum(log.searches), sum(log.duration_ms)
      from tenants
      join request_log log on log.tenant_id = tenants.id
        and log.created_at >= ${(Math.floor(Date.now() / dayMs) - 6) * dayMs}
      group by 1, 2, 3, 4, 5, 6`,
  ],
};
