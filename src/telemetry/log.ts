import { logLinesMax } from '../core/bounds.ts';

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
  let [waiting, missing] = [0, 0];
  const add = (line: string) => {
    if (waiting >= logLinesMax) {
      missing += 1;
      return;
    }
    const written = write(line);
    if (!(written instanceof Promise)) return;
    waiting += 1;
    written.then(taken, taken);
  };
  // Told once the reader has caught up: before that, it would be one more line to wait for.
  const taken = () => {
    waiting -= 1;
    if (waiting > 0 || missing === 0) return;
    const lines = missing;
    missing = 0;
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
export function reason(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause === undefined ? '' : ` (${reason(thrown.cause)})`;
  return `${thrown.message}${cause}`;
}
