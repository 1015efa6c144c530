import { logLinesMax } from '../core/bounds.ts';

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
 * Creates a log. If the reader is too slow, lines are dropped instead of being kept in memory,
 * because a bug may write a line for each request.
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
  // Report dropped lines only after the reader has caught up. Otherwise, the report would also have
  // to wait.
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
