const minute = () => Math.floor(Date.now() / 60_000);

/**
 * Limits are counted in windows that start with the minute. A count during which one ended says
 * nothing, and is taken again: whoever counts begins anew, with a key of its own.
 */
export async function withinOneMinute<Counted>(count: () => Promise<Counted>): Promise<Counted> {
  for (;;) {
    const begun = minute();
    const counted = await count();
    if (minute() === begun) return counted;
  }
}

/** What was spent in one month and read in the next is not in the reports of either. */
export async function awayFromMonthEnd(): Promise<void> {
  const now = new Date();
  const leftMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - now.getTime();
  if (leftMs < 60_000) await Bun.sleep(leftMs + 50);
}
