/** A tenant's live keys are found by an index, never by walking past those that were deleted. */
import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { RootOperationNode } from 'kysely';
import { newFolder } from '../../../tests/support/gateway.ts';
import { openStore } from '../open.ts';
import { SqlDirectory } from './directory.ts';

const path = join(newFolder(), 'keys.db');
const store = await openStore(`sqlite:${path}`);
afterAll(() => store.database.close());

const page = { limit: 10, offset: 0, includeDisabled: false };

test.each([
  ['counted', (directory: SqlDirectory) => directory.countKeys('acme')],
  ['listed', (directory: SqlDirectory) => directory.listKeys('acme', page)],
])('when they are %s', async (_name, ask) => {
  const asked: RootOperationNode[] = [];
  const read = store.database.read.withPlugin({
    transformQuery: ({ node }) => {
      asked.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  await ask(new SqlDirectory({ ...store.database, read, report: read }));
  using plans = new Database(path, { readonly: true });
  const steps = asked.flatMap((node) => {
    const { sql } = read.getExecutor().compileQuery(node, { queryId: 'plan' });
    return plans.query<{ detail: string }, []>(`explain query plan ${sql}`).all();
  });
  const plan = steps.map(({ detail }) => detail).join('\n');
  expect(plan).toBe('SEARCH api_keys USING INDEX api_keys_live (tenant_id=?)');
});
