/** Compares two servers in alternating rounds, so that noise affects both equally. */
import type { LoadResult, LoadTask } from './load.ts';
import { clientKey, cpuSeconds, type Server } from './processes.ts';
import type { Workload } from './workloads.ts';

const rounds = 11;
/**
 * The JIT compiler needs tens of thousands of requests, because code that runs only once per batch
 * is optimized late.
 */
const warmUpRounds = 8;
/** Time for the writes that follow the last response, because they are part of the round. */
const settleMs = 300;

interface Round extends LoadResult {
  readonly microseconds: number;
}

type Load = (task: LoadTask) => Promise<LoadResult>;

async function runRound(server: Server, workload: Workload, load: Load): Promise<Round> {
  const { body, requests, concurrency, unitsPerRequest } = workload;
  const before = cpuSeconds(server.pid);
  const result = await load({
    url: server.url,
    key: clientKey,
    body,
    requests,
    concurrency,
    disconnectPercent: 0,
  });
  if (result.failed > 0) throw new Error(`${server.name}: ${result.failed} requests failed.`);
  await Bun.sleep(settleMs);
  const seconds = cpuSeconds(server.pid) - before;
  return { ...result, microseconds: (seconds * 1e6) / (requests * unitsPerRequest) };
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

export interface Comparison {
  /** The medians of each server. */
  readonly first: Measured;
  readonly second: Measured;
  /**
   * The CPU time of the second server divided by that of the first server, as the median of all
   * rounds. A machine's speed may change by a third within minutes, but rarely within a round.
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
  const results: [Round[], Round[]] = [[], []];
  const order = [0, 1] as const;
  for (let round = 0; round < warmUpRounds; round += 1) {
    for (const server of servers) await runRound(server, workload, load);
  }
  for (let round = 0; round < rounds; round += 1) {
    // The machine is warmer when the second server runs, so the order alternates.
    for (const index of round % 2 === 0 ? order : order.toReversed()) {
      results[index].push(await runRound(servers[index], workload, load));
    }
  }
  const [first, second] = results;
  const ratios = first.map(
    ({ microseconds }, index) => (second[index]?.microseconds ?? 0) / microseconds,
  );
  return {
    first: summarize(servers[0], first, workload),
    second: summarize(servers[1], second, workload),
    ratio: median(ratios),
  };
}

function summarize({ name }: Server, results: readonly Round[], { requests }: Workload): Measured {
  const medianOf = (pick: (round: Round) => number) => median(results.map(pick));
  return {
    name,
    microseconds: medianOf((round) => round.microseconds),
    p50Ms: medianOf((round) => round.p50Ms),
    p99Ms: medianOf((round) => round.p99Ms),
    readsPerRequest: medianOf((round) => round.reads) / requests,
  };
}
