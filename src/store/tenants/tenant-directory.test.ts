/** A tenant's live keys are found through an index, without scanning deleted ones. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { RootOperationNode } from 'kysely';
import { newFolder } from '../../../tests/support/gateway.ts';
import { openStore } from '../open.ts';
import { SqlTenantDirectory } from './tenant-directory.ts';

const path = join(newFolder(), 'keys.db');
const store = await openStore(`sqlite:${path}`);
afterAll(() => store.database.close());

const page = { limit: 10, offset: 0, includeDisabled: false };

test.each([
  ['countKeys', (directory: SqlTenantDirectory) => directory.countKeys('acme')],
  ['listKeys', (directory: SqlTenantDirectory) => directory.listKeys('acme', page)],
])('SqlTenantDirectory.%s uses the index of live keys', async (_name, run) => {
  const queries: RootOperationNode[] = [];
  const read = store.database.read.withPlugin({
    transformQuery: ({ node }) => {
      queries.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  await run(new SqlTenantDirectory({ ...store.database, read, report: read }));
  using plans = new Database(path, { readonly: true });
  const steps = queries.flatMap((node) => {
    const { sql } = read.getExecutor().compileQuery(node, { queryId: 'plan' });
    return plans.query<{ detail: string }, []>(`explain query plan ${sql}`).all();
  });
  const plan = steps.map(({ detail }) => detail).join('\n');
  expect(plan).toBe('SEARCH api_keys USING INDEX api_keys_live (tenant_id=?)');
});
