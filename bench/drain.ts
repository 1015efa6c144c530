/**
 * Measures how many settled requests per second several processes book on one account, the most
 * contended case, because all of them charge the same wallet. Each process books a prepared backlog
 * with its own batch writer. Prints rows per second and the CPU time per row of the processes and
 * of Postgres. Run it with `bun bench/drain.ts [--engine sqlite] [--processes 1,2,4]
 * [--rows 100000]`.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { toSettlementEntry, walletOwner } from '../src/money/ledger.ts';
import { BatchWriter } from '../src/money/settle/batch-writer.ts';
import { openStore } from '../src/store/open.ts';
import { verifyLedger } from '../src/store/verify/verify.ts';
import { startOwnPostgres } from '../tests/support/postgres.ts';
import { cpuSeconds } from './processes.ts';
import { chargeCredits, createWallet, settlement, tenantId } from './settlements.ts';

const { values } = parseArgs({
  options: {
    engine: { type: 'string', default: 'postgres' },
    processes: { type: 'string', default: '1,2,4' },
    rows: { type: 'string', default: '100000' },
    // For the processes that this program starts.
    database: { type: 'string' },
    number: { type: 'string', default: '0' },
  },
});
const rowsInTotal = Number(values.rows);

interface Drained {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly cpuSeconds: number;
}

/** Runs in a process of its own: books a backlog that it prepares before the signal to start. */
async function drain(database: string): Promise<void> {
  const store = await openStore(database);
  const processId = `drain-${values.number}-${process.pid}`;
  await store.ledger.lease({
    owner: walletOwner(tenantId),
    processId,
    number: 1,
    startNew: false,
    credits: rowsInTotal * chargeCredits,
    oneHold: 0,
    until: Date.now() + 3_600_000,
    now: Date.now(),
  });
  const entries = Array.from({ length: rowsInTotal }, (_, n) => toSettlementEntry(settlement(n)));
  const writer = new BatchWriter({
    store: store.ledger,
    processId,
    onCommit: () => {},
    onFailure: (_waiting, error) => {
      process.stderr.write(`${String(error)}\n`);
    },
  });
  process.on('message', async (message) => {
    if (message === 'end') {
      await store.database.close();
      process.exit(0);
    }
    const startedAt = Date.now();
    const { user, system } = process.cpuUsage();
    for (const entry of entries) writer.add(entry);
    await writer.flush();
    const used = process.cpuUsage({ user, system });
    const endedAt = Date.now();
    process.send?.({ startedAt, endedAt, cpuSeconds: (used.user + used.system) / 1e6 });
  });
  process.send?.('ready');
}

interface Child {
  readonly ready: Promise<unknown>;
  readonly drained: Promise<Drained>;
  /** Keeps its connections until `end`, so that the CPU time of the server can be read. */
  go(): void;
  end(): void;
}

function startChild(database: string, number: number, rows: number): Child {
  const ready = Promise.withResolvers<unknown>();
  const drained = Promise.withResolvers<Drained>();
  const args = ['--database', database, '--number', String(number), '--rows', String(rows)];
  const child = Bun.spawn([process.execPath, import.meta.path, ...args], {
    stdout: 'inherit',
    stderr: 'inherit',
    ipc: (message: 'ready' | Drained) =>
      message === 'ready' ? ready.resolve(message) : drained.resolve(message),
  });
  void child.exited.then((code) => {
    const error = new Error(`Process ${number} exited with code ${code}.`);
    ready.reject(error);
    drained.reject(error);
  });
  return {
    ready: ready.promise,
    drained: drained.promise,
    go: () => child.send('go'),
    end: () => child.send('end'),
  };
}

/** Returns the CPU time of all running Postgres processes of this server. */
function serverSeconds(pid: number | undefined): number {
  if (pid === undefined) return 0;
  const isOfServer = (name: string) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === String(pid);
    } catch {
      return false;
    }
  };
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isOfServer(name));
  return secondsOf(pid) + children.reduce((sum, each) => sum + secondsOf(Number(each)), 0);
}

/** Returns 0 for a process that has just ended. */
function secondsOf(pid: number): number {
  try {
    return cpuSeconds(pid);
  } catch {
    return 0;
  }
}

async function measure(
  database: string,
  processes: number,
  serverPid: number | undefined,
): Promise<string> {
  const store = await openStore(database);
  await createWallet(store);
  const rows = Math.floor(rowsInTotal / processes);
  const children = Array.from({ length: processes }, (_, n) => startChild(database, n, rows));
  await Promise.all(children.map(({ ready }) => ready));
  const before = serverSeconds(serverPid);
  for (const child of children) child.go();
  const results = await Promise.all(children.map(({ drained }) => drained));
  const server = serverSeconds(serverPid) - before;
  for (const child of children) child.end();
  const booked = rows * processes;
  const ms =
    Math.max(...results.map(({ endedAt }) => endedAt)) -
    Math.min(...results.map(({ startedAt }) => startedAt));
  const client = results.reduce((sum, result) => sum + result.cpuSeconds, 0);
  const { discrepancies, requests } = await verifyLedger(store.database, (line) =>
    process.stderr.write(`${line}\n`),
  );
  await store.database.close();
  const microseconds = (seconds: number) => `${((seconds * 1e6) / booked).toFixed(1)} µs`;
  return [
    String(processes).padStart(9),
    `${Math.round((booked * 1000) / ms)}`.padStart(10),
    microseconds(client).padStart(16),
    microseconds(server).padStart(13),
    String(booked - requests).padStart(9),
    String(discrepancies).padStart(15),
  ].join('');
}

async function main(): Promise<void> {
  process.stdout.write(
    'processes    rows/s   CPU of process  of Postgres  missing  discrepancies\n',
  );
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-drain-'));
  const postgres =
    values.engine === 'postgres' ? await startOwnPostgres({ durable: true }) : undefined;
  try {
    for (const processes of values.processes.split(',').map(Number)) {
      const database =
        (await postgres?.createDatabase()) ?? `sqlite:${join(folder, `${processes}.db`)}`;
      process.stdout.write(`${await measure(database, processes, postgres?.pid())}\n`);
    }
  } finally {
    await postgres?.stop();
    rmSync(folder, { recursive: true });
  }
}

if (values.database === undefined) await main();
else await drain(values.database);
