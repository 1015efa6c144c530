/** Structured lines for the operator: one JSON object each, never a prompt, never a key. */
export interface Log {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
}

export type Fields = Readonly<Record<string, string | number | boolean | null | undefined>>;

export function createLog(write: (line: string) => void): Log {
  const line =
    (level: string) =>
    (event: string, fields: Fields = {}) => {
      // JSON.stringify escapes line breaks and control characters, so a value cannot forge a line.
      write(`${JSON.stringify({ time: new Date().toISOString(), level, event, ...fields })}\n`);
    };
  return { info: line('info'), warn: line('warn'), error: line('error') };
}

/** What an exception says, for a log field. */
export function reason(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause === undefined ? '' : ` (${reason(thrown.cause)})`;
  return `${thrown.message}${cause}`;
}
