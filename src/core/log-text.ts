/** Longer words than this are nobody's model or finish reason. */
const loggedLengthMax = 200;

/**
 * Words of a client or an upstream as both engines can keep them. Postgres refuses zero bytes and
 * halves of characters, and one row that it refuses would hold up all others.
 */
export function logText(text: string): string {
  return text.slice(0, loggedLengthMax).toWellFormed().replaceAll('\0', '\ufffd');
}
