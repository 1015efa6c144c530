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

/** What was spent on one day and read on the next is in no report of this day or its month. */
export async function awayFromMidnight(): Promise<void> {
  const dayMs = 24 * 60 * 60_000;
  const leftMs = dayMs - (Date.now() % dayMs);
  if (leftMs < 60_000) await Bun.sleep(leftMs + 50);
}
