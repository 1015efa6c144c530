/** What a promise brings that cannot be interrupted; rejects when the signal fires first. */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(signal.reason);
  if (signal.aborted) giveUp();
  else signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([aborted, promise]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
