import { monitorEventLoopDelay } from 'node:perf_hooks';
import { counter, type Family, gauge } from './exposition.ts';

/** Fine enough to see what a client would feel, coarse enough to cost nothing. */
const lagResolutionMs = 20;

/** This process as the operating system sees it, under the names that every exporter uses. */
export class ProcessGauges {
  readonly #lag = monitorEventLoopDelay({ resolution: lagResolutionMs });
  readonly #startedSeconds = Date.now() / 1000 - process.uptime();

  constructor() {
    this.#lag.enable();
  }

  families(): Family[] {
    const { rss, heapUsed } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    return [
      this.#lagFamily(),
      gauge('process_resident_memory_bytes', 'Memory held by the process.', rss),
      gauge('tollgate_heap_used_bytes', 'Memory in use by the program.', heapUsed),
      counter('process_cpu_seconds_total', 'CPU time used.', (user + system) / 1e6),
      gauge('process_start_time_seconds', 'When the process started.', this.#startedSeconds),
    ];
  }

  stop(): void {
    this.#lag.disable();
  }

  /** Since the last look: a worst case of last week would help nobody. */
  #lagFamily(): Family {
    const seconds = (nanoseconds: number) =>
      Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds) / 1e9 : 0;
    const samples = [
      { labels: 'percentile="50"', value: seconds(this.#lag.percentile(50)) },
      { labels: 'percentile="99"', value: seconds(this.#lag.percentile(99)) },
      { labels: 'percentile="100"', value: seconds(this.#lag.max) },
    ];
    this.#lag.reset();
    const help = 'How late the event loop was since metrics were last read.';
    return { name: 'tollgate_event_loop_lag_seconds', help, type: 'gauge', samples };
  }
}
