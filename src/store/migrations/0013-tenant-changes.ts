import type { Migration } from './migration.ts';

export const tenantChanges: Migration = {
  number: 13,
  name: 'tenant of each change of the directory',
  statements: ({ id, integer, tableEnd }) => [
    // Without a tenant, a change concerns all of them. Processes of the previous version write no
    // rows, so a version without a row concerns all tenants, too.
    `create table tenant_changes (version ${integer} primary key, tenant_id ${id})${tableEnd}`,
    'create index api_keys_deleted on api_keys (deleted_at) where deleted_at is not null',
  ],
};
