import type { Migration } from './migration.ts';

export const liveKeys: Migration = {
  number: 9,
  name: 'live keys',
  statements: () => [
    // The drop comes first because it needs an exclusive lock. Processes of the previous version
    // would take a lock in between and deadlock with this one.
    'drop index if exists api_keys_by_tenant',
    // Deleted keys are kept, because the log refers to them. A tenant that creates a key per
    // session has hundreds of thousands, which counting the live ones must not scan.
    'create index api_keys_live on api_keys (tenant_id, created_at, id) where deleted_at is null',
  ],
};
