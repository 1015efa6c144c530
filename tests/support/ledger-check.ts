/**
 * Checks the books by plain reads and sums that share no code with what wrote them. Returns a
 * sentence for each discrepancy.
 */
import type { Database } from '../../src/store/database.ts';

type Reader = Pick<Database, 'read'>;

export async function discrepancies({ read }: Reader): Promise<readonly string[]> {
  const look = async () => ({
    accounts: await read.selectFrom('accounts').selectAll().execute(),
    leases: await read.selectFrom('leases').selectAll().execute(),
    entries: await read.selectFrom('ledger_entries').selectAll().orderBy('id').execute(),
    rows: await read.selectFrom('request_log').selectAll().execute(),
    daily: await read.selectFrom('usage_daily').selectAll().execute(),
  });
  let books = await look();
  // An idle gateway still books ended requests and gives back unused leases. Tables read around
  // such a change do not fit together, so they are read until two readings agree.
  for (let before: unknown; !Bun.deepEquals(before, books); books = await look()) before = books;
  const { accounts, leases, entries, rows, daily } = books;
  const found: string[] = [];
  const expectSame = (what: string, one: unknown, other: unknown) => {
    if (one !== other) found.push(`${what}: ${one} is not ${other}`);
  };

  const entriesOf = Map.groupBy(entries, (entry) => entry.account_id);
  for (const { id, owner, balance, leased, granted, spent } of accounts) {
    const own = entriesOf.get(id) ?? [];
    expectSame(`${owner}: ledger and balance`, sum(own, 'amount'), balance);
    expectSame(`${owner}: granted − spent and balance`, granted - spent, balance);
    const taken = own.filter(({ kind }) => kind === 'charge');
    expectSame(`${owner}: charges and spent`, -sum(taken, 'amount'), spent);
    const onLease = leases.filter((lease) => lease.account_id === id);
    expectSame(`${owner}: leases and leased`, sum(onLease, 'credits'), leased);
    if (balance < 0) found.push(`${owner}: balance ${balance}`);
    if (leased < 0 || leased > balance) found.push(`${owner}: ${leased} of ${balance} leased`);
    let running = 0;
    for (const entry of own) {
      running += entry.amount;
      expectSame(`${owner}: balance after entry ${entry.id}`, entry.balance_after, running);
    }
  }

  const rowsOf = Map.groupBy(rows, (row) => row.entry_id);
  const wallets = new Set(accounts.filter(isWallet).map(({ id }) => id));
  for (const entry of entries) {
    if (entry.kind !== 'charge' || !wallets.has(entry.account_id)) continue;
    const billed = (rowsOf.get(entry.id) ?? []).map(chargeOf);
    expectSame(`entry ${entry.id} and its requests`, total(billed), -entry.amount);
  }
  for (const row of rows) {
    if (row.entry_id === null && chargeOf(row) > 0) found.push(`row ${row.id} has no entry`);
  }
  const ids = new Set(rows.map((row) => Buffer.from(row.request_id).toString('hex')));
  expectSame('requests and their ids', rows.length, ids.size);

  for (const column of ['requests', 'model_charge', 'written_off', 'completion_tokens'] as const) {
    const logged = {
      requests: () => rows.length,
      model_charge: () => sum(rows, 'model_charge'),
      written_off: () => sum(rows, 'written_off'),
      completion_tokens: () => sum(rows, 'output_tokens'),
    }[column]();
    expectSame(`daily ${column} and the log`, sum(daily, column), logged);
  }
  return found;
}

/** What each request was charged, by its id. */
export async function chargesById({ read }: Reader): Promise<ReadonlyMap<string, number>> {
  const rows = await read.selectFrom('request_log').selectAll().execute();
  return new Map(
    rows.map((row) => [
      Buffer.from(row.request_id)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
      chargeOf(row),
    ]),
  );
}

export async function balanceOf({ read }: Reader, owner: string): Promise<number> {
  const account = await read
    .selectFrom('accounts')
    .select('balance')
    .where('owner', '=', owner)
    .executeTakeFirstOrThrow();
  return account.balance;
}

interface Fees {
  readonly model_charge: number;
  readonly byok_platform_fee: number;
  readonly managed_tool_fee: number;
  readonly agent_runtime_fee: number;
}

function chargeOf(row: Fees): number {
  return row.model_charge + row.byok_platform_fee + row.managed_tool_fee + row.agent_runtime_fee;
}

function isWallet({ owner }: { readonly owner: string }): boolean {
  return owner.startsWith('tenant:');
}

function sum<Key extends string>(of: readonly Readonly<Record<Key, number>>[], key: Key): number {
  return total(of.map((row) => row[key]));
}

function total(of: readonly number[]): number {
  return of.reduce((before, one) => before + one, 0);
}
