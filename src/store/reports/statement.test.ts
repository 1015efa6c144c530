/** Statements find the entries of a period without reading those of other wallets. */
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

/**
 * Adds charges after both grants: 20,000 of the other wallet, then 20,000 of which every fifth is
 * ours.
 */
const fill = sql`
  insert into ledger_entries (account_id, kind, amount, balance_after, note, created_at)
  select case when n > 20000 and n % 5 = 0 then ours else others end, 'charge', -1, n, '',
    ${sql.lit(start)} + n
  from generate_series(1, 40000) as n,
    (select min(id) as ours, max(id) as others from accounts) as wallets order by n`;

/** A step of an executed query plan, with its substeps. */
interface Step {
  readonly 'Relation Name'?: string;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Step[];
}

/** Counts entries that were read and then filtered out. */
function entriesPassed({ Plans = [], ...step }: Step): number {
  const isOfEntries = step['Relation Name'] === 'ledger_entries';
  const own = isOfEntries ? (step['Rows Removed by Filter'] ?? 0) : 0;
  return Plans.reduce((sum, below) => sum + entriesPassed(below), own);
}

/** Returns the range of a period and the query plans with which it was found. */
async function rangeWithPlans<Row>(
  database: Database,
  tenantId: string,
  period: Period,
  how: string,
) {
  const queries: RootOperationNode[] = [];
  const read = database.read.withPlugin({
    transformQuery: ({ node }) => {
      queries.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  const range = await new SqlStatement({ ...database, read }).range(tenantId, period);
  const plans = queries.map(async (node) => {
    const query = database.read.getExecutor().compileQuery(node, { queryId: 'plan' });
    const plan = { ...query, sql: `${how} ${query.sql}` };
    return (await database.read.executeQuery<Row>(plan)).rows;
  });
  return { range, plans: (await Promise.all(plans)).flat() };
}

test('SqlStatement.range on Postgres reads no entries of other wallets', async () => {
  const store = await openStore(await (await startPostgres()).createDatabase());
  const { database } = store;
  const { tenantId } = await addCustomer(store, 1_000);
  await addCustomer(store);
  await fill.execute(database.write);
  await sql`analyze`.execute(database.write);
  const period = { from: start, until: start + 30_000 };
  const how = 'explain (analyze, format json)';
  const { range, plans } = await rangeWithPlans<{ 'QUERY PLAN': [{ Plan: Step }] }>(
    database,
    tenantId,
    period,
    how,
  );
  // The grant is entry 1. Our last charge in the period is number 29,995, which is entry 29,997.
  expect(range).toMatchObject({ opening: 1_000, afterEntry: 1, lastEntry: 29_997 });
  const passed = plans.map((row) => entriesPassed(row['QUERY PLAN'][0].Plan));
  expect(new Set(passed)).toEqual(new Set([0]));
  await database.close();
}, 120_000);

test('SqlStatement.range on SQLite seeks instead of scanning the wallet', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-statement-'));
  const store = await openStore(`sqlite:${join(folder, 'tollgate.db')}`);
  const { tenantId } = await addCustomer(store, 1_000);
  const period = { from: start, until: start + 30_000 };
  const how = 'explain query plan';
  const { range, plans } = await rangeWithPlans<{ detail: string }>(
    store.database,
    tenantId,
    period,
    how,
  );
  expect(range).toMatchObject({ opening: 1_000, afterEntry: 1, lastEntry: 1 });
  const ways = plans.flatMap(({ detail }) => /ledger_entries_by_account (.+)/.exec(detail) ?? []);
  expect(ways).toContain('(account_id=? AND id>?)');
  expect(ways.join()).not.toContain('account_id>?');
  await store.database.close();
  rmSync(folder, { recursive: true });
});
