/**
 * Measures how much throughput a second worker adds, and the cost of shared limits in Redis. The
 * load generator and the upstream use the same cores, so only a machine with spare cores shows the
 * full gain. Run it with `bun bench/workers.ts`. It takes about 2 minutes and needs Linux and
 * redis-server.
 */
import { readFileSync } from 'node:fs';
import type { LoadResult, LoadTask } from './load.ts';
import { clientKey, cpuSeconds, Processes, type Server } from './processes.ts';
import { workloads } from './workloads.ts';

const rounds = 5;
const warmUpRounds = 2;
const requests = 6_000;
/** Time for the writes that follow the last response, because they are part of the round. */
const settleMs = 300;

type Load = (task: LoadTask) => Promise<LoadResult>;

interface Round {
  readonly perSecond: number;
  readonly microseconds: number;
  readonly redisMicroseconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Returns the PIDs of a process and its children. */
function processTreeOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
  return [pid, ...children.filter((text) => text !== '').map(Number)];
}

const cpuOf = (pids: readonly number[]) => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);

async function runRound(server: Server, loads: readonly Load[], redisPid: number): Promise<Round> {
  const body = workloads[0]?.body ?? '';
  const pids = processTreeOf(server.pid);
  const [before, redisBefore] = [cpuOf(pids), cpuSeconds(redisPid)];
  const startedAt = performance.now();
  const requestsEach = requests / loads.length;
  const task = { url: server.url, key: clientKey, body, requests: requestsEach };
  const results = await Promise.all(
    loads.map((load) => load({ ...task, concurrency: 32 / loads.length, disconnectPercent: 0 })),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  const failed = results.reduce((sum, result) => sum + result.failed, 0);
  if (failed > 0) throw new Error(`${server.name}: ${failed} requests failed.`);
  await Bun.sleep(settleMs);
  return {
    perSecond: requests / seconds,
    microseconds: ((cpuOf(pids) - before) * 1e6) / requests,
    redisMicroseconds: ((cpuSeconds(redisPid) - redisBefore) * 1e6) / requests,
    p50Ms: Math.max(...results.map(({ p50Ms }) => p50Ms)),
    p99Ms: Math.max(...results.map(({ p99Ms }) => p99Ms)),
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

const print = (...cells: readonly string[]) =>
  process.stdout.write(
    `${cells.map((cell, index) => (index === 0 ? cell.padEnd(24) : cell.padStart(16))).join('')}\n`,
  );

function freePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } });
  probe.stop(true);
  return probe.port;
}

const processes = new Processes();
const redisPort = freePort();
const redis = Bun.spawn(
  ['redis-server', '--port', String(redisPort), '--save', '', '--appendonly', 'no'],
  { stdout: 'ignore', stderr: 'ignore' },
);
try {
  const upstream = await processes.upstream(2, 0);
  const withRedis = { redis: `redis://127.0.0.1:${redisPort}` };
  const program = 'src/main.ts';
  const two = ['--workers', '2'];
  const servers = [
    await processes.gateway(upstream, 'one process', program),
    await processes.gateway(upstream, 'one with Redis', program, { config: withRedis }),
    await processes.gateway(upstream, 'two workers', program, { args: two }),
    await processes.gateway(upstream, 'two with Redis', program, { args: two, config: withRedis }),
  ];
  const loads = [processes.load(), processes.load()];
  const resultsByServer = new Map<Server, Round[]>(servers.map((server) => [server, []]));
  for (let round = 0; round < warmUpRounds + rounds; round += 1) {
    // The machine is warmer when the later servers run, so the order alternates.
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      const result = await runRound(server, loads, redis.pid);
      if (round >= warmUpRounds) resultsByServer.get(server)?.push(result);
    }
  }
  print('server', 'requests/s', 'CPU/request', 'Redis/request', 'p50', 'p99');
  for (const [{ name }, results] of resultsByServer) {
    const medianOf = (pick: (round: Round) => number) => median(results.map(pick));
    print(
      name,
      medianOf((round) => round.perSecond).toFixed(0),
      `${medianOf((round) => round.microseconds).toFixed(0)} µs`,
      `${medianOf((round) => round.redisMicroseconds).toFixed(0)} µs`,
      `${medianOf((round) => round.p50Ms).toFixed(1)} ms`,
      `${medianOf((round) => round.p99Ms).toFixed(1)} ms`,
    );
  }
} finally {
  await processes.stop();
  redis.kill('SIGKILL');
}
