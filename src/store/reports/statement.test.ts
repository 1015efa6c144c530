/** The months of a wallet are found among its own entries, however many others have. */
import { expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RootOperationNode, sql } from 'kysely';
import { addCustomer } from '../../../tests/contracts/bookings.ts';
import { startPostgres } from '../../../tests/support/postgres.ts';
import type { Period } from '../../records/period.ts';
import type { Database } from '../database.ts';
import { openStore } from '../open.ts';
import { SqlStatement } from './statement.ts';

const start = Date.UTC(2026, 0, 1);

/** Behind both grants: first 20,000 charges of the other wallet, then every fifth is ours. */
const fill = sql`
  insert into ledger_entries (account_id, kind, amount, balance_after, note, created_at)
  select case when n > 20000 and n % 5 = 0 then ours else others end, 'charge', -1, n, '',
    ${sql.lit(start)} + n
  from generate_series(1, 40000) as n,
    (select min(id) as ours, max(id) as others from accounts) as wallets order by n`;

/** A step of a plan that was carried out, with those below it. */
interface Step {
  readonly 'Relation Name'?: string;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Step[];
}

/** Entries that were read for nothing. */
function entriesPassed({ Plans = [], ...step }: Step): number {
  const isOfEntries = step['Relation Name'] === 'ledger_entries';
  const own = isOfEntries ? (step['Rows Removed by Filter'] ?? 0) : 0;
  return Plans.reduce((sum, below) => sum + entriesPassed(below), own);
}

/** The frame of a period, and what the engine says of its way there. */
async function framed<Row>(database: Database, tenantId: string, period: Period, how: string) {
  const asked: RootOperationNode[] = [];
  const read = database.read.withPlugin({
    transformQuery: ({ node }) => {
      asked.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  const frame = await new SqlStatement({ ...database, read }).frame(tenantId, period);
  const plans = asked.map(async (node) => {
    const query = database.read.getExecutor().compileQuery(node, { queryId: 'plan' });
    const plan = { ...query, sql: `${how} ${query.sql}` };
    return (await database.read.executeQuery<Row>(plan)).rows;
  });
  return { frame, plans: (await Promise.all(plans)).flat() };
}

test('Postgres reads no entry of another wallet', async () => {
  const store = await openStore(await (await startPostgres()).createDatabase());
  const { database } = store;
  const { tenantId } = await addCustomer(store, 1_000);
  await addCustomer(store);
  await fill.execute(database.write);
  await sql`analyze`.execute(database.write);
  const period = { from: start, until: start + 30_000 };
  const how = 'explain (analyze, format json)';
  const { frame, plans } = await framed<{ 'QUERY PLAN': [{ Plan: Step }] }>(
    database,
    tenantId,
    period,
    how,
  );
  // The grant is entry 1, and the last charge before entry 30,002 is the one of 29,995.
  expect(frame).toMatchObject({ opening: 1_000, afterEntry: 1, lastEntry: 29_997 });
  const passed = plans.map((row) => entriesPassed(row['QUERY PLAN'][0].Plan));
  expect(new Set(passed)).toEqual(new Set([0]));
  await database.close();
}, 120_000);

test('SQLite walks past no entry of the wallet itself', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-statement-'));
  const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  const { tenantId } = await addCustomer(store, 1_000);
  const period = { from: start, until: start + 30_000 };
  const how = 'explain query plan';
  const { frame, plans } = await framed<{ detail: string }>(store.database, tenantId, period, how);
  expect(frame).toMatchObject({ opening: 1_000, afterEntry: 1, lastEntry: 1 });
  const ways = plans.flatMap(({ detail }) => /ledger_entries_by_account (.+)/.exec(detail) ?? []);
  expect(ways).toContain('(account_id=? AND id>?)');
  expect(ways.join()).not.toContain('account_id>?');
  await store.database.close();
  rmSync(folder, { recursive: true });
});
