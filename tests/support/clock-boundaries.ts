const minute = () => Math.floor(Date.now() / 60_000);

/**
 * Limits are counted in windows of a calendar minute. If the minute changed during `count`, the
 * result says nothing, so `count` runs again: it must begin anew, with a new key.
 */
export async function withinOneMinute<Counted>(count: () => Promise<Counted>): Promise<Counted> {
  for (;;) {
    const begun = minute();
    const counted = await count();
    if (minute() === begun) return counted;
  }
}

/**
 * Waits if midnight is near: what is spent before midnight and read after it is missing in the
 * reports of the new day and month.
 */
export async function avoidMidnight(): Promise<void> {
  const dayMs = 24 * 60 * 60_000;
  const leftMs = dayMs - (Date.now() % dayMs);
  if (leftMs < 60_000) await Bun.sleep(leftMs + 50);
}
