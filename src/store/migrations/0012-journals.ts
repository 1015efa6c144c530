import type { Migration } from './migration.ts';

export const journals: Migration = {
  number: 12,
  name: 'booked charges of each journal',
  statements: ({ id, integer, tableEnd }) => [
    `create table journals (
      process_id ${id} primary key,
      booked text not null,
      charges ${integer} not null
    )${tableEnd}`,
    // A new column of accounts would need a lock that processes of the previous version block.
    `create table journaled_charges (
      account_id ${integer} primary key,
      charges ${integer} not null
    )${tableEnd}`,
  ],
};
