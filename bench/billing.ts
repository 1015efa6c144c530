/**
 * Measures the cost of billing: the CPU time of a small request, compared with a gateway without
 * holds, journal, and ledger. Run it with `bun bench/billing.ts`. It takes about 2 minutes.
 */

import { compare } from './compare.ts';
import { Processes } from './processes.ts';
import { chunkSpacingMs, chunksPerStream, workloads } from './workloads.ts';

const ratioMax = 1.25;

const processes = new Processes();
try {
  const [small] = workloads;
  if (!small) throw new Error('The first workload must be the small request.');
  const upstream = await processes.upstream(chunksPerStream, chunkSpacingMs);
  const free = await processes.gateway(upstream, 'free', 'bench/unbilled-gateway.ts');
  const billing = await processes.gateway(upstream, 'billing');
  const { first, second, ratio } = await compare(small, [free, billing], processes.load());
  for (const { name, microseconds, p50Ms, p99Ms } of [first, second]) {
    const times = `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
    process.stdout.write(`${name.padEnd(8)} ${microseconds.toFixed(1)} µs/request, ${times}\n`);
  }
  const verdict = ratio <= ratioMax ? 'passed' : 'failed';
  process.stdout.write(`${ratio.toFixed(2)}×, at most ${ratioMax}×: ${verdict}\n`);
} finally {
  await processes.stop();
}
