/** Compares servers in alternating rounds, so that a noisy machine disturbs all of them. */
import type { LoadOrder, LoadResult } from './load.ts';
import { clientKey, cpuSeconds, type Server } from './processes.ts';
import type { Workload } from './workloads.ts';

const rounds = 11;
/**
 * The runtime's compiler goes on optimising a server for tens of thousands of requests: code that
 * runs once per batch of hundreds is optimised late.
 */
const warmUpRounds = 8;
/** Writes that follow a request belong to its round. */
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

export interface Comparison {
  /** The medians of each server. */
  readonly first: Measured;
  readonly second: Measured;
  /**
   * The CPU time of the second server divided by that of the first: the median over all rounds. A
   * machine's speed may drift by a third within minutes, but hardly within one round.
   */
  readonly ratio: number;
}

export interface Measured {
  readonly name: string;
  readonly microseconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly readsPerRequest: number;
}

export async function compare(
  workload: Workload,
  servers: readonly [Server, Server],
  load: Load,
): Promise<Comparison> {
  const played: [Round[], Round[]] = [[], []];
  const order = [0, 1] as const;
  for (let round = 0; round < warmUpRounds; round += 1) {
    for (const server of servers) await play(server, workload, load);
  }
  for (let round = 0; round < rounds; round += 1) {
    // The second one finds a warmer machine, so the order alternates.
    for (const at of round % 2 === 0 ? order : order.toReversed()) {
      played[at].push(await play(servers[at], workload, load));
    }
  }
  const [one, other] = played;
  const ratios = one.map(({ microseconds }, at) => (other[at]?.microseconds ?? 0) / microseconds);
  return {
    first: measured(servers[0], one, workload),
    second: measured(servers[1], other, workload),
    ratio: median(ratios),
  };
}

function measured({ name }: Server, played: readonly Round[], { requests }: Workload): Measured {
  const of = (pick: (round: Round) => number) => median(played.map(pick));
  return {
    name,
    microseconds: of((round) => round.microseconds),
    p50Ms: of((round) => round.p50Ms),
    p99Ms: of((round) => round.p99Ms),
    readsPerRequest: of((round) => round.reads) / requests,
  };
}
