import type { Migration } from './migration.ts';

export const keysDisabledByOperator: Migration = {
  number: 14,
  name: 'keys that the operator disabled',
  statements: ({ flag }) => [
    // Processes of the previous version still add keys, and don't record who disables one.
    `alter table api_keys add column disabled_by_operator ${flag} not null default 0
      check (disabled_by_operator in (0, 1))`,
  ],
};
