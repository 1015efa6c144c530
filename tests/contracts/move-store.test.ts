/** A store that is copied from SQLite to Postgres, table by table and to the last byte. */
import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { migrate, migrations } from '../../src/store/migrations/migrate.ts';
import { moveStore } from '../../src/store/move.ts';
import { openReadOnly, openStore } from '../../src/store/open.ts';
import { withMigrationConnection } from '../../src/store/postgres/postgres.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import { verifyLedger } from '../../src/store/verify/verify.ts';
import { askPostgres, startPostgres, tablesInPostgres } from '../support/postgres.ts';
import { failureOf } from './failure-of.ts';

const testMs = 120_000;
const now = Date.UTC(2026, 10, 15, 12);
const most = Number.MAX_SAFE_INTEGER;

const folder = mkdtempSync(join(tmpdir(), 'tollgate-move-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

type Row = Readonly<Record<string, string | number | Uint8Array | null>>;

/** A SQLite store with these rows, in this order; answers its file. */
async function storeWith(...rows: readonly (readonly [string, Row])[]): Promise<string> {
  const path = join(folder, `${++files}.db`);
  await (await openStore(`sqlite:${path}`)).database.close();
  using file = new Database(path);
  for (const [table, row] of rows) put(file, table, row);
  return path;
}

function put(file: Database, table: string, row: Row): void {
  const names = Object.keys(row);
  const marks = names.map(() => '?').join(', ');
  file.run(`insert into ${table} (${names.join(', ')}) values (${marks})`, Object.values(row));
}

async function emptyPostgres(): Promise<string> {
  return (await startPostgres()).createDatabase();
}

async function move(path: string, url: string, told: unknown[] = []) {
  const source = await openReadOnly(`sqlite:${path}`);
  if (!source) throw new Error(`There is nothing at ${path}.`);
  try {
    const onProgress = (...words: unknown[]) => void told.push(words);
    return await moveStore({ source, url, now, onProgress });
  } finally {
    await source.close();
  }
}

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);
/** What quoting, escaping or counting could spoil; the NUL in it is written as JSON writes it. */
const odd = ' \'"\\ \n\r\t\b \\x00 \\u0000 $1 ? , {"a":[null]} Ünïcode 漢字 🏴‍☠️ \u2028\u0001\uffff';

const times = { created_at: now, updated_at: now };
const tenant = ['tenants', { id: 'acme', name: odd, disabled: 1, ...times }] as const;
const account = (change: Row): readonly [string, Row] => [
  'accounts',
  { tenant_id: 'acme', owner: 'tenant:acme', balance: 100, granted: 100, ...change },
];
const grant = (change: Row): readonly [string, Row] => [
  'ledger_entries',
  {
    ...{ account_id: 1, kind: 'grant', amount: 100, balance_after: 100, note: '' },
    ...{ created_at: now, ...change },
  },
];
const webhook = (id: string, url: string): readonly [string, Row] => [
  'webhooks',
  {
    ...{ id, job_id: 'job', tenant_id: 'acme', url, event: '{}', attempts: 0 },
    ...{ due_at: now, created_at: now },
  },
];
const jobRow: readonly [string, Row] = [
  'jobs',
  {
    ...{ id: 'job', tenant_id: 'acme', key_id: 'key', model: odd, request: odd, input_key: odd },
    ...{ input_bytes: most, metadata: '{}', webhook_url: null, status: 'running', attempts: 1 },
    ...{ lease: odd, claimable_at: now, pieces_done: 0, pieces_total: null, cost: 0, units: 0 },
    created_at: now,
  },
];

/** At least one in every table that is moved. */
const rowsOfAll: readonly (readonly [string, Row])[] = [
  tenant,
  ['tenants', { id: 'ACME', name: '', disabled: 0, requests_per_minute: 0, ...times }],
  [
    'api_keys',
    {
      ...{ id: 'key', tenant_id: 'acme', kind: 'routing', label: odd, name: odd, disabled: 0 },
      ...{ secret_hash: everyByte.slice(0, 32), previous_hash: everyByte.slice(224), ...times },
      ...{ limit_credits: most, limit_reset: 'daily', models: '["a/*"]', scopes: '[]' },
    },
  ],
  account({ id: 7, balance: most, granted: most, leased: 30, recalls: 2 }),
  grant({ id: 41, account_id: 7, amount: most, balance_after: most, idempotency_key: odd }),
  ['leases', { account_id: 7, process_id: 'dead', number: 1, credits: 30, until: now - 1 }],
  [
    'request_log',
    {
      ...{ id: 99, request_id: everyByte.slice(0, 16), tenant_id: 'acme', key_id: 'key' },
      ...{ requested_model: odd, provider: null, status: 'error', traffic_mode: 'shared' },
      ...{ input_tokens: most, cache_read_tokens: 0, cache_write_tokens: 0, output_tokens: 0 },
      ...{ reasoning_tokens: 0, model_charge: 0, byok_platform_fee: 0, managed_tool_fee: 0 },
      ...{ agent_runtime_fee: 0, written_off: 0, searches: 0, duration_ms: 5, details: odd },
      ...{ entry_id: null, created_at: now },
    },
  ],
  [
    'usage_daily',
    {
      ...{ tenant_id: 'acme', day: 20_772, key_id: 'key', model: odd, provider: '' },
      ...{ traffic_mode: 'shared', requests: 1, failed_requests: 1, prompt_tokens: most },
      ...{ completion_tokens: 0, model_charge: 0, byok_platform_fee: 0, managed_tool_fee: 0 },
      ...{ agent_runtime_fee: 0, written_off: 0, searches: 0, duration_ms: 5 },
    },
  ],
  [
    'byok_credentials',
    {
      ...{ tenant_id: 'acme', provider: 'openai', ciphertext: everyByte, base_url: null },
      ...{ mode: 'byok_only', label: odd, ...times },
    },
  ],
  [
    'idempotency_claims',
    {
      ...{ tenant_id: 'acme', key: odd, fingerprint: odd, request_id: odd, is_done: 1 },
      ...{ recording: JSON.stringify({ text: `\0${odd}` }), expires_at: now },
    },
  ],
  ['idempotency_bytes', { tenant_id: 'acme', hour: 1, bytes: most }],
  ['skills', { tenant_id: 'acme', name: odd, description: '', instructions: odd, ...times }],
  ['settings', { name: 'deployment', value: 'of the file' }],
  ['settings', { name: 'secret_key_fingerprint', value: odd }],
  jobRow,
  ['job_turns', { tenant_id: 'acme', served_at: now }],
  [
    'job_pieces',
    { job_id: 'job', number: 0, object_key: odd, cost: 1, units: most, provider: odd },
  ],
  ['job_objects', { key: odd, job_id: 'job', delete_at: null }],
  webhook('hook', 'https://example.com'),
];

test(
  'every row of every table arrives as it was, and the numbering goes on behind the last',
  async () => {
    const path = await storeWith(...rowsOfAll);
    const url = await emptyPostgres();
    const counts = await move(path, url);
    using file = new Database(path, { readonly: true });
    const tables = file
      .query<{ name: string }, []>("select name from sqlite_schema where type = 'table'")
      .all()
      .map(({ name }) => name);
    const left = ['leases', 'changes', 'migrations'];
    expect([...counts.keys()].toSorted()).toEqual(
      tables.filter((name) => !left.includes(name)).toSorted(),
    );
    const { database } = await openStore(url);
    try {
      for (const table of counts.keys()) {
        const kept = file
          .query<Row, []>(`select * from ${table} order by rowid`)
          .all()
          .filter(({ name }) => name !== 'deployment')
          .map((row) => ('leased' in row ? { ...row, leased: 0 } : row));
        const moved = await database.read
          .selectFrom(table as 'tenants')
          .selectAll()
          .execute();
        expect(kept.length, table).toBeGreaterThan(0);
        expect(moved.map(plain), table).toEqual(kept.map(plain));
      }
      expect(await database.read.selectFrom('leases').selectAll().execute()).toEqual([]);
      const report: string[] = [];
      expect(await verifyLedger(database, (line) => report.push(line))).toMatchObject({
        ...{ accounts: 1, entries: 1, requests: 1 },
      });
      expect(report).toEqual([]);
    } finally {
      await database.close();
    }
    const next = (table: string) => `nextval(pg_get_serial_sequence('${table}', 'id'))::int`;
    const numbers = ['accounts', 'ledger_entries', 'request_log'].map(next).join(', ');
    expect(await askPostgres(url, `select array[${numbers}] as next`)).toEqual([
      { next: [8, 42, 100] },
    ]);
  },
  testMs,
);

/** Both engines hand out bytes in classes of their own. */
function plain(row: object): object {
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
  ]);
  return Object.fromEntries(entries);
}

