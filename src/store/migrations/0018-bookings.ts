import type { Migration } from './migration.ts';

export const bookings: Migration = {
  number: 18,
  name: 'log rows written before their entries',
  statements: ({ integer, tableEnd }) => [
    // On Postgres, a batch writes its log rows before it locks the account, under a negative
    // number. The entry gets its ID under the lock, because IDs grow in commit order. A new column
    // of ledger_entries would need a lock that processes of the previous version block.
    `create table bookings (
      number ${integer} primary key,
      entry_id ${integer} not null unique,
      first_at ${integer} not null,
      last_at ${integer} not null
    )${tableEnd}`,
  ],
};
