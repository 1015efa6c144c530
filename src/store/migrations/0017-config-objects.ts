import type { Migration } from './migration.ts';

export const configObjects: Migration = {
  number: 17,
  name: 'configuration and audit log',
  statements: ({ id, integer, bytes, rowId, tableEnd }) => [
    `create table config_objects (
      kind ${id} not null,
      name ${id} not null,
      document text not null,
      sealed ${bytes},
      version ${integer} not null,
      created_at ${integer} not null,
      created_by text not null,
      updated_at ${integer} not null,
      updated_by text not null,
      primary key (kind, name)
    )${tableEnd}`,
    // The states are JSON without secrets.
    `create table audit_log (
      id ${rowId},
      created_at ${integer} not null,
      actor text not null,
      origin text not null,
      address text,
      request_id text,
      action text not null,
      tenant_id ${id},
      target text not null,
      state_before text,
      state_after text
    )${tableEnd}`,
    'create index audit_log_created on audit_log (created_at)',
  ],
};
