import type { Migration } from './migration.ts';

export const liveKeys: Migration = {
  number: 9,
  name: 'live keys',
  statements: () => [
    // Drop the old index first, because that needs an exclusive lock. Otherwise, a process of the
    // previous version could take a lock in between and deadlock with this one.
    'drop index if exists api_keys_by_tenant',
    // Deleted keys are kept, because the log refers to them. A tenant that creates a key per
    // session has hundreds of thousands of them, and counting the live keys must not scan those.
    'create index api_keys_live on api_keys (tenant_id, created_at, id) where deleted_at is null',
  ],
};
