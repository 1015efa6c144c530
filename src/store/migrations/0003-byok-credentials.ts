import type { Migration } from './migration.ts';

export const byokCredentials: Migration = {
  number: 3,
  name: 'credentials of tenants at providers',
  statements: ({ id, integer, bytes, tableEnd }) => [
    `create table byok_credentials (
      tenant_id ${id} not null references tenants (id),
      provider ${id} not null,
      ciphertext ${bytes} not null,
      base_url text,
      mode text not null check (mode in ('byok_first', 'byok_only')),
      label text not null,
      created_at ${integer} not null,
      updated_at ${integer} not null,
      primary key (tenant_id, provider)
    )${tableEnd}`,
  ],
};
