import { logLinesMax } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { EndedRequest } from './ended-request.ts';

/** The operator's log: one JSON object per line, without prompts and keys. */
export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  /** Writes complete lines. A returned promise resolves once they have been written. */
  write(lines: string): unknown;
}

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/**
 * Creates a log. If the reader is too slow, lines are dropped instead of kept in memory, because a
 * bug may write one for each request.
 */
export function createLog(write: (line: string) => unknown): Log {
  let [pending, dropped] = [0, 0];
  const add = (line: string) => {
    if (pending >= logLinesMax) {
      dropped += 1;
      return;
    }
    const written = write(line);
    if (!(written instanceof Promise)) return;
    pending += 1;
    written.then(onWritten, onWritten);
  };
  // Report dropped lines only after the reader has caught up, or the report would wait as well.
  const onWritten = () => {
    pending -= 1;
    if (pending > 0 || dropped === 0) return;
    const lines = dropped;
    dropped = 0;
    add(logLine('warn', 'log_lines_dropped', { lines }));
  };
  const line = (level: string) => (event: string, fields?: LogFields) =>
    add(logLine(level, event, fields));
  return { info: line('info'), warn: line('warn'), error: line('error'), write };
}

export function logLine(level: string, event: string, fields: LogFields = {}): string {
  // JSON.stringify escapes line breaks and control characters, so a value cannot forge a line.
  return `${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`;
}

/** Returns the messages of an exception and its causes, for a log field. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : ` (${reason(error.cause)})`;
  return `${error.message}${cause}`;
}

/** How often the log reports the requests that failed since its last report. */
const outageReportMs = 60_000;

/** Outages tracked at once. Each service has its own message; some name a provider or a path. */
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

  /** Logs what is left. Called before the process exits. */
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

/** One line per provider in this time, because every request to it fails the same way. */
const refusalReportMs = 60_000;

/** Logs providers that reject the operator's account, which clients can't fix. */
export class RefusedAccountLog {
  readonly #log: Log;
  readonly #reportedAt = new Map<string, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  ended({ attempts }: Pick<EndedRequest, 'attempts'>): void {
    for (const { provider, outcome, own_account: isOwn } of attempts) {
      const isRefusal = outcome === 'credential' || outcome === 'quota';
      if (isRefusal && !isOwn) this.#report(provider, outcome);
    }
  }

  #report(provider: string, reason: string): void {
    const now = performance.now();
    const last = this.#reportedAt.get(provider);
    if (last !== undefined && now - last < refusalReportMs) return;
    this.#reportedAt.set(provider, now);
    this.#log.warn('provider_account_rejected', { provider, reason });
  }
}