describe('what cannot be moved is refused, and leaves no table behind', () => {
  test.each([
    [
      'a NUL character',
      [tenant, jobRow, webhook('a', 'b'), webhook('hook', 'https://\0')],
      "The table webhooks can't be moved: url of the row with rowid 2 has a NUL character, " +
        "which Postgres can't store.",
    ],
    [
      'a number that cannot be read exactly',
      [tenant, ['job_turns', { tenant_id: 'acme', served_at: most + 1 }]],
      "The table job_turns can't be moved: A stored number is too large to be read exactly.",
    ],
    [
      'a lease that may be in use',
      [
        tenant,
        account({ id: 1, leased: 1 }),
        ['leases', { account_id: 1, process_id: 'p', number: 1, credits: 1, until: now }],
      ],
      'A gateway holds a lease on credits of this store. Stop it; after a crash, wait 2 minutes.',
    ],
  ] as const)('%s', async (_, rows, message) => {
    const url = await emptyPostgres();
    const path = await storeWith(...rows);
    expect(await failureOf(move(path, url))).toMatchObject({
      message: `${message} Nothing was moved.`,
    });
    expect(await tablesInPostgres(url)).toEqual([]);
  });

  test('tables that are not up to date', async () => {
    const path = join(folder, 'older.db');
    const older = await openSqlite(path);
    await migrate(older.write, 'sqlite', migrations.slice(0, -1));
    await older.close();
    const url = await emptyPostgres();
    expect(await failureOf(move(path, url))).toMatchObject({
      message:
        'The store has tables of an older version. Start a gateway on it once to migrate it. ' +
        'Nothing was moved.',
    });
    expect(await tablesInPostgres(url)).toEqual([]);
  });
});

