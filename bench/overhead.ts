/**
 * What the gateway costs over a bare proxy of 40 lines: CPU time of the whole process, both in
 * front of the same upstream, in rounds that take turns so that a noisy machine disturbs both.
 * Run it with `bun bench/overhead.ts`; it takes about three minutes.
 */
import type { LoadOrder, LoadResult } from './load.ts';
import { clientKey, cpuSeconds, Processes, type Server } from './processes.ts';
import { chunkSpacingMs, chunksPerStream, type Workload, workloads } from './workloads.ts';

const rounds = 7;
/** The compiler needs tens of thousands of requests until it leaves a server alone. */
const warmUpRounds = 3;
/** What a request leaves to be written afterwards belongs to its round. */
const afterworkMs = 300;

interface Round extends LoadResult {
  readonly microseconds: number;
}

type Load = (order: LoadOrder) => Promise<LoadResult>;

async function play(server: Server, workload: Workload, load: Load): Promise<Round> {
  const { body, requests, concurrency, partsPerRequest } = workload;
  const before = cpuSeconds(server.pid);
  const result = await load({
    url: server.url,
    key: clientKey,
    body,
    requests,
    concurrency,
    leavingPercent: 0,
  });
  if (result.failed > 0) throw new Error(`${server.name}: ${result.failed} requests failed.`);
  await Bun.sleep(afterworkMs);
  const seconds = cpuSeconds(server.pid) - before;
  return { ...result, microseconds: (seconds * 1e6) / (requests * partsPerRequest) };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function compare(workload: Workload, servers: readonly Server[], load: Load) {
  const played = new Map<Server, Round[]>(servers.map((server) => [server, []]));
  for (let round = 0; round < warmUpRounds; round += 1) {
    for (const server of servers) await play(server, workload, load);
  }
  for (let round = 0; round < rounds; round += 1) {
    // Whoever goes second finds a warmer machine, so the order alternates.
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      played.get(server)?.push(await play(server, workload, load));
    }
  }
  return servers.map((server) => {
    const results = played.get(server) ?? [];
    const of = (pick: (round: Round) => number) => median(results.map(pick));
    return {
      name: server.name,
      microseconds: of((round) => round.microseconds),
      p50Ms: of((round) => round.p50Ms),
      p99Ms: of((round) => round.p99Ms),
      readsPerRequest: of((round) => round.reads) / workload.requests,
    };
  });
}

const columns = [22, 10, 16, 9, 9, 9];
const print = (...cells: readonly string[]) => {
  const padded = cells.map((cell, at) =>
    (at < 2 ? cell.padEnd : cell.padStart).call(cell, columns[at] ?? 8),
  );
  process.stdout.write(`${padded.join(' ').trimEnd()}\n`);
};

const processes = new Processes();
try {
  const upstream = await processes.upstream(chunksPerStream, chunkSpacingMs);
  const servers = [
    await processes.serve('bare proxy', 'bench/bare-proxy.ts', upstream.url),
    await processes.gateway(upstream),
  ];
  const load = processes.load();
  print('workload', 'server', 'CPU', 'p50', 'p99', 'reads');
  for (const workload of workloads) {
    const [bare, gateway] = await compare(workload, servers, load);
    if (!bare || !gateway) throw new Error('Two servers are compared.');
    for (const { name, microseconds, p50Ms, p99Ms, readsPerRequest } of [bare, gateway]) {
      const cpu = `${microseconds.toFixed(1)} µs/${workload.part}`;
      const [p50, p99] = [`${p50Ms.toFixed(1)} ms`, `${p99Ms.toFixed(1)} ms`];
      print(workload.name, name, cpu, p50, p99, readsPerRequest.toFixed(1));
    }
    const ratio = gateway.microseconds / bare.microseconds;
    const verdict = ratio <= workload.ratioMax ? 'reached' : 'missed';
    print('', '', `${ratio.toFixed(2)}×`, `at most ${workload.ratioMax}×: ${verdict}`);
  }
} finally {
  await processes.stop();
}
