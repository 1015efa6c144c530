/**
 * Measures how served and booked requests per second grow with the number of workers, on one
 * machine with many cores: gateway workers, upstreams, and load generators are processes of their
 * own, and all requests have the same tenant and key. It needs only this file, `scale-load.ts`, and
 * the runtime, so that it also runs from the single executable on a machine without sources:
 *
 *   npx bun bench/scale.ts --workers 1,2,4 --seconds 15 --database postgres://…
 *   BUN_BE_BUN=1 ./tollgate scale.ts --gateway ./tollgate --workers 8 --database postgres://…
 *
 * Without `--database`, each run gets a new SQLite file. `--rate` limits the load to that many
 * requests per second in total. With Postgres, each run gets a new database. Linux only.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { clientKey, type LoadResult, sendLoad, serveUpstream } from './scale-load.ts';

const warmUpMs = 4_000;
const sampleMs = 5_000;
/** How long the rest of the backlog may take to be booked after the load has ended. */
const drainMs = 90_000;

const { values: options } = parseArgs({
  options: {
    gateway: { type: 'string' },
    workers: { type: 'string', default: '1,2' },
    seconds: { type: 'string', default: '15' },
    database: { type: 'string' },
    rate: { type: 'string', default: '0' },
    upstreams: { type: 'string', default: String(Math.max(1, Math.ceil(cpus().length / 5))) },
    loads: { type: 'string', default: String(Math.max(1, Math.ceil(cpus().length / 4))) },
    connections: { type: 'string', default: '48' },
    // Of the processes that this program starts.
    role: { type: 'string' },
    port: { type: 'string', default: '0' },
    url: { type: 'string', default: '' },
    ms: { type: 'string', default: '0' },
  },
});

const children = new Set<Bun.Subprocess>();

function startRole(role: string, more: Readonly<Record<string, string>> = {}) {
  const args = Object.entries({ role, ...more }).flatMap(([name, value]) => [`--${name}`, value]);
  const child = Bun.spawn([process.execPath, import.meta.path, ...args], {
    env: { PATH: process.env.PATH ?? '', BUN_BE_BUN: '1' },
    stdout: 'pipe',
    stderr: 'inherit',
  });
  children.add(child);
  return child;
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of stream) {
    text += decoder.decode(bytes, { stream: true });
    if (text.includes('\n')) break;
  }
  return text.trim();
}

async function startUpstreams(): Promise<number> {
  const first = startRole('upstream');
  const port = Number((await firstLine(first.stdout)).replace('port ', ''));
  for (let index = 1; index < Number(options.upstreams); index += 1) {
    startRole('upstream', { port: String(port) });
  }
  return port;
}

function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  probe.stop(true);
  return probe.port;
}

interface Gateway {
  readonly url: string;
  readonly child: Bun.Subprocess;
  readonly database: string;
  readonly logFile: string;
}

const folder = mkdtempSync(join(tmpdir(), 'tollgate-scale-'));

async function startGateway(workers: number, upstreamPort: number): Promise<Gateway> {
  const name = `run-${workers}-${Date.now()}`;
  const database = options.database
    ? await createDatabase(options.database, name.replaceAll('-', '_'))
    : `sqlite:${join(folder, `${name}.db`)}`;
  const config = join(folder, `${name}.yaml`);
  writeFileSync(
    config,
    JSON.stringify({
      catalogue: 'none',
      database,
      cache: { mode: 'off' },
      limits: { requests_per_minute: 10 ** 9, concurrent_requests: 10 ** 6 },
      providers: {
        bench: {
          dialect: 'openai',
          base_url: `http://127.0.0.1:${upstreamPort}/v1`,
          api_key: 'sk-upstream-0123456789',
        },
      },
      models: [
        {
          id: 'bench/chat',
          name: 'Bench',
          input_modalities: ['text'],
          output_modalities: ['text'],
          endpoints: [
            {
              provider: 'bench',
              model: 'large',
              pricing: { prompt: '0.15', completion: '0.60' },
            },
          ],
        },
      ],
    }),
  );
  const port = freePort();
  const program = options.gateway
    ? [options.gateway]
    : [process.execPath, join(import.meta.dir, '..', 'src', 'main.ts')];
  const logFile = join(folder, `${name}.log`);
  const args = ['serve', '--config', config, '--data-dir', join(folder, name)];
  const child = Bun.spawn(
    [...program, ...args, '--port', String(port), '--workers', String(workers)],
    {
      env: {
        PATH: process.env.PATH ?? '',
        BUN_CONFIG_MAX_HTTP_REQUESTS: '65336',
        TOLLGATE_BOOTSTRAP_API_KEY: clientKey,
        TOLLGATE_BOOTSTRAP_CREDITS: String(10 ** 15),
      },
      stdout: 'ignore',
      // The gateway writes its log lines, which are part of its cost.
      stderr: Bun.file(logFile),
    },
  );
  children.add(child);
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; tries < 300; tries += 1) {
    const ready = await fetch(`${url}/readyz`).catch(() => undefined);
    if (ready?.ok) return { url, child, database, logFile };
    await Bun.sleep(100);
  }
  throw new Error(`The gateway isn't ready: ${readFileSync(logFile, 'utf8').slice(-1_000)}`);
}

