/**
 * Compares the CPU time of the gateway with the CPU time of a 40-line proxy in front of the same
 * upstream. Rounds alternate, so that noise affects both equally. Run it with
 * `bun bench/overhead.ts`. It takes about 5 minutes.
 */

import { compare } from './compare.ts';
import { Processes } from './processes.ts';
import { chunkSpacingMs, chunksPerStream, workloads } from './workloads.ts';

const columns = [22, 10, 16, 9, 9, 9];
const print = (...cells: readonly string[]) => {
  const padded = cells.map((cell, index) =>
    (index < 2 ? cell.padEnd : cell.padStart).call(cell, columns[index] ?? 8),
  );
  process.stdout.write(`${padded.join(' ').trimEnd()}\n`);
};

const processes = new Processes();
try {
  const upstream = await processes.upstream(chunksPerStream, chunkSpacingMs);
  const bare = await processes.serve('bare proxy', 'bench/bare-proxy.ts', upstream.url);
  const gateway = await processes.gateway(upstream);
  const load = processes.load();
  print('workload', 'server', 'CPU', 'p50', 'p99', 'reads');
  for (const workload of workloads) {
    const { first, second, ratio } = await compare(workload, [bare, gateway], load);
    for (const { name, microseconds, p50Ms, p99Ms, readsPerRequest } of [first, second]) {
      const cpu = `${microseconds.toFixed(1)} µs/${workload.unit}`;
      const [p50, p99] = [`${p50Ms.toFixed(1)} ms`, `${p99Ms.toFixed(1)} ms`];
      print(workload.name, name, cpu, p50, p99, readsPerRequest.toFixed(1));
    }
    const verdict = ratio <= workload.ratioMax ? 'passed' : 'failed';
    print('', '', `${ratio.toFixed(2)}×`, `at most ${workload.ratioMax}×: ${verdict}`);
  }
} finally {
  await processes.stop();
}
