const minute = () => Math.floor(Date.now() / 60_000);

/**
 * Runs `count` within one calendar minute, the window of rate limits. Repeats it if the minute
 * changed, so it must use a new key each time.
 */
export async function withinOneMinute<Counted>(count: () => Promise<Counted>): Promise<Counted> {
  for (;;) {
    const startMinute = minute();
    const counted = await count();
    if (minute() === startMinute) return counted;
  }
}

/** Waits if midnight is near, because reports of the new day lack what was spent before it. */
export async function avoidMidnight(): Promise<void> {
  const dayMs = 24 * 60 * 60_000;
  const leftMs = dayMs - (Date.now() % dayMs);
  if (leftMs < 60_000) await Bun.sleep(leftMs + 50);
}
