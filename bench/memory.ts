/**
 * Measures the resident memory after 20,000 requests and after 20,000 streams. The client aborts
 * 40% of the streams. Run it with `bun bench/memory.ts`. It takes about a minute.
 */
import type { LoadResult, LoadTask } from './load.ts';
import { clientKey, Processes, residentMegabytes, type Server } from './processes.ts';
import { workloads } from './workloads.ts';

const chunks = 20;
const spacingMs = 4;
const requests = 20_000;
const concurrency = 128;
/** Long enough for the runtime to collect garbage and return memory. */
const idleMs = 5_000;

async function measure(
  server: Server,
  load: (task: LoadTask) => Promise<LoadResult>,
): Promise<number[]> {
  const [small, stream] = workloads;
  if (!small || !stream)
    throw new Error('The first two workloads must be the small request and the stream.');
  const task = { url: server.url, key: clientKey, requests, concurrency };
  const readings = [residentMegabytes(server.pid)];
  for (const { body, disconnectPercent } of [
    { body: small.body, disconnectPercent: 0 },
    { body: stream.body, disconnectPercent: 40 },
    { body: stream.body, disconnectPercent: 40 },
  ]) {
    const { failed } = await load({ ...task, body, disconnectPercent });
    if (failed > 0) throw new Error(`${server.name}: ${failed} requests failed.`);
    await Bun.sleep(idleMs);
    readings.push(residentMegabytes(server.pid));
  }
  return readings;
}

const processes = new Processes();
try {
  const upstream = await processes.upstream(chunks, spacingMs);
  const servers = [
    await processes.serve('bare proxy', 'bench/bare-proxy.ts', upstream.url),
    await processes.gateway(upstream),
  ];
  const load = processes.load();
  const titles = ['at start', '20,000 requests', '20,000 streams', '20,000 more'];
  const print = (name: string, cells: readonly string[]) =>
    process.stdout.write(`${name.padEnd(12)}${cells.map((cell) => cell.padStart(17)).join('')}\n`);
  print('resident', titles);
  for (const server of servers) {
    const readings = await measure(server, load);
    print(
      server.name,
      readings.map((megabytes) => `${megabytes.toFixed(0)} MB`),
    );
  }
} finally {
  await processes.stop();
}
