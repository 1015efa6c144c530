/** Ten processes start on the same empty store at the same time. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { join } from 'node:path';
import pg from 'pg';
import { migrations } from '../../src/store/migrations/migrate.ts';
import { type Gateway, type GatewayOptions, newFolder, startGateway } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const processes = 10;
const testMs = 180_000;

type Query = (sql: string) => Promise<readonly object[]>;

async function startTogether(options: GatewayOptions, query: Query): Promise<void> {
  const gateways = await Promise.all(
    Array.from({ length: processes }, () => startGateway(options)),
  );
  try {
    await expectOneFirstStart(gateways, query);
  } finally {
    await Promise.all(gateways.map((one) => one.stop()));
  }
}

async function expectOneFirstStart(gateways: readonly Gateway[], query: Query): Promise<void> {
  const allOk = Array(processes).fill(200);
  const statuses = async (path: string, key?: string) => {
    const answers = gateways.map((one) => one.call('GET', path, key ? { key } : {}));
    return (await Promise.all(answers)).map(({ status }) => status);
  };
  expect(await statuses('/readyz')).toEqual(allOk);
  const printed = gateways.filter((one) => one.output().includes('sk-'));
  expect(printed).toHaveLength(1);
  expect(await statuses('/v1/models', printed[0]?.keys.api)).toEqual(allOk);

  expect(await query('select cast(number as int) as number from migrations order by 1')).toEqual(
    migrations.map(({ number }) => ({ number })),
  );
  expect(await query('select id from tenants')).toEqual([{ id: 'default' }]);
  expect(await query('select kind from ledger_entries')).toEqual([{ kind: 'grant' }]);
  expect(await query('select kind from api_keys order by kind')).toEqual([
    { kind: 'management' },
    { kind: 'routing' },
  ]);
}

test(
  'ten processes start on an empty Postgres, and one creates the tenant and its keys',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const client = new pg.Client({ connectionString: DATABASE_URL });
    await client.connect();
    try {
      await startTogether({ env: { DATABASE_URL } }, async (sql) => {
        const { rows } = await client.query<object>(sql);
        return rows.map((row) => ({ ...row }));
      });
    } finally {
      await client.end();
    }
  },
  testMs,
);

test(
  'ten processes start on a new SQLite file, and one creates the tenant and its keys',
  async () => {
    const dataDir = join(newFolder(), 'data');
    await startTogether({ dataDir }, async (sql) => {
      using database = new Database(join(dataDir, 'tollgate.db'), { readonly: true });
      return database.query<object, []>(sql).all();
    });
  },
  testMs,
);
