/** Servers compared in rounds that take turns, so that a noisy machine disturbs all of them. */
import type { LoadOrder, LoadResult } from './load.ts';
import { clientKey, cpuSeconds, type Server } from './processes.ts';
import type { Workload } from './workloads.ts';

const rounds = 7;
/**
 * The compiler needs tens of thousands of requests until it leaves a server alone: what runs once
 * in a batch of five hundred gets hot late.
 */
const warmUpRounds = 8;
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

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** The medians of each server, in the order in which they were given. */
export async function compare(workload: Workload, servers: readonly Server[], load: Load) {
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
