import { sql } from 'kysely';
import { pluralize } from '../../core/text.ts';
import { isWalletName, walletName } from '../../money/ledger.ts';
import { allTime } from '../../records/period.ts';
import { charged, type ReadOnlyDatabase } from '../database.ts';
import { logCompleteSince } from '../retention.ts';
import type { OnRows, Report } from './progress.ts';

const accountsPerPage = 500;
/**
 * Not more, because each entry can have a batch of requests, and one statement sums the requests of
 * a page.
 */
const entriesPerPage = 500;

/** An account with its leases and last entry, read at the same moment. */
type Account = Awaited<ReturnType<typeof accountsAfter>>[number];

/** Checks each account against its entries and leases, and wallet charges against requests. */
export async function checkAccounts(
  database: ReadOnlyDatabase,
  report: Report,
  onRows: OnRows,
): Promise<{ readonly accounts: number; readonly entries: number }> {
  let [accounts, entries, lastId] = [0, 0, 0];
  for (;;) {
    const page = await accountsAfter(database, lastId);
    const tenants = await tenantsOfKeys(database, page);
    for (const account of page) {
      checkRow(account, report);
      checkOwner(account, tenants, report);
      entries += await checkEntries(database, account, report, onRows);
    }
    accounts += page.length;
    const last = page.at(-1);
    if (!last) return { accounts, entries };
    lastId = last.id;
  }
}

function accountsAfter({ read }: ReadOnlyDatabase, lastId: number) {
  return read
    .selectFrom('accounts')
    .select(['id', 'owner', 'tenant_id', 'balance', 'leased', 'granted', 'spent'])
    .select([
      sql<number>`(
        select coalesce(sum(credits), 0) from leases where account_id = accounts.id
      )`.as('on_lease'),
      sql<number>`(
        select coalesce(max(id), 0) from ledger_entries where account_id = accounts.id
      )`.as('last_entry'),
    ])
    .where('id', '>', lastId)
    .orderBy('id')
    .limit(accountsPerPage)
    .execute();
}

function checkRow(account: Account, report: Report): void {
  const { owner, balance, leased, granted, spent } = account;
  const reportAccount = (problem: string) => report(`Account ${owner}: ${problem}.`);
  if (balance !== granted - spent) {
    reportAccount(
      `the balance is ${balance}, but ${granted} granted minus ${spent} spent is ${granted - spent}`,
    );
  }
  if (leased < 0 || leased > balance) reportAccount(`${leased} of ${balance} credits are on lease`);
  if (leased !== account.on_lease) {
    const onLease = pluralize(leased, 'credit is', 'credits are');
    reportAccount(`${onLease} on lease, but its leases add up to ${account.on_lease}`);
  }
}

function checkOwner(
  { owner, tenant_id }: Account,
  tenants: ReadonlyMap<string, string>,
  report: Report,
): void {
  if (owner === walletName(tenant_id) || tenants.get(keyIdOf(owner)) === tenant_id) return;
  report(
    `Account ${owner}: it is neither the wallet of tenant ${tenant_id} ` +
      'nor the limit of one of its keys.',
  );
}

async function tenantsOfKeys(
  { read }: ReadOnlyDatabase,
  page: readonly Account[],
): Promise<ReadonlyMap<string, string>> {
  const ids = page.map(({ owner }) => keyIdOf(owner)).filter((id) => id !== '');
  if (ids.length === 0) return new Map();
  const keys = await read
    .selectFrom('api_keys')
    .select(['id', 'tenant_id'])
    .where('id', 'in', ids)
    .execute();
  return new Map(keys.map((key) => [key.id, key.tenant_id]));
}

/** Reads the key ID from `key:<id>` or `key:<id>:<day>`. Returns '' for a wallet. */
function keyIdOf(owner: string): string {
  return /^key:([^:]+)/.exec(owner)?.[1] ?? '';
}

/**
 * Recomputes the balance from entry to entry, up to the last entry that existed when the account
 * was read.
 */
