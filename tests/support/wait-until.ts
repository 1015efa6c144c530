interface WaitOptions {
  readonly everyMs?: number;
  /** Longer than any wait takes on a busy machine, and much shorter than the limit of a test. */
  readonly withinMs?: number;
}

/**
 * Polls until the condition is true. Otherwise, rejects with the source of the condition, so that
 * a report says what didn't happen.
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  { everyMs = 5, withinMs = 20_000 }: WaitOptions = {},
): Promise<void> {
  const giveUpAt = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > giveUpAt) throw stillWaiting(withinMs, String(condition));
    await Bun.sleep(everyMs);
  }
}

/** Resolves to the promise's value. Rejects if it takes too long. */
export async function within<T>(
  promise: Promise<T>,
  subject: string,
  withinMs = 20_000,
): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(stillWaiting(withinMs, subject)), withinMs);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function stillWaiting(ms: number, subject: string): Error {
  return new Error(`Gave up after ${ms / 1000} s waiting for ${subject}`);
}
