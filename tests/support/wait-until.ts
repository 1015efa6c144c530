// Every wait of a test ends by one of these functions, so that a test whose event never happens
// fails soon and says what it was waiting for.

interface WaitOptions {
  readonly everyMs?: number;
  readonly withinMs?: number;
}

/** Longer than any wait takes on a busy machine, and much shorter than the limit of a test. */
const waitMsMax = 20_000;

/**
 * Polls until `look` finds something, and returns it. Otherwise, rejects with the source of `look`,
 * so that a report says what didn't happen.
 */
export async function waitUntil<Found>(
  look: () => Found | Promise<Found>,
  { everyMs = 5, withinMs = waitMsMax }: WaitOptions = {},
): Promise<Exclude<Found, undefined | null | false>> {
  const giveUpAt = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (isFound(found)) return found;
    if (performance.now() > giveUpAt) throw stillWaiting(withinMs, String(look));
    await Bun.sleep(everyMs);
  }
}

function isFound<Found>(found: Found): found is Exclude<Found, undefined | null | false> {
  return found !== undefined && found !== null && found !== false;
}

/** Resolves to the promise's value. Rejects if it takes too long. */
export async function within<T>(
  promise: Promise<T>,
  subject: string,
  withinMs = waitMsMax,
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
