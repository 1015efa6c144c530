import type { Migration } from './migration.ts';

export const idempotency: Migration = {
  number: 4,
  name: 'uses of idempotency keys',
  statements: ({ id, integer, flag, tableEnd }) => [
    `create table idempotency_claims (
      tenant_id ${id} not null references tenants (id),
      key ${id} not null,
      fingerprint text not null,
      request_id text not null,
      is_done ${flag} not null,
      recording text,
      expires_at ${integer} not null,
      primary key (tenant_id, key)
    )${tableEnd}`,
    'create index idempotency_claims_by_expiry on idempotency_claims (expires_at)',
  ],
};
