import type { LimitReset } from './caller.ts';

/** The UTC day, week or month around a time, until the first millisecond of the next. */
export function limitPeriod(reset: LimitReset, now: number) {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  // getUTCDay counts from Sunday, weeks begin on Monday.
  const monday = day - ((date.getUTCDay() + 6) % 7);
  switch (reset) {
    case 'daily':
      return { from: Date.UTC(year, month, day), until: Date.UTC(year, month, day + 1) };
    case 'weekly':
      return { from: Date.UTC(year, month, monday), until: Date.UTC(year, month, monday + 7) };
    case 'monthly':
      return { from: Date.UTC(year, month), until: Date.UTC(year, month + 1) };
  }
}
