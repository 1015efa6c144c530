/** What a promise brings; undefined when the signal aborts first. */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const left = Promise.withResolvers<undefined>();
  const leave = () => left.resolve(undefined);
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  try {
    return await Promise.race([left.promise, promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
