/** Moves a store from SQLite to Postgres and compares every byte. */
import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, test } from 'bun:test';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { copyStore } from '../../src/store/copy-store.ts';
import { migrate, migrations } from '../../src/store/migrations/migrate.ts';
import { openReadOnly, openStore } from '../../src/store/open.ts';
import { withMigrationConnection } from '../../src/store/postgres/postgres.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import { verifyLedger } from '../../src/store/verify/verify.ts';
import { queryPostgres, startPostgres, tablesInPostgres } from '../support/postgres.ts';
import { waitUntil } from '../support/wait-until.ts';
import { failureOf } from './failure-of.ts';

const testMs = 120_000;
const now = Date.UTC(2026, 10, 15, 12);
const largest = Number.MAX_SAFE_INTEGER;

const folder = mkdtempSync(join(tmpdir(), 'tollgate-copy-'));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

type Row = Readonly<Record<string, string | number | Uint8Array | null>>;

/** Creates a SQLite store with these rows, in this order. Returns the path of its file. */
async function storeWith(...rows: readonly (readonly [string, Row])[]): Promise<string> {
  const path = join(folder, `${++files}.db`);
  await (await openStore(`sqlite:${path}`)).database.close();
  using file = new Database(path);
  for (const [table, row] of rows) insert(file, table, row);
  return path;
}

function insert(file: Database, table: string, row: Row): void {
  const names = Object.keys(row);
  const placeholders = names.map(() => '?').join(', ');
  file.run(
    `insert into ${table} (${names.join(', ')}) values (${placeholders})`,
    Object.values(row),
  );
}

async function emptyPostgres(): Promise<string> {
  return (await startPostgres()).createDatabase();
}

async function copy(path: string, url: string, progress: unknown[] = []) {
  const source = await openReadOnly(`sqlite:${path}`);
  if (!source) throw new Error(`There is no database at ${path}.`);
  try {
    const onProgress = (...args: unknown[]) => void progress.push(args);
    return await copyStore({ source, url, now, onProgress });
  } finally {
    await source.close();
  }
}

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte);
/** Text that quoting, escaping, or counting could corrupt. Its NUL is escaped as in JSON. */
const oddText =
  ' \'"\\ \n\r\t\b \\x00 \\u0000 $1 ? , {"a":[null]} Ünïcode 漢字 🏴‍☠️ \u2028\u0001\uffff';

const times = { created_at: now, updated_at: now };
const tenant = ['tenants', { id: 'acme', name: oddText, disabled: 1, ...times }] as const;
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
    ...{
      id: 'job',
      tenant_id: 'acme',
      key_id: 'key',
      model: oddText,
      request: oddText,
      input_key: oddText,
    },
    ...{ input_bytes: largest, metadata: '{}', webhook_url: null, status: 'running', attempts: 1 },
    ...{ lease: oddText, claimable_at: now, pieces_done: 0, pieces_total: null, cost: 0, units: 0 },
    created_at: now,
  },
];

