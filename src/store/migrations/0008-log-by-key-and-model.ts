import type { Migration } from './migration.ts';

export const logByKeyAndModel: Migration = {
  number: 8,
  name: 'the log by key and by model',
  statements: () => [
    // Without these indexes, finding three requests of one key means scanning millions of others.
    'create index request_log_by_key on request_log (tenant_id, key_id, created_at, id)',
    'create index request_log_by_model on request_log (tenant_id, requested_model, created_at, id)',
  ],
};
