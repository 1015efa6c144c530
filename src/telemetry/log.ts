import { logLinesMax } from '../core/bounds.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { EndedRequest } from './ended-request.ts';

/** Structured lines for the operator: one JSON object each, never a prompt, never a key. */
export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
  /** Whole lines put together elsewhere. A promise says when they have been taken. */
  write(lines: string): unknown;
}

export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/**
 * When nobody reads the log, lines are dropped rather than kept in memory: a fault of ours may
 * write one for each request.
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
  // Told once the reader has caught up: before that, it would be one more line to wait for.
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

/** What an exception says, for a log field. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : ` (${reason(error.cause)})`;
  return `${error.message}${cause}`;
}

/** How often the log says how many requests an outage has cost since it last did. */
const outageReportMs = 60_000;

/** Whatever can be away has its own sentence; a few of these name a provider or a path. */
const sentencesMax = 100;

interface Outage {
  reason: string;
  requests: number;
  /** How many of these requests the log has been told of. */
  reported: number;
}

/**
 * While something is away, every request fails for the same reason, and a line for each would bury
 * all others: the first is told whole, the rest are counted.
 */
export class OutageLog {
  readonly #log: Log;
  readonly #outages = new Map<string, Outage>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** `sentence` tells outages apart; the reason may differ from one request to the next. */
  failed(sentence: string, fields: LogFields & { readonly reason: string }): void {
    const outage = this.#outages.get(sentence);
    if (outage) {
      outage.requests += 1;
      outage.reason = fields.reason;
      return;
    }
    if (this.#outages.size < sentencesMax) {
      this.#outages.set(sentence, { reason: fields.reason, requests: 1, reported: 1 });
    }
    this.#log.error('request_failed', fields);
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: outageReportMs, run: async () => this.#reportAll() }];
  }

  /** Called before the process ends, and its counts with it. */
  flush(): void {
    for (const outage of this.#outages.values()) this.#reportNew(outage);
  }

  /** A minute without a failure is taken for the end: nobody else says when that is. */
  #reportAll(): void {
    for (const [sentence, outage] of this.#outages) {
      if (this.#reportNew(outage)) continue;
      const { reason, requests } = outage;
      this.#outages.delete(sentence);
      if (requests > 1) this.#log.info('requests_served_again', { failed: requests, reason });
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

/** Every request to the provider fails alike: a line for each would bury all others. */
const refusalReportMs = 60_000;

/** Providers that refuse the operator's account. Clients hear of it, and cannot mend it. */
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

  #report(provider: string, why: string): void {
    const now = performance.now();
    const last = this.#reportedAt.get(provider);
    if (last !== undefined && now - last < refusalReportMs) return;
    this.#reportedAt.set(provider, now);
    this.#log.warn('account_refused', { provider, why });
  }
}
