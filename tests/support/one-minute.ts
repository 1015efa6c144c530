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