/** At least one row for each table that is copied. */
const rowsOfAll: readonly (readonly [string, Row])[] = [
  tenant,
  ['tenants', { id: 'ACME', name: '', disabled: 0, requests_per_minute: 0, ...times }],
  [
    'api_keys',
    {
      ...{
        id: 'key',
        tenant_id: 'acme',
        kind: 'routing',
        label: oddText,
        name: oddText,
        disabled: 0,
      },
      ...{ secret_hash: everyByte.slice(0, 32), previous_hash: everyByte.slice(224), ...times },
      ...{ limit_credits: largest, limit_reset: 'daily', models: '["a/*"]', scopes: '[]' },
    },
  ],
  account({ id: 7, balance: largest, granted: largest, leased: 30, recalls: 2 }),
  grant({
    id: 41,
    account_id: 7,
    amount: largest,
    balance_after: largest,
    idempotency_key: oddText,
  }),
  ['bookings', { number: 40, entry_id: 41, first_at: now, last_at: now }],
  ['journals', { process_id: 'dead', booked: '0-1,3', charges: 3 }],
  ['journaled_charges', { account_id: 7, charges: 3 }],
  ['leases', { account_id: 7, process_id: 'dead', number: 1, credits: 30, until: now - 1 }],
  [
    'request_log',
    {
      ...{ id: 99, request_id: everyByte.slice(0, 16), tenant_id: 'acme', key_id: 'key' },
      ...{ requested_model: oddText, provider: null, status: 'error', traffic_mode: 'shared' },
      ...{ input_tokens: largest, cache_read_tokens: 0, cache_write_tokens: 0, output_tokens: 0 },
      ...{ reasoning_tokens: 0, model_charge: 0, byok_platform_fee: 0, managed_tool_fee: 0 },
      ...{ agent_runtime_fee: 0, written_off: 0, searches: 0, duration_ms: 5, details: oddText },
      ...{ entry_id: null, created_at: now },
    },
  ],
  [
    'usage_daily',
    {
      ...{ tenant_id: 'acme', day: 20_772, key_id: 'key', model: oddText, provider: '' },
      ...{ traffic_mode: 'shared', requests: 1, failed_requests: 1, prompt_tokens: largest },
      ...{ completion_tokens: 0, model_charge: 0, byok_platform_fee: 0, managed_tool_fee: 0 },
      ...{ agent_runtime_fee: 0, written_off: 0, searches: 0, duration_ms: 5 },
    },
  ],
  [
    'usage_hourly',
    {
      ...{ tenant_id: 'acme', hour: 498_540, key_id: 'key', model: oddText, provider: '' },
      ...{ traffic_mode: 'shared', requests: 1, failed_requests: 1, prompt_tokens: largest },
      ...{ completion_tokens: 0, model_charge: 0, byok_platform_fee: 0, managed_tool_fee: 0 },
      ...{ agent_runtime_fee: 0, written_off: 0, searches: 0, duration_ms: 5 },
    },
  ],
  [
    'byok_credentials',
    {
      ...{ tenant_id: 'acme', provider: 'openai', ciphertext: everyByte, base_url: null },
      ...{ mode: 'byok_only', label: oddText, ...times },
    },
  ],
  [
    'idempotency_claims',
    {
      ...{ tenant_id: 'acme', key: oddText, fingerprint: oddText, request_id: oddText, is_done: 1 },
      ...{ recording: JSON.stringify({ text: `\0${oddText}` }), expires_at: now },
    },
  ],
  ['idempotency_bytes', { tenant_id: 'acme', hour: 1, bytes: largest }],
  [
    'skills',
    { tenant_id: 'acme', name: oddText, description: '', instructions: oddText, ...times },
  ],
  ['settings', { name: 'deployment', value: 'old name' }],
  ['settings', { name: 'secret_key_fingerprint', value: oddText }],
  [
    'config_objects',
    {
      ...{ kind: 'provider', name: oddText, document: '{}', sealed: Uint8Array.of(0, 255) },
      ...{ version: largest, created_by: oddText, updated_by: oddText, ...times },
    },
  ],
  [
    'audit_log',
    { created_at: now, actor: oddText, origin: 'http', action: 'key.create', target: oddText },
  ],
  jobRow,
  ['job_turns', { tenant_id: 'acme', served_at: now }],
  [
    'job_pieces',
    { job_id: 'job', number: 0, object_key: oddText, cost: 1, units: largest, provider: oddText },
  ],
  ['job_objects', { key: oddText, job_id: 'job', delete_at: null }],
  webhook('hook', 'https://example.com'),
];

