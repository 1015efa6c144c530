/** Structured lines for the operator: one JSON object each, never a prompt, never a key. */
export interface Log {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
  /** Whole lines put together elsewhere. A promise says when they have been taken. */
  write(lines: string): unknown;
}

export type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>;

export function createLog(write: (line: string) => unknown): Log {
  const line =
    (level: string) =>
    (event: string, fields: Fields = {}) => {
      write(logLine(level, event, fields));
    };
  return { info: line('info'), warn: line('warn'), error: line('error'), write };
}

export function logLine(level: string, event: string, fields: Fields): string {
  // JSON.stringify escapes line breaks and control characters, so a value cannot forge a line.
  return `${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`;
}

/** What an exception says, for a log field. */
export function reason(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause === undefined ? '' : ` (${reason(thrown.cause)})`;
  return `${thrown.message}${cause}`;
}
