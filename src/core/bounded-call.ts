/**
 * Makes a call with a signal that fires when the time is over, when the client leaves, and when the
 * call has ended: that closes whatever an answer nobody read to its end still holds open.
 */
export async function boundedCall<T>(
  ms: number,
  client: AbortSignal | undefined,
  call: (over: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const stop = () => over.abort();
  const timer = setTimeout(stop, ms);
  client?.addEventListener('abort', stop);
  if (client?.aborted) stop();
  try {
    return await call(over.signal);
  } finally {
    clearTimeout(timer);
    client?.removeEventListener('abort', stop);
    stop();
  }
}

/** The text of an answer; undefined when it has more bytes, of which the rest is not read. */
export async function readBounded(
  { body }: Response,
  bytesMax: number,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString('utf8');
}