async function checkEntries(
  database: ReadOnlyDatabase,
  account: Account,
  report: Report,
  onRows: OnRows,
): Promise<number> {
  let [entries, lastId, balance, granted, spent] = [0, 0, 0, 0, 0];
  const reportAccount = (problem: string) => report(`Account ${account.owner}: ${problem}.`);
  for (;;) {
    const page = await entriesAfter(database, account, lastId);
    for (const entry of page) {
      if (entry.balance_after !== balance + entry.amount) {
        const change = entry.amount < 0 ? `- ${-entry.amount}` : `+ ${entry.amount}`;
        const sum = `${balance} ${change} = ${balance + entry.amount}`;
        reportAccount(`entry ${entry.id} records a balance of ${entry.balance_after}, but ${sum}`);
      }
      const problem = amountProblem(entry);
      if (problem) reportAccount(`entry ${entry.id} ${problem}`);
      balance = entry.balance_after;
      if (entry.kind === 'charge') spent -= entry.amount;
      else granted += entry.amount;
    }
    entries += page.length;
    onRows(page.length);
    const last = page.at(-1);
    if (!last) break;
    if (isWalletName(account.owner)) {
      await checkCharges(database, account, { after: lastId, last: last.id }, report);
    }
    lastId = last.id;
  }
  const sum = granted - spent;
  if (sum !== account.balance)
    reportAccount(`its entries add up to ${sum}, not ${account.balance}`);
  if (granted !== account.granted)
    reportAccount(`its grants add up to ${granted}, not ${account.granted}`);
  if (spent !== account.spent)
    reportAccount(`its charges add up to ${spent}, not ${account.spent}`);
  return entries;
}

interface EntryAmount {
  readonly kind: string;
  readonly amount: number;
}

/** Returns what is wrong with an entry's kind or with the sign of its amount. */
function amountProblem({ kind, amount }: EntryAmount): string | undefined {
  switch (kind) {
    case 'allowance':
      return undefined;
    case 'grant':
      return amount > 0 ? undefined : `is a grant, but its amount of ${amount} isn't positive`;
    case 'correction':
    case 'charge':
      return amount < 0 ? undefined : `is a ${kind}, but its amount of ${amount} isn't negative`;
    default:
      return `has the unknown kind ${kind}`;
  }
}

function entriesAfter({ read }: ReadOnlyDatabase, account: Account, lastId: number) {
  return read
    .selectFrom('ledger_entries')
    .select(['id', 'kind', 'amount', 'balance_after'])
    .where('account_id', '=', account.id)
    .where('id', '>', lastId)
    .where('id', '<=', account.last_entry)
    .orderBy('id')
    .limit(entriesPerPage)
    .execute();
}

/**
 * Skips entries that are older than the request log, because their requests have been deleted.
 * Reads the requests of a page by a list of numbers, because Postgres would scan the log for a
 * join.
 */
async function checkCharges(
  { engine, read }: ReadOnlyDatabase,
  account: Account,
  { after, last }: { readonly after: number; readonly last: number },
  report: Report,
): Promise<void> {
  const numbers = sql`select number from page`;
  const isOfPage = engine === 'sqlite' ? sql`in (${numbers})` : sql`= any (array(${numbers}))`;
  const { rows: wrong } = await sql<{ id: number; amount: number; charged: number }>`
    with page as (
      select entry.id, entry.amount, coalesce(booking.number, entry.id) as number,
        coalesce(booking.first_at, ${sql.lit(-allTime.until)}) as first_at,
        coalesce(booking.last_at, ${sql.lit(allTime.until)}) as last_at
      from ledger_entries entry left join bookings booking on booking.entry_id = entry.id
      where entry.account_id = ${account.id} and entry.id > ${after} and entry.id <= ${last}
        and entry.kind = 'charge' and entry.created_at >= ${logCompleteSince}
    ), log as (
      select entry_id, sum(${charged}) as charged from request_log
      where entry_id ${isOfPage}
        and created_at >= (select min(first_at) from page)
        and created_at <= (select max(last_at) from page)
      group by entry_id
    )
    select id, amount, coalesce(charged, 0) as charged
    from page left join log on log.entry_id = page.number
    where coalesce(charged, 0) <> -amount order by id`.execute(read);
  for (const entry of wrong) {
    const sums = `its requests add up to ${entry.charged}`;
    const problem = `entry ${entry.id} takes ${-entry.amount}, but ${sums}`;
    report(`Account ${account.owner}: ${problem}.`);
  }
}

