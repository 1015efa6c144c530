import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { sql } from 'kysely';
import { insertRows } from '../../src/store/database.ts';
import type { ApiKeysTable } from '../../src/store/schema.ts';
import { engines, makeTenant, openTwice, randomHash, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const columns = [
  'id',
  'tenant_id',
  'kind',
  'label',
  'name',
  'secret_hash',
  'disabled',
  'limit_credits',
  'created_at',
  'updated_at',
] as const;

describe.each([...engines])('insertRows on $name', ({ empty }) => {
  let stores: TwoStores;
  const tenant = makeTenant();

  beforeAll(async () => {
    stores = await openTwice(empty);
    await stores.one.directory.addTenant(tenant);
  }, 120_000);

  afterAll(() => stores.close());

  function row(id: string, change: Partial<Pick<ApiKeysTable, 'name' | 'limit_credits'>> = {}) {
    return {
      id,
      tenant_id: tenant.id,
      kind: 'routing' as const,
      label: 'label',
      name: 'name',
      secret_hash: randomHash(),
      disabled: 0 as const,
      limit_credits: null,
      created_at: 1,
      updated_at: 1,
      previous_hash: null,
      previous_until: null,
      deleted_at: null,
      limit_reset: null,
      models: null,
      scopes: null,
      requests_per_minute: null,
      cache_mode: null,
      expires_at: null,
      last_used_at: null,
      ...change,
    };
  }

  function insert(rows: readonly ReturnType<typeof row>[]): Promise<void> {
    const { write, engine } = stores.one.database;
    return write
      .transaction()
      .execute((change) => insertRows(change, engine, { table: 'api_keys', columns, rows }));
  }

  function stored(prefix: string) {
    return stores.other.database.read
      .selectFrom('api_keys')
      .select(columns)
      .where('id', 'like', `${prefix}%`)
      .orderBy('id')
      .execute();
  }

  test('inserts 1,000 rows unchanged', async () => {
    const rows = Array.from({ length: 1_000 }, (_, i) =>
      row(`a${String(i).padStart(4, '0')}`, { limit_credits: i === 0 ? 2 ** 53 - 1 : i }),
    );
    await insert(rows);
    const expected = rows.map((full) =>
      Object.fromEntries(columns.map((column) => [column, full[column]])),
    );
    expect<unknown>(await stored('a')).toEqual(expected);
  });

  test.each([
    ['quotes and braces', `'"{},[]\\\\n$1 ?`],
    ['an escaped byte', '\\x00ff'],
    ['line breaks and emoji', 'a\r\nb\u2028 👩‍🚀'],
  ])('inserts text with %s unchanged', async (_name, text) => {
    const id = `b${randomHash().toHex()}`;
    await insert([row(id, { name: text })]);
    expect((await stored(id))[0]?.name).toBe(text);
  });

  test('runs no statement for an empty list', async () => {
    await insert([]);
    expect(await stored('nothing')).toEqual([]);
  });

  test('rolls back all rows if one is invalid', async () => {
    const rows = [row('c1'), row('c2'), row('c1')];
    expect((await failureOf(insert(rows))).message).toMatch(/unique/i);
    expect(await stored('c')).toEqual([]);
    await sql`select 1`.execute(stores.one.database.write);
  });
});
