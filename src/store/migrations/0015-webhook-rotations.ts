import type { Migration } from './migration.ts';

export const webhookRotations: Migration = {
  number: 15,
  name: 'rotations of webhook secrets',
  statements: ({ integer }) => [
    // The secrets are derived from the number, so existing tenants keep theirs.
    `alter table tenants add column webhook_rotations ${integer} not null default 0`,
    `alter table tenants add column previous_webhook_secret_until ${integer}`,
  ],
};
