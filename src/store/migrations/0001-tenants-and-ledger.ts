import type { Migration, SqlTypes } from './migration.ts';

export const tenantsAndLedger: Migration = {
  number: 1,
  name: 'tenants, keys, and ledger',
  statements: (types) => [
    ...tenantsAndKeys(types),
    ...ledger(types),
    ...(types.engine === 'sqlite' ? appendOnlySqlite : appendOnlyPostgres),
  ],
};

function tenantsAndKeys({ id, integer, flag, bytes, tableEnd }: SqlTypes): string[] {
  return [
    `create table tenants (
      id ${id} primary key,
      name text not null,
      disabled ${flag} not null check (disabled in (0, 1)),
      requests_per_minute ${integer},
      concurrent_requests ${integer},
      created_at ${integer} not null,
      updated_at ${integer} not null
    )${tableEnd}`,
    'create index tenants_by_age on tenants (created_at, id)',
    `create table api_keys (
      id ${id} primary key,
      tenant_id ${id} not null references tenants (id),
      kind text not null check (kind in ('routing', 'management')),
      label text not null,
      name text not null,
      secret_hash ${bytes} unique check (length(secret_hash) = 32),
      previous_hash ${bytes} check (length(previous_hash) = 32),
      previous_until ${integer},
      disabled ${flag} not null check (disabled in (0, 1)),
      deleted_at ${integer},
      limit_credits ${integer} check (limit_credits >= 0),
      limit_reset text,
      models text,
      scopes text,
      requests_per_minute ${integer},
      cache_mode text,
      created_at ${integer} not null,
      updated_at ${integer} not null,
      expires_at ${integer},
      last_used_at ${integer},
      check ((deleted_at is null) = (secret_hash is not null))
    )${tableEnd}`,
    'create index api_keys_by_tenant on api_keys (tenant_id, created_at, id)',
    `create index api_keys_by_previous_hash on api_keys (previous_hash)
      where previous_hash is not null`,
    `create table settings (name ${id} primary key, value text not null)${tableEnd}`,
    `create table changes (
      id ${integer} primary key check (id = 1),
      version ${integer} not null
    )${tableEnd}`,
    'insert into changes (id, version) values (1, 0)',
  ];
}

function ledger({ id, rowId, integer, tableEnd }: SqlTypes): string[] {
  return [
    `create table accounts (
      id ${rowId},
      tenant_id ${id} not null references tenants (id),
      owner ${id} not null unique,
      balance ${integer} not null default 0
        check (balance between 0 and ${Number.MAX_SAFE_INTEGER}),
      leased ${integer} not null default 0,
      granted ${integer} not null default 0,
      spent ${integer} not null default 0,
      recalls ${integer} not null default 0,
      check (leased between 0 and balance),
      check (balance = granted - spent)
    )${tableEnd}`,
    'create index accounts_by_tenant on accounts (tenant_id)',
    `create table leases (
      account_id ${integer} not null references accounts (id),
      process_id ${id} not null,
      number ${integer} not null,
      credits ${integer} not null check (credits >= 0),
      until ${integer} not null,
      answered_recall ${integer} not null default 0,
      primary key (account_id, process_id)
    )${tableEnd}`,
    'create index leases_by_process on leases (process_id)',
    `create table ledger_entries (
      id ${rowId},
      account_id ${integer} not null references accounts (id),
      kind text not null,
      amount ${integer} not null,
      balance_after ${integer} not null check (balance_after >= 0),
      note text not null,
      idempotency_key text,
      created_at ${integer} not null,
      unique (account_id, idempotency_key)
    )${tableEnd}`,
    'create index ledger_entries_by_account on ledger_entries (account_id, id)',
    // Nearly all entries are charges. Without this index, finding a grant means reading all of
    // them.
    `create index ledger_entries_besides_charges on ledger_entries (account_id, id)
      where kind <> 'charge'`,
  ];
}

const refusal = 'ledger entries are append-only; book a correction instead';

const appendOnlySqlite = [
  `create trigger ledger_entries_no_update before update on ledger_entries
    begin select raise(abort, '${refusal}'); end`,
  `create trigger ledger_entries_no_delete before delete on ledger_entries
    begin select raise(abort, '${refusal}'); end`,
  // `insert or replace` deletes the old row without firing the delete trigger.
  `create trigger ledger_entries_no_replace before insert on ledger_entries
    when exists (
      select 1 from ledger_entries where id = new.id
      union all
      select 1 from ledger_entries
        where account_id = new.account_id and idempotency_key = new.idempotency_key
    )
    begin select raise(abort, '${refusal}'); end`,
];

const appendOnlyPostgres = [
  `create function refuse_ledger_change() returns trigger language plpgsql as $$
    begin raise exception '${refusal}' using errcode = 'restrict_violation'; end
  $$`,
  `create trigger ledger_entries_no_change before update or delete on ledger_entries
    for each row execute function refuse_ledger_change()`,
  `create trigger ledger_entries_no_truncate before truncate on ledger_entries
    for each statement execute function refuse_ledger_change()`,
];
