import type { Migration } from './migration.ts';

export const liveKeys: Migration = {
  number: 9,
  name: 'live keys',
  statements: () => [
    // First what needs the table for itself: processes of the version before would take a lock in
    // between, and each would wait for the other.
    'drop index if exists api_keys_by_tenant',
    // Deleted keys stay, because the log names them. Whoever makes a key for each session has
    // hundreds of thousands of them: counting the live ones must not walk over those.
    'create index api_keys_live on api_keys (tenant_id, created_at, id) where deleted_at is null',
  ],
};
