/** Reads of the request log use an index for each filter, because it may have millions of rows. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { RootOperationNode } from 'kysely';
import { addCustomer, book, makeRecord } from '../../../tests/contracts/bookings.ts';
import { newFolder } from '../../../tests/support/gateway.ts';
import { noCharges } from '../../money/price/fee-kinds.ts';
import { allTime } from '../../records/period.ts';
import { openStore } from '../open.ts';
import { SqlLogReads } from './logs.ts';

const path = join(newFolder(), 'log.db');
const store = await openStore(`sqlite:${path}`);
afterAll(() => store.database.close());

/** Returns the indexes of the log that SQLite uses for a read. */
async function indexesOf(run: (logs: SqlLogReads) => Promise<unknown>): Promise<readonly string[]> {
  const { read } = store.database;
  const queries: RootOperationNode[] = [];
  const recording = read.withPlugin({
    transformQuery: ({ node }) => {
      queries.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  await run(new SqlLogReads({ ...store.database, read: recording }));
  using plans = new Database(path, { readonly: true });
  const steps = queries.flatMap((node) => {
    const { sql } = read.getExecutor().compileQuery(node, { queryId: 'plan' });
    return plans.query<{ detail: string }, []>(`explain query plan ${sql}`).all();
  });
  return [...new Set(steps.flatMap(({ detail }) => detail.match(/request_log_\w+/) ?? []))];
}

test.each([
  ['everything', {}, 'request_log_by_tenant'],
  ['failures', { status: 'error' }, 'request_log_failures'],
  ['one key', { keyId: true }, 'request_log_by_key'],
  ['one model', { model: 'acme/chat' }, 'request_log_by_model'],
] as const)('SqlLogReads uses an index to read %s', async (_name, change, index) => {
  const { tenantId, keyId } = await addCustomer(store);
  const fields = { tenantId, keyId, requestedModel: 'acme/chat' };
  await book(store, [makeRecord({ ...fields, status: 'error', charges: noCharges })]);
  const all = { ...allTime, tenantId, status: null, model: null, keyId: null };
  const filter = { ...all, ...change, keyId: 'keyId' in change ? keyId : null };
  expect(await indexesOf((logs) => logs.page(filter, 10, 0))).toEqual([index]);
});
