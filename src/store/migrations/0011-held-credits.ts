import type { Migration } from './migration.ts';

export const heldCredits: Migration = {
  number: 11,
  name: 'held credits of each lease',
  statements: ({ integer }) => [
    // Processes of the previous version don't report what their requests hold.
    `alter table leases add column held ${integer} not null default 0 check (held >= 0)`,
  ],
};
