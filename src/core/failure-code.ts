/** The code that a driver or the system gave a failure: `SQLITE_FULL`, `ECONNREFUSED`, `23505`. */
export function failureCode(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}

/** The message of a failure, whatever was thrown. */
export function failureMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