const referencedAccountsPerPage = 500;

/**
 * Reports rows whose account or tenant is missing. Checks by account never read such rows. Foreign
 * keys forbid them, but each SQLite client has to enable foreign keys itself.
 */
export async function checkOrphans(database: ReadOnlyDatabase, report: Report): Promise<void> {
  await checkOrphanEntries(database, report);
  for (const { account_id, credits } of await leasesWithoutAccount(database)) {
    report(
      `Account number ${account_id}: it is missing, but ${credits} of its credits are leased.`,
    );
  }
  for (const { owner, tenant_id } of await accountsWithoutTenant(database)) {
    report(`Account ${owner}: there is no tenant ${tenant_id}.`);
  }
}

async function checkOrphanEntries(database: ReadOnlyDatabase, report: Report): Promise<void> {
  for (let lastId: number | undefined = Number.MIN_SAFE_INTEGER; lastId !== undefined; ) {
    const page = await referencedAccountsAfter(database, lastId);
    const missing = page.filter(({ known }) => known === null).map(({ id }) => id);
    for (const { account_id, entries, credits } of await sumsOf(database, missing)) {
      const orphans = pluralize(entries, 'entry that adds', 'entries that add');
      report(`Account number ${account_id}: it is missing, but has ${orphans} up to ${credits}.`);
    }
    lastId = page.at(-1)?.id;
  }
}

async function sumsOf({ read }: ReadOnlyDatabase, accounts: readonly number[]) {
  if (accounts.length === 0) return [];
  return read
    .selectFrom('ledger_entries')
    .select((eb) => [
      'account_id',
      eb.fn.countAll<number>().as('entries'),
      eb.fn.sum<number>('amount').as('credits'),
    ])
    .where('account_id', 'in', accounts)
    .groupBy('account_id')
    .orderBy('account_id')
    .execute();
}

/**
 * Returns the accounts that entries refer to, and whether they exist. Skips from one account's
 * entries to the next account's, because reading years of entries would exceed the time limit.
 */
async function referencedAccountsAfter({ read }: ReadOnlyDatabase, lastId: number) {
  const { rows } = await sql<{ readonly id: number; readonly known: number | null }>`
    with recursive named (id) as (
      select min(account_id) from ledger_entries where account_id > ${lastId}
      union all
      select (select min(account_id) from ledger_entries where account_id > named.id)
        from named where named.id is not null
    )
    select id, (select accounts.id from accounts where accounts.id = named.id) as known
      from named where id is not null limit ${referencedAccountsPerPage}`.execute(read);
  return rows;
}

function leasesWithoutAccount({ read }: ReadOnlyDatabase) {
  return read
    .selectFrom('leases')
    .leftJoin('accounts', 'accounts.id', 'account_id')
    .select((eb) => ['account_id', eb.fn.sum<number>('credits').as('credits')])
    .where('accounts.id', 'is', null)
    .groupBy('account_id')
    .orderBy('account_id')
    .execute();
}

function accountsWithoutTenant({ read }: ReadOnlyDatabase) {
  return read
    .selectFrom('accounts')
    .leftJoin('tenants', 'tenants.id', 'tenant_id')
    .select(['owner', 'tenant_id'])
    .where('tenants.id', 'is', null)
    .orderBy('accounts.id')
    .execute();
}
