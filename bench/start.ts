/**
 * Measures how long startup takes and how much memory an idle gateway uses. The first round is a
 * warm-up.
 * Run it with `bun bench/start.ts`.
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

/** Starts the gateway as the README describes. */
async function timedNpmStart(dataDir: string): Promise<number> {
  const launchedAt = performance.now();
  const args = ['start', '--', '--port', '0', '--data-dir', dataDir];
  const child = spawn('npm', args, {
    cwd: repository,
    stdio: ['ignore', 'pipe', 'ignore'],
    // npm starts a shell, which starts the gateway. A signal to the group reaches all three.
    detached: true,
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let output = '';
  for await (const chunk of child.stdout) {
    output += chunk;
    if (output.includes(' is ready at ')) break;
  }
  const ms = performance.now() - launchedAt;
  if (child.pid === undefined || !output.includes(' is ready at ')) {
    throw new Error(`npm start printed no URL:\n${output}`);
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

/** Measures each kind of startup once, so that noise affects all kinds equally. */
async function round(): Promise<Round> {
  const dataDir = join(newFolder(), 'data');
  return {
    first: await timedStart(dataDir),
    later: await timedStart(dataDir),
    throughNpm: await timedNpmStart(dataDir),
  };
}

function medianOf(rows: readonly Round[], measure: (row: Round) => number): number {
  const values = rows.map(measure).sort((a, b) => a - b);
  return values[Math.floor(values.length / 2)] ?? Number.NaN;
}

function line(name: string, measured: number, unit: string, target?: number): string {
  const goal = target === undefined ? '' : `below ${target} ${unit}`;
  const verdict = target === undefined ? '' : measured < target ? 'passed' : 'failed';
  const value = `${Math.round(measured)} ${unit}`;
  return `${name.padEnd(44)}${value.padStart(9)}   ${goal.padEnd(15)}${verdict}`.trimEnd();
}

await round();
const rows: Round[] = [];
while (rows.length < rounds) rows.push(await round());
const [first, later] = [medianOf(rows, (row) => row.first), medianOf(rows, (row) => row.later)];
const throughNpm = medianOf(rows, (row) => row.throughNpm);
const npmAlone = medianOf(rows, (row) => row.throughNpm - row.later);

process.stdout.write(
  `${[
    `"${packageFile.scripts.start}", median of ${rounds} rounds:`,
    line('first start, empty data directory', first, 'ms', targets.startMs),
    line('later start', later, 'ms', targets.startMs),
    line('later start by "npm start"', throughNpm, 'ms', targets.startMs),
    line('  of which npm', npmAlone, 'ms'),
    line(`resident after ${idleMs / 1000} s idle`, await residentMb(), 'MB', targets.residentMb),
  ].join('\n')}\n`,
);
