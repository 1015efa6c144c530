/** Checks the ledger with plain reads and sums that share no code with the gateway. */
import type { Database } from '../../src/store/database.ts';

type Reader = Pick<Database, 'read'>;

/** Returns a sentence for each sum that doesn't add up. */
export async function discrepancies({ read }: Reader): Promise<readonly string[]> {
  const readAll = async () => ({
    accounts: await read.selectFrom('accounts').selectAll().execute(),
    leases: await read.selectFrom('leases').selectAll().execute(),
    entries: await read.selectFrom('ledger_entries').selectAll().orderBy('id').execute(),
    bookings: await read.selectFrom('bookings').selectAll().execute(),
    rows: await read.selectFrom('request_log').selectAll().execute(),
    daily: await read.selectFrom('usage_daily').selectAll().execute(),
  });
  let tables = await readAll();
  // An idle gateway still books ended requests and returns unused leases. Tables that are read
  // during such a change don't match, so read them until two reads in a row are equal.
  for (let before: unknown; !Bun.deepEquals(before, tables); tables = await readAll())
    before = tables;
  const { accounts, leases, entries, bookings, rows, daily } = tables;
  const found: string[] = [];
  const expectSame = (label: string, actual: unknown, expected: unknown) => {
    if (actual !== expected) found.push(`${label}: ${actual} is not ${expected}`);
  };

  const entriesOf = Map.groupBy(entries, (entry) => entry.account_id);
  for (const { id, owner, balance, leased, granted, spent } of accounts) {
    const own = entriesOf.get(id) ?? [];
    expectSame(`${owner}: ledger and balance`, sum(own, 'amount'), balance);
    expectSame(`${owner}: granted − spent and balance`, granted - spent, balance);
    const charged = own.filter(({ kind }) => kind === 'charge');
    expectSame(`${owner}: charges and spent`, -sum(charged, 'amount'), spent);
    const ownLeases = leases.filter((lease) => lease.account_id === id);
    expectSame(`${owner}: leases and leased`, sum(ownLeases, 'credits'), leased);
    if (balance < 0) found.push(`${owner}: balance ${balance}`);
    if (leased < 0 || leased > balance) found.push(`${owner}: ${leased} of ${balance} leased`);
    let running = 0;
    for (const entry of own) {
      running += entry.amount;
      expectSame(`${owner}: balance after entry ${entry.id}`, entry.balance_after, running);
    }
  }

  const entryOf = new Map(bookings.map(({ number, entry_id }) => [number, entry_id]));
  const rowsOf = Map.groupBy(rows, ({ entry_id }) => entryOf.get(entry_id ?? 0) ?? entry_id);
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
  expectSame('requests and their IDs', rows.length, ids.size);

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

/** Returns each request's charge by its ID. */
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

function sum<Key extends string>(rows: readonly Readonly<Record<Key, number>>[], key: Key): number {
  return total(rows.map((row) => row[key]));
}

function total(amounts: readonly number[]): number {
  return amounts.reduce((subtotal, amount) => subtotal + amount, 0);
}
