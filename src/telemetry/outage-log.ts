import type { PeriodicTask } from '../core/periodic-task.ts';
import type { Log, LogFields } from './log.ts';

/** How often the log reports the requests that failed since its last report. */
const outageReportMs = 60_000;

/**
 * Maximum number of outages tracked at once. Each has its own message, which may name a provider or
 * a path.
 */
const outagesMax = 100;

interface Outage {
  reason: string;
  requests: number;
  /** How many of these requests have been logged. */
  reported: number;
}

/**
 * Logs requests that fail during an outage. They all fail for the same reason, so the first one is
 * logged in full and the rest are counted, to keep other lines visible.
 */
export class OutageLog {
  readonly #log: Log;
  readonly #outages = new Map<string, Outage>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Outages are distinguished by `message`. The reason may differ from one request to the next. */
  failed(message: string, fields: LogFields & { readonly reason: string }): void {
    const outage = this.#outages.get(message);
    if (outage) {
      outage.requests += 1;
      outage.reason = fields.reason;
      return;
    }
    if (this.#outages.size < outagesMax) {
      this.#outages.set(message, { reason: fields.reason, requests: 1, reported: 1 });
    }
    this.#log.error('request_failed', fields);
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: outageReportMs, run: async () => this.#reportAll() }];
  }

  /** Logs the failures that were not reported yet. Called before the process exits. */
  flush(): void {
    for (const outage of this.#outages.values()) this.#reportNew(outage);
  }

  /** A minute without a failure counts as the end of an outage. */
  #reportAll(): void {
    for (const [message, outage] of this.#outages) {
      if (this.#reportNew(outage)) continue;
      const { reason, requests } = outage;
      this.#outages.delete(message);
      if (requests > 1) this.#log.info('requests_recovered', { requests, reason });
    }
  }

  #reportNew(outage: Outage): boolean {
    const requests = outage.requests - outage.reported;
    if (requests === 0) return false;
    this.#log.error('requests_failed', { requests, reason: outage.reason });
    outage.reported = outage.requests;
    return true;
  }
}
