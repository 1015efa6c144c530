/**
 * Measures the response times of reports for a tenant with millions of requests in the log. Fills a
 * database with 30 days of traffic, starts the gateway on it, and sends requests. Run it with
 * `bun bench/reads.ts [--engine sqlite|postgres] [--rows 5000000] [--days 30] [--reports-only]`. It
 * needs 1 GB of disk per million rows. `--database` uses an empty database of a running Postgres.
 * With `--engine postgres --rows 50000000 --days 90`, filling takes a few minutes on 16 cores.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from '../src/compose/build.ts';
import { loadConfig } from '../src/config/load.ts';
import { openStore } from '../src/store/open.ts';
import { verifyLedger } from '../src/store/verify/verify.ts';
import { createLog } from '../src/telemetry/log.ts';
import { startOwnPostgres } from '../tests/support/postgres.ts';
import { type Filling, fillPostgres, fillSqlite, rareKey } from './fill-log.ts';
import { clientKey } from './processes.ts';

const dayMs = 86_400_000;
/** The time limit of a report. */
const msMax = 150;
const rounds = 15;

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    rows: { type: 'string', default: '5000000' },
    days: { type: 'string', default: '30' },
    database: { type: 'string' },
    'reports-only': { type: 'boolean', default: false },
  },
});
const rows = Number(values.rows);
const days = Number(values.days);
const today = Math.floor(Date.now() / dayMs) * dayMs;

/** Prints a row of a table. */
function print(...cells: readonly string[]): void {
  const [name = '', ...rest] = cells;
  process.stdout.write(`${name.padEnd(44)}${rest.map((cell) => cell.padStart(12)).join('')}\n`);
}

async function timed<T>(run: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const start = performance.now();
  const result = await run();
  return { result, ms: performance.now() - start };
}

function buildGateway(folder: string, database: string) {
  const file = join(folder, 'tollgate.json');
  writeFileSync(file, JSON.stringify({ catalogue: 'none', demo: true, database }));
  const config = loadConfig(
    { config: file, port: '0', dataDir: folder },
    {
      TOLLGATE_BOOTSTRAP_API_KEY: clientKey,
      TOLLGATE_BOOTSTRAP_CREDITS: String(10 ** 12),
      TOLLGATE_ADMIN_TOKEN: adminToken,
    },
  );
  return build(
    config,
    createLog((line) => process.stderr.write(line)),
  );
}

async function fill(database: string): Promise<void> {
  const filling: Filling = { rows, from: today - (days - 1) * dayMs, until: today + dayMs };
  const { ms } = await timed(() =>
    database.startsWith('sqlite:')
      ? fillSqlite(database.slice('sqlite:'.length), filling)
      : fillPostgres(database, filling),
  );
  process.stdout.write(`${rows.toLocaleString('en-US')} rows in ${Math.round(ms / 1000)} s\n\n`);
}

interface Report {
  readonly name: string;
  readonly path: string;
  readonly key?: string;
}

const adminToken = 'sk-admin-bench-0123456789abcdef0123456789abcdef';

/** The IDs of a request and of none. The log is not partitioned by the latter. */
const unknownId = '00000000-0000-4000-8000-000000000000';

function reportsFor(keyId: string, requestId: string): Report[] {
  const date = (back: number) => new Date(today - back * dayMs).toISOString().slice(0, 10);
  const logs = (query: string) => `/v1/customer/logs?limit=100&${query}`;
  const analytics = `/v1/customer/analytics?start_date=${date(days - 1)}&end_date=${date(0)}`;
  const offset = (row: number) => `offset=${Math.floor(row)}`;
  const times = `start_date=${date(9)}T10:30:00Z&end_date=${date(3)}T09:00Z`;
  const named = (list: [string, string][]) => list.map(([name, path]) => ({ name, path }));
  const hours = `granularity=hour&start_date=${date(1)}&end_date=${date(1)}`;
  return [
    ...named([
      ['analytics, all days', analytics],
      ['analytics, all days, by model', `${analytics}&group_by=model`],
      ['analytics, all days, by key', `${analytics}&group_by=api_key_id`],
      ['analytics, all days, one key', `${analytics}&api_key_id=${keyId}`],
      ['analytics, hours of a day', `/v1/customer/analytics?${hours}`],
      ['a request by its ID', `/v1/customer/logs/${requestId}`],
      ['a request by an unknown ID', `/v1/customer/logs/${unknownId}`],
      ['logs, first page', logs('')],
      ['logs, page in the middle', logs(offset(rows / 2))],
      ['logs, middle of a day', logs(offset((rows / days) * 7.5))],
      ['logs, last page', logs(offset(rows - 100))],
      ['logs, an entire day', logs(`start_date=${date(9)}&end_date=${date(9)}`)],
      ['logs, between two times', logs(times)],
      ['logs, failures, first page', logs('status=error')],
      ['logs, failures, last page', logs(`status=error&${offset(rows / 100 - 100)}`)],
      ['logs, one model, middle', logs(`model=acme/chat-1&${offset(rows / 10)}`)],
      ['logs, one key, middle', logs(`api_key_id=${keyId}&${offset(rows / 10)}`)],
      ['logs, a key with 1 request per day', logs(`api_key_id=${rareKey}`)],
      ['credits', '/v1/customer/credits'],
      ['statements of months', '/v1/customer/billing/statements'],
      ['the calling key', '/v1/key'],
    ]),
    { name: 'admin, overview', path: '/admin/v1/overview', key: adminToken },
    { name: 'admin, tenants', path: '/admin/v1/tenants', key: adminToken },
  ];
}