test(
  'copyStore copies every row of every table and continues numbering after the last row',
  async () => {
    const path = await storeWith(...rowsOfAll);
    const url = await emptyPostgres();
    const counts = await copy(path, url);
    using file = new Database(path, { readonly: true });
    const tables = file
      .query<{ name: string }, []>("select name from sqlite_schema where type = 'table'")
      .all()
      .map(({ name }) => name);
    const skipped = ['leases', 'running_requests', 'changes', 'tenant_changes', 'migrations'];
    expect([...counts.keys()].toSorted()).toEqual(
      tables.filter((name) => !skipped.includes(name)).toSorted(),
    );
    const { database } = await openStore(url);
    try {
      for (const table of counts.keys()) {
        const source = file
          .query<Row, []>(`select * from ${table} order by rowid`)
          .all()
          .filter(({ name }) => name !== 'deployment')
          .map((row) => ('leased' in row ? { ...row, leased: 0 } : row));
        const copied = await database.read
          .selectFrom(table as 'tenants')
          .selectAll()
          .execute();
        expect(source.length, table).toBeGreaterThan(0);
        expect(copied.map(plain), table).toEqual(source.map(plain));
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
    expect(await queryPostgres(url, `select array[${numbers}] as next`)).toEqual([
      { next: [8, 42, 100] },
    ]);
  },
  testMs,
);

/** Converts bytes to text, because the engines return different classes. */
function plain(row: object): object {
  const entries = Object.entries(row).map(([name, value]) => [
    name,
    value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
  ]);
  return Object.fromEntries(entries);
}

describe('copyStore fails without creating a table for', () => {
  test.each([
    [
      'a NUL character',
      [tenant, jobRow, webhook('a', 'b'), webhook('hook', 'https://\0')],
      "The table webhooks can't be copied: url of the row with rowid 2 has a NUL character, " +
        "which Postgres can't store.",
    ],
    [
      'a number that cannot be read exactly',
      [tenant, ['job_turns', { tenant_id: 'acme', served_at: largest + 1 }]],
      "The table job_turns can't be copied: A stored number is too large to be read exactly.",
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
    expect(await failureOf(copy(path, url))).toMatchObject({
      message: `${message} Nothing was copied.`,
    });
    expect(await tablesInPostgres(url)).toEqual([]);
  });

  test('a store of an older version', async () => {
    const path = join(folder, 'older.db');
    const older = await openSqlite(path);
    await migrate(older.write, 'sqlite', migrations.slice(0, -1));
    await older.close();
    const url = await emptyPostgres();
    expect(await failureOf(copy(path, url))).toMatchObject({
      message:
        'The store has tables of an older version. Start a gateway on it once to migrate it. ' +
        'Nothing was copied.',
    });
    expect(await tablesInPostgres(url)).toEqual([]);
  });
});

test('copyStore rejects a target of an older version without migrating it', async () => {
  const url = await emptyPostgres();
  const early = migrations.slice(0, 5);
  await withMigrationConnection(url, (db) => migrate(db, 'postgres', early));
  expect(await failureOf(copy(await storeWith(tenant), url))).toMatchObject({
    message: expect.stringMatching(
      /^The target database isn't empty: its table migrations has rows\./,
    ),
  });
  expect(await queryPostgres(url, 'select max(number)::int from migrations')).toEqual([{ max: 5 }]);
});

describe('copyStore during the copy', () => {
  /** Runs `interrupt` once every table before `webhooks` is copied. */
  async function interrupted(path: string, interrupt: (other: pg.Client) => Promise<unknown>) {
    const url = await emptyPostgres();
    await (await openStore(url)).database.close();
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    try {
      await other.query('begin; lock table webhooks in share mode');
      const copying = failureOf(copy(path, url));
      await waitUntil(async () => (await other.query(waiting)).rowCount !== 0);
      await interrupt(other);
      await other.query('rollback');
      const failure = await copying;
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

  test('leaves the target empty if the connection is lost', async () => {
    const path = await storeWith(...rows);
    const terminate = `select pg_terminate_backend(pid) from (${waiting}) as waiting`;
    const { failure, counts } = await interrupted(path, (other) => other.query(terminate));
    expect(failure).toMatchObject({
      message: expect.stringMatching(/^Postgres at \S+ couldn't import the store: Connection term/),
    });
    expect(counts).toEqual(none);
  });

  test('rejects a change of the source', async () => {
    const path = await storeWith(...rows);
    const { failure, counts } = await interrupted(path, async () => {
      using file = new Database(path);
      insert(file, 'job_turns', { tenant_id: 'acme', served_at: now });
    });
    expect(failure).toMatchObject({
      message:
        'The store changed during the copy. Stop everything that uses it. Nothing was copied.',
    });
    expect(counts).toEqual(none);
  });
});

test(
  'copyStore copies large tables in pages and reports progress',
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
    const progress: unknown[] = [];
    const counts = await copy(path, url, progress);
    expect([counts.get('job_turns'), counts.get('idempotency_claims')]).toEqual([100_001, 6]);
    expect(progress).toEqual([['job_turns', 100_000, 100_001]]);
    const sums = `select (select count(*)::int from job_turns) as turns,
      (select sum(served_at)::bigint from job_turns) as served,
      (select array_agg(length(recording) order by key) from idempotency_claims) as lengths`;
    expect(await queryPostgres(url, sums)).toEqual([
      {
        turns: 100_001,
        served: '5000150001',
        lengths: [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000],
      },
    ]);
  },
  testMs,
);
