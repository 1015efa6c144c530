import { counted } from '../../core/counted.ts';
import type { Database } from '../database.ts';
import type { Report } from './verify.ts';

/**
 * Rows whose account or tenant is missing: a check that goes from account to account never meets
 * them. The tables forbid them, but each client of SQLite has to turn that rule on itself.
 */
export async function checkStrays(database: Database, report: Report): Promise<void> {
  for (const { account_id, entries, credits } of await entriesWithoutAccount(database)) {
    const what = counted(entries, 'entry that adds', 'entries that add');
    report(`Account number ${account_id}: it is missing, but has ${what} up to ${credits}.`);
  }
  for (const { account_id, credits } of await leasesWithoutAccount(database)) {
    report(`Account number ${account_id}: it is missing, but ${credits} of it are on lease.`);
  }
  for (const { owner, tenant_id } of await accountsWithoutTenant(database)) {
    report(`Account ${owner}: there is no tenant ${tenant_id}.`);
  }
}

function entriesWithoutAccount({ read }: Database) {
  return read
    .selectFrom('ledger_entries')
    .leftJoin('accounts', 'accounts.id', 'account_id')
    .select((of) => [
      'account_id',
      of.fn.countAll<number>().as('entries'),
      of.fn.sum<number>('amount').as('credits'),
    ])
    .where('accounts.id', 'is', null)
    .groupBy('account_id')
    .orderBy('account_id')
    .execute();
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