async function createDatabase(server: string, name: string): Promise<string> {
  const admin = new Bun.SQL(server);
  await admin.unsafe(`create database ${name}`);
  await admin.close();
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** Counts booked requests by the daily sums, which a batch changes in the same transaction. */
async function bookedIn(database: string): Promise<number> {
  const store = new Bun.SQL(database);
  try {
    const [row] = await store.unsafe(
      'select coalesce(sum(requests), 0) as booked from usage_daily',
    );
    return Number(row.booked);
  } finally {
    await store.close();
  }
}

/** Returns the CPU time of a process and all its descendants in seconds, to 10 ms. */
function treeSeconds(pid: number): number {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
    const pids = children.filter((text) => text !== '').map(Number);
    return pids.reduce((sum, child) => sum + treeSeconds(child), secondsOf(`/proc/${pid}/stat`));
  } catch {
    return 0;
  }
}

function secondsOf(stat: string): number {
  const text = readFileSync(stat, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Returns the CPU time of all processes of this name. */
function namedSeconds(name: string): number {
  let sum = 0;
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = `/proc/${pid}/stat`;
      if (readFileSync(stat, 'utf8').includes(`(${name})`)) sum += secondsOf(stat);
    } catch {
      // It has ended.
    }
  }
  return sum;
}

async function runLoad(url: string, ms: number): Promise<LoadResult[]> {
  const loads = Number(options.loads);
  const rate = String(Number(options.rate) / loads);
  const running = Array.from({ length: loads }, () =>
    startRole('load', { url, ms: String(ms), rate, connections: options.connections }),
  );
  const outputs = await Promise.all(running.map(({ stdout }) => new Response(stdout).text()));
  for (const child of running) children.delete(child);
  return outputs.map((output) => JSON.parse(output) as LoadResult);
}

const print = (...cells: readonly (string | number)[]) =>
  process.stdout.write(`${cells.map((cell) => String(cell).padStart(10)).join('')}\n`);

async function measure(workers: number, upstreamPort: number): Promise<void> {
  const gateway = await startGateway(workers, upstreamPort);
  const { url, child, database } = gateway;
  await runLoad(url, warmUpMs);
  await Bun.sleep(2_000);
  const before = await bookedIn(database);
  const [cpu, postgres, startedAt] = [treeSeconds(child.pid), namedSeconds('postgres'), Date.now()];
  const samples: string[] = [];
  const sampler = setInterval(async () => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    const booked = (await bookedIn(database).catch(() => before)) - before;
    samples.push(`${seconds} s: ${booked}`);
  }, sampleMs);
  const results = await runLoad(url, Number(options.seconds) * 1000);
  clearInterval(sampler);
  const bookedAtEnd = (await bookedIn(database)) - before;
  const seconds = (Date.now() - startedAt) / 1000;
  const gatewaySeconds = treeSeconds(child.pid) - cpu;
  const postgresSeconds = namedSeconds('postgres') - postgres;
  const served = results.reduce((sum, result) => sum + result.served, 0);
  const others: Record<string, number> = {};
  for (const result of results) {
    for (const [status, count] of Object.entries(result.others))
      others[status] = (others[status] ?? 0) + count;
  }
  const endedAt = Date.now();
  let booked = bookedAtEnd;
  while (booked < served && Date.now() - endedAt < drainMs) {
    await Bun.sleep(250);
    booked = (await bookedIn(database)) - before;
  }
  const microseconds = (used: number) => ((used * 1e6) / Math.max(1, served)).toFixed(0);
  print(
    workers,
    Math.round(served / Number(options.seconds)),
    Math.round(bookedAtEnd / seconds),
    served - bookedAtEnd,
    ((Date.now() - endedAt) / 1000).toFixed(1),
    microseconds(gatewaySeconds),
    microseconds(postgresSeconds),
    Math.max(...results.map(({ p50Ms }) => p50Ms)).toFixed(1),
    Math.max(...results.map(({ p99Ms }) => p99Ms)).toFixed(1),
    served - booked,
  );
  const failures = Object.entries(others).map(([status, count]) => `${status}: ${count}`);
  process.stdout.write(`           other answers: ${failures.join(', ') || 'none'}\n`);
  process.stdout.write(`           booked after ${samples.join(', ')}\n`);
  const cores = (gatewaySeconds / seconds).toFixed(1);
  const postgresCores = (postgresSeconds / seconds).toFixed(1);
  process.stdout.write(`           cores: ${cores} gateway, ${postgresCores} Postgres\n`);
  for (const line of await problemsIn(gateway.logFile))
    process.stdout.write(`           ${line.slice(0, 300)}\n`);
  child.kill('SIGTERM');
  await child.exited;
  rmSync(gateway.logFile, { force: true });
}

/** Returns the first warnings and errors. With a line per request, the file exceeds the memory. */
async function problemsIn(logFile: string): Promise<readonly string[]> {
  const search = Bun.spawn(['grep', '-m', '5', '-E', '"level":"(warn|error)"', logFile]);
  return (await new Response(search.stdout).text()).split('\n').filter((line) => line !== '');
}

async function main(): Promise<void> {
  const { upstreams, loads, connections, seconds } = options;
  process.stdout.write(
    `${cpus().length} cores, ${upstreams} upstreams, ${loads} load generators with ` +
      `${connections} connections each, ${seconds} s\n`,
  );
  print(...['workers', 'served/s', 'booked/s', 'backlog', 'drain s']);
  print(...['', 'gateway', 'Postgres µs', 'p50 ms', 'p99 ms', 'lost']);
  try {
    const port = await startUpstreams();
    for (const workers of options.workers.split(',').map(Number)) {
      await measure(workers, port).catch((error: unknown) => {
        process.stdout.write(`${workers} workers: ${String(error).slice(0, 1_000)}\n`);
      });
    }
  } finally {
    for (const child of children) child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
  process.exit(0);
}

if (options.role === 'upstream') serveUpstream(Number(options.port));
else if (options.role === 'load') await sendLoad(options);
else await main();