test('a database of an older version is refused, and not brought up to date by that', async () => {
  const url = await emptyPostgres();
  const early = migrations.slice(0, 5);
  await withMigrationConnection(url, (db) => migrate(db, 'postgres', early));
  expect(await failureOf(move(await storeWith(tenant), url))).toMatchObject({
    message: expect.stringMatching(
      /^The target database isn't empty: its table migrations has rows\./,
    ),
  });
  expect(await askPostgres(url, 'select max(number)::int from migrations')).toEqual([{ max: 5 }]);
});

describe('in the middle of the copy', () => {
  /** Everything before `webhooks` is copied when the other client lets `then` happen. */
  async function interrupted(path: string, then: (other: pg.Client) => Promise<unknown>) {
    const url = await emptyPostgres();
    await (await openStore(url)).database.close();
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    try {
      await other.query('begin; lock table webhooks in share mode');
      const moving = failureOf(move(path, url));
      while ((await other.query(waiting)).rowCount === 0) await Bun.sleep(10);
      await then(other);
      await other.query('rollback');
      const failure = await moving;
      const counts = await other.query(
        'select (select count(*)::int from tenants) as tenants, ' +
          '(select count(*)::int from settings) as settings',
      );
      return { failure, counts: counts.rows };
    } finally {
      await other.end();
    }
  }
  const waiting = `select pid from pg_locks where relation = 'webhooks'::regclass and not granted`;
  const none = [{ tenants: 0, settings: 0 }];
  const rows = [tenant, ['settings', { name: 'a', value: 'b' }], webhook('hook', 'url')] as const;

  test('a lost connection leaves the new database empty', async () => {
    const path = await storeWith(...rows);
    const cut = `select pg_terminate_backend(pid) from (${waiting}) as it`;
    const { failure, counts } = await interrupted(path, (other) => other.query(cut));
    expect(failure).toMatchObject({
      message: expect.stringMatching(/^Postgres at \S+ couldn't import the store: Connection term/),
    });
    expect(counts).toEqual(none);
  });

  test('a change of the source is noticed', async () => {
    const path = await storeWith(...rows);
    const { failure, counts } = await interrupted(path, async () => {
      using file = new Database(path);
      put(file, 'job_turns', { tenant_id: 'acme', served_at: now });
    });
    expect(failure).toMatchObject({
      message:
        'The store changed during the copy. Stop everything that uses it. Nothing was moved.',
    });
    expect(counts).toEqual(none);
  });
});

test(
  'many rows and long ones go in pages, and long tables tell how far they are',
  async () => {
    const path = await storeWith(tenant);
    {
      using file = new Database(path);
      const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n
        where i < ?)`;
      file.run(`insert into job_turns ${numbers} select 'ten_' || i, i from n`, [100_001]);
      file.run(
        `insert into idempotency_claims ${numbers}
          select 'acme', i, '', '', 1, replace(hex(zeroblob(500000 * i)), '0', 'é'), i from n`,
        [6],
      );
    }
    const url = await emptyPostgres();
    const told: unknown[] = [];
    const counts = await move(path, url, told);
    expect([counts.get('job_turns'), counts.get('idempotency_claims')]).toEqual([100_001, 6]);
    expect(told).toEqual([['job_turns', 100_000, 100_001]]);
    const sums = `select (select count(*)::int from job_turns) as turns,
      (select sum(served_at)::bigint from job_turns) as served,
      (select array_agg(length(recording) order by key) from idempotency_claims) as lengths`;
    expect(await askPostgres(url, sums)).toEqual([
      {
        turns: 100_001,
        served: '5000150001',
        lengths: [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000],
      },
    ]);
  },
  testMs,
);
