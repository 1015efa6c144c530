/**
 * How long the customer's reads take when one tenant has millions of requests in the log: fills a
 * database of its own with `--rows` (5,000,000) of the last 30 days, starts the gateway on it and
 * asks. `bun bench/reads.ts [--engine sqlite|postgres] [--rows 5000000]`; needs 4 GB of disk.
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
import { clientKey } from './processes.ts';
import { type Filling, fillPostgres, fillSqlite, rareKey } from './reads-filling.ts';

const days = 30;
const dayMs = 86_400_000;
const msMax = 100;
const rounds = 15;

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'sqlite' },
    rows: { type: 'string', default: '5000000' },
  },
});
const rows = Number(values.rows);
const today = Math.floor(Date.now() / dayMs) * dayMs;

/** Prints a table row by row: what was asked, and how long it took. */
function print(...cells: readonly string[]): void {
  const [name = '', ...rest] = cells;
  process.stdout.write(`${name.padEnd(44)}${rest.map((cell) => cell.padStart(12)).join('')}\n`);
}

async function timed<T>(act: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const start = performance.now();
  const result = await act();
  return { result, ms: performance.now() - start };
}

function asGateway(folder: string, database: string) {
  const file = join(folder, 'tollgate.json');
  writeFileSync(file, JSON.stringify({ catalogue: 'none', demo: true, database }));
  const config = loadConfig(
    { config: file, port: '0', dataDir: folder },
    { TOLLGATE_BOOTSTRAP_API_KEY: clientKey, TOLLGATE_BOOTSTRAP_CREDITS: String(10 ** 12) },
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

function questions(keyId: string): [string, string][] {
  const date = (back: number) => new Date(today - back * dayMs).toISOString().slice(0, 10);
  const logs = (query: string) => `/v1/customer/logs?limit=100&${query}`;
  const at = (row: number) => `offset=${Math.floor(row)}`;
  const times = `start_date=${date(9)}T10:30:00Z&end_date=${date(3)}T09:00Z`;
  return [
    ['analytics, 30 days', `/v1/customer/analytics?start_date=${date(29)}&end_date=${date(0)}`],
    ['logs, first page', logs('')],
    ['logs, page in the middle', logs(at(rows / 2))],
    ['logs, middle of a day', logs(at((rows / days) * 7.5))],
    ['logs, last page', logs(at(rows - 100))],
    ['logs, a whole day', logs(`start_date=${date(9)}&end_date=${date(9)}`)],
    ['logs, between two times', logs(times)],
    ['logs, failures, first page', logs('status=error')],
    ['logs, failures, last page', logs(`status=error&${at(rows / 100 - 100)}`)],
    ['logs, one model, middle', logs(`model=acme/chat-1&${at(rows / 10)}`)],
    ['logs, one key, middle', logs(`api_key_id=${keyId}&${at(rows / 10)}`)],
    ['logs, a key with one request a day', logs(`api_key_id=${rareKey}`)],
    ['credits', '/v1/customer/credits'],
    ['the calling key', '/v1/key'],
  ];
}

async function ask(url: string): Promise<string> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${clientKey}` } });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.text();
}

async function measureQuestions(origin: string, keyId: string): Promise<void> {
  print('question', 'first', 'median', 'slowest', 'bytes');
  for (const [name, path] of questions(keyId)) {
    const first = await timed(() => ask(origin + path));
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      times.push((await timed(() => ask(origin + path))).ms);
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
  print('\nexport', 'whole', 'lines', 'memory');
  const paths = ['logs/export.csv', 'billing/usage-statement.csv', 'analytics/export.csv'];
  for (const path of paths) {
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    let [lines, peak] = [0, before];
    const { ms } = await timed(async () => {
      const url = `${origin}/v1/customer/${path}`;
      const response = await fetch(url, { headers: { authorization: `Bearer ${clientKey}` } });
      for await (const piece of response.body ?? []) {
        for (const byte of piece) if (byte === 10) lines += 1;
        peak = Math.max(peak, process.memoryUsage.rss());
      }
    });
    const growth = `+${Math.round((peak - before) / 2 ** 20)} MB`;
    print(path, `${(ms / 1000).toFixed(1)} s`, String(lines), growth);
  }
}

async function measureCheck(database: string): Promise<void> {
  const store = await openStore(database);
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const { result, ms } = await timed(() => verifyLedger(store.database, say));
  print('\nledger verify', `${(ms / 1000).toFixed(1)} s`, JSON.stringify(result));
  await store.database.close();
}

async function main(database: string, folder: string): Promise<void> {
  // The first start makes the tables, the tenant and its key.
  await (await asGateway(folder, database)).drain(1);
  await fill(database);
  const tollgate = await asGateway(folder, database);
  const origin = `http://127.0.0.1:${tollgate.listen()}`;
  const id = /"id":"(key_\w+)"/.exec(await ask(`${origin}/v1/key`))?.[1] ?? '';
  await measureQuestions(origin, id);
  await measureExports(origin);
  await tollgate.drain(1);
  await measureCheck(database);
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-reads-'));
const postgres = values.engine === 'postgres' ? await startOwnPostgres({ durable: false }) : null;
try {
  await main(postgres?.url ?? `sqlite:${join(folder, 'tollgate.db')}`, folder);
} finally {
  await postgres?.stop();
  rmSync(folder, { recursive: true });
}
process.exit();