async function fetchText(url: string, key = clientKey): Promise<string> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
  if (!response.ok && !url.endsWith(unknownId))
    throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.text();
}

async function measureReports(origin: string): Promise<void> {
  print('report', 'first', 'median', 'slowest', 'bytes');
  const keyId = /"id":"(key_\w+)"/.exec(await fetchText(`${origin}/v1/key`))?.[1] ?? '';
  const middle = `${origin}/v1/customer/logs?limit=1&offset=${Math.floor(rows / 3)}`;
  const requestId = /"id":"([^"]+)"/.exec(await fetchText(middle))?.[1] ?? '';
  for (const { name, path, key } of reportsFor(keyId, requestId)) {
    const first = await timed(() => fetchText(origin + path, key));
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      times.push((await timed(() => fetchText(origin + path, key))).ms);
    }
    times.sort((a, b) => a - b);
    const slowest = Math.max(first.ms, times.at(-1) ?? 0);
    const median = times[Math.floor(rounds / 2)] ?? 0;
    const verdict = slowest <= msMax ? '' : `over ${msMax} ms`;
    const ms = [first.ms, median, slowest].map((time) => `${time.toFixed(1)} ms`);
    print(name, ...ms, String(first.result.length), verdict);
  }
}

async function measureExports(origin: string): Promise<void> {
  print('\nexport', 'time', 'lines', 'memory');
  const paths = ['logs/export.csv', 'billing/usage-statement.csv', 'analytics/export.csv'];
  for (const path of paths) {
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    let [lines, peak] = [0, before];
    const { ms } = await timed(async () => {
      const url = `${origin}/v1/customer/${path}`;
      const response = await fetch(url, { headers: { authorization: `Bearer ${clientKey}` } });
      for await (const chunk of response.body ?? []) {
        for (const byte of chunk) if (byte === 10) lines += 1;
        peak = Math.max(peak, process.memoryUsage.rss());
      }
    });
    const growth = `+${Math.round((peak - before) / 2 ** 20)} MB`;
    print(path, `${(ms / 1000).toFixed(1)} s`, String(lines), growth);
  }
}

async function measureVerify(database: string): Promise<void> {
  const store = await openStore(database);
  const printLine = (line: string) => process.stdout.write(`${line}\n`);
  const { result, ms } = await timed(() => verifyLedger(store.database, printLine));
  print('\nledger verify', `${(ms / 1000).toFixed(1)} s`, JSON.stringify(result));
  await store.database.close();
}

async function main(database: string, folder: string): Promise<void> {
  // The first start creates the tables, the tenant, and its key.
  await (await buildGateway(folder, database)).drain(1);
  await fill(database);
  const tollgate = await buildGateway(folder, database);
  const origin = `http://127.0.0.1:${tollgate.listen()}`;
  await measureReports(origin);
  if (!values['reports-only']) await measureExports(origin);
  await tollgate.drain(1);
  if (!values['reports-only']) await measureVerify(database);
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-reads-'));
const postgres =
  values.engine === 'postgres' && values.database === undefined
    ? await startOwnPostgres({ durable: false })
    : null;
try {
  await main(values.database ?? postgres?.url ?? `sqlite:${join(folder, 'tollgate.db')}`, folder);
} finally {
  await postgres?.stop();
  rmSync(folder, { recursive: true });
}
process.exit();
