const minute = () => Math.floor(Date.now() / 60_000);

/**
 * Runs `count` within one clock minute, which is the window of rate limits. If the minute changes,
 * `count` runs again, so it must use a new key each time.
 */
export async function withinOneMinute<Counted>(count: () => Promise<Counted>): Promise<Counted> {
  for (;;) {
    const startMinute = minute();
    const counted = await count();
    if (minute() === startMinute) return counted;
  }
}

/** Waits if midnight is near, because a new day's reports don't include the previous spending. */
export async function avoidMidnight(): Promise<void> {
  const dayMs = 24 * 60 * 60_000;
  const leftMs = dayMs - (Date.now() % dayMs);
  if (leftMs < 60_000) await Bun.sleep(leftMs + 50);
}
