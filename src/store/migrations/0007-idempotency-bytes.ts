import type { Migration } from './migration.ts';

export const idempotencyBytes: Migration = {
  number: 7,
  name: 'bytes of stored idempotent answers',
  statements: ({ id, integer, tableEnd }) => [
    // One sum for each hour in which answers expire, so that answers never have to be counted. A
    // sum is deleted when its hour is over, and is never lowered. `hour` counts hours since
    // the Unix epoch.
    `create table idempotency_bytes (
      tenant_id ${id} not null references tenants (id),
      hour ${integer} not null,
      bytes ${integer} not null,
      primary key (tenant_id, hour)
    )${tableEnd}`,
    `insert into idempotency_bytes (tenant_id, hour, bytes)
      select tenant_id, expires_at / 3600000, sum(coalesce(octet_length(recording), 0) + 500)
      from idempotency_claims where is_done = 1
      group by tenant_id, expires_at / 3600000`,
  ],
};
