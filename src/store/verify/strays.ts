import { sql } from 'kysely';
import { counted } from '../../core/counted.ts';
import type { Database } from '../database.ts';
import type { Report } from './verify.ts';

const accountsPerPage = 500;

/**
 * Rows whose account or tenant is missing: a check that goes from account to account never meets
 * them. The tables forbid them, but each client of SQLite has to turn that rule on itself.
 */
export async function checkStrays(database: Database, report: Report): Promise<void> {
  await checkEntries(database, report);
  for (const { account_id, credits } of await leasesWithoutAccount(database)) {
    report(`Account number ${account_id}: it is missing, but ${credits} of it are on lease.`);
  }
  for (const { owner, tenant_id } of await accountsWithoutTenant(database)) {
    report(`Account ${owner}: there is no tenant ${tenant_id}.`);
  }
}

async function checkEntries(database: Database, report: Report): Promise<void> {
  for (let lastId: number | undefined = Number.MIN_SAFE_INTEGER; lastId !== undefined; ) {
    const page = await accountsNamedAfter(database, lastId);
    const missing = page.filter(({ known }) => known === null).map(({ id }) => id);
    for (const { account_id, entries, credits } of await sumsOf(database, missing)) {
      const what = counted(entries, 'entry that adds', 'entries that add');
      report(`Account number ${account_id}: it is missing, but has ${what} up to ${credits}.`);
    }
    lastId = page.at(-1)?.id;
  }
}

async function sumsOf({ read }: Database, accounts: readonly number[]) {
  if (accounts.length === 0) return [];
  return read
    .selectFrom('ledger_entries')
    .select((of) => [
      'account_id',
      of.fn.countAll<number>().as('entries'),
      of.fn.sum<number>('amount').as('credits'),
    ])
    .where('account_id', 'in', accounts)
    .groupBy('account_id')
    .orderBy('account_id')
    .execute();
}

/**
 * The accounts that entries name, and whether they exist. Leaps from one account's entries to the
 * next account's: reading years of entries would take longer than a statement may.
 */
async function accountsNamedAfter({ read }: Database, lastId: number) {
  const { rows } = await sql<{ readonly id: number; readonly known: number | null }>`
    with recursive named (id) as (
      select min(account_id) from ledger_entries where account_id > ${lastId}
      union all
      select (select min(account_id) from ledger_entries where account_id > named.id)
        from named where named.id is not null
    )
    select id, (select accounts.id from accounts where accounts.id = named.id) as known
      from named where id is not null limit ${accountsPerPage}`.execute(read);
  return rows;
}

function leasesWithoutAccount({ read }: Database) {
  return read
    .selectFrom('leases')
    .leftJoin('accounts', 'accounts.id', 'account_id')
    .select((of) => ['account_id', of.fn.sum<number>('credits').as('credits')])
    .where('accounts.id', 'is', null)
    .groupBy('account_id')
    .orderBy('account_id')
    .execute();
}

function accountsWithoutTenant({ read }: Database) {
  return read
    .selectFrom('accounts')
    .leftJoin('tenants', 'tenants.id', 'tenant_id')
    .select(['owner', 'tenant_id'])
    .where('tenants.id', 'is', null)
    .orderBy('accounts.id')
    .execute();
}
