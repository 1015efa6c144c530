import type { Migration } from './migration.ts';

export const runningRequests: Migration = {
  number: 16,
  name: 'running requests of each process',
  statements: ({ id, integer, tableEnd }) => [
    `create table running_requests (
      process_id ${id} primary key,
      requests text not null,
      reported_at ${integer} not null
    )${tableEnd}`,
  ],
};
