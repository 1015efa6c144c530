/**
 * How long a first start takes, and how much memory an idle gateway needs: `bun bench/start.ts`.
 * Starts are warm: a first round is not counted.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import packageFile from '../package.json';
import { newFolder, startGateway } from '../tests/support/gateway.ts';

const rounds = 7;
const idleMs = 2_000;
const targets = { startMs: 1_500, residentMb: 90 };
const repository = new URL('..', import.meta.url).pathname;

async function timedStart(dataDir: string): Promise<number> {
  const launchedAt = performance.now();
  const gateway = await startGateway({ dataDir });
  const ms = performance.now() - launchedAt;
  await gateway.stop();
  return ms;
}

/** Starts as the README says: from the repository, with this shell's environment. */
async function timedNpmStart(dataDir: string): Promise<number> {
  const launchedAt = performance.now();
  const words = ['start', '--', '--port', '0', '--data-dir', dataDir];
  const child = spawn('npm', words, {
    cwd: repository,
    stdio: ['ignore', 'pipe', 'ignore'],
    // npm runs a shell that runs the gateway; one signal to the group reaches all three.
    detached: true,
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let printed = '';
  for await (const piece of child.stdout) {
    printed += piece;
    if (printed.includes(' is ready at ')) break;
  }
  const ms = performance.now() - launchedAt;
  if (child.pid === undefined || !printed.includes(' is ready at ')) {
    throw new Error(`npm start did not get ready:\n${printed}`);
  }
  process.kill(-child.pid, 'SIGTERM');
  await ended;
  return ms;
}

async function residentMb(): Promise<number> {
  await using gateway = await startGateway();
  await Bun.sleep(idleMs);
  const ps = Bun.spawnSync(['ps', '-o', 'rss=', '-p', String(gateway.process.pid)]);
  return Number(ps.stdout.toString()) / 1024;
}

interface Round {
  readonly first: number;
  readonly later: number;
  readonly throughNpm: number;
}

/** The three kinds of start in turn, so that a busy moment of the machine affects all of them. */
async function round(): Promise<Round> {
  const dataDir = join(newFolder(), 'data');
  return {
    first: await timedStart(dataDir),
    later: await timedStart(dataDir),
    throughNpm: await timedNpmStart(dataDir),
  };
}

function middle(rows: readonly Round[], measure: (row: Round) => number): number {
  const values = rows.map(measure).sort((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? Number.NaN;
}

function row(what: string, measured: number, unit: string, target?: number): string {
  const goal = target === undefined ? '' : `below ${target} ${unit}`;
  const verdict = target === undefined ? '' : measured < target ? 'kept' : 'MISSED';
  const value = `${Math.round(measured)} ${unit}`;
  return `${what.padEnd(44)}${value.padStart(9)}   ${goal.padEnd(15)}${verdict}`.trimEnd();
}

await round();
const rows: Round[] = [];
while (rows.length < rounds) rows.push(await round());
const [first, later] = [middle(rows, (row) => row.first), middle(rows, (row) => row.later)];
const throughNpm = middle(rows, (row) => row.throughNpm);
const npmAlone = middle(rows, (row) => row.throughNpm - row.later);

process.stdout.write(
  `${[
    `"${packageFile.scripts.start}", the middle of ${rounds} rounds:`,
    row('first start, empty data folder', first, 'ms', targets.startMs),
    row('later start', later, 'ms', targets.startMs),
    row('later start by "npm start"', throughNpm, 'ms', targets.startMs),
    row('  of which npm itself', npmAlone, 'ms'),
    row(`resident after ${idleMs / 1000} s idle`, await residentMb(), 'MB', targets.residentMb),
  ].join('\n')}\n`,
);
