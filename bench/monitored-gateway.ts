/** A gateway that records the longest time its event loop was blocked. */
import { setServers } from 'node:dns';
import { writeFileSync } from 'node:fs';

const tickMs = 5;
const { BENCH_STALL_FILE: file, BENCH_NAME_SERVER: nameServer } = process.env;
if (!file) throw new Error('bench/hostile.ts starts this program.');
if (nameServer) setServers([nameServer]);

/** In milliseconds. The CPU time excludes the time during which other processes ran. */
let longest = { stallMs: 0, cpuMs: 0 };
let tickedAt = performance.now();
let cpu = process.threadCpuUsage();

setInterval(() => {
  const now = performance.now();
  const { user, system } = process.threadCpuUsage(cpu);
  const stallMs = now - tickedAt - tickMs;
  const cpuMs = (user + system) / 1000;
  if (stallMs > longest.stallMs || cpuMs > longest.cpuMs) {
    longest = {
      stallMs: Math.max(stallMs, longest.stallMs),
      cpuMs: Math.max(cpuMs, longest.cpuMs),
    };
    writeFileSync(file, JSON.stringify(longest));
  }
  tickedAt = performance.now();
  cpu = process.threadCpuUsage();
}, tickMs);

process.on('SIGUSR2', () => {
  longest = { stallMs: 0, cpuMs: 0 };
});

await import('../src/main.ts');
