import { type Route, setQuery } from './route.ts';

/** A range of UTC days, as in the URL. It includes both days. */
export interface Range {
  readonly from: string;
  readonly to: string;
}

const dayMs = 86_400_000;

const dayText = (time: number): string => new Date(time).toISOString().slice(0, 10);

export function lastDays(count: number, now = Date.now()): Range {
  return { from: dayText(now - (count - 1) * dayMs), to: dayText(now) };
}

function isDay(text: string): boolean {
  const time = Date.parse(text);
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(time) && dayText(time) === text;
}

/** Reads the range from the URL; if it's missing or invalid, returns the last `defaultDays`. */
export function rangeOf({ query }: Route, defaultDays: number): Range {
  const fallback = lastDays(defaultDays);
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? ''];
  if (!isDay(from) || !isDay(to) || from > to) return fallback;
  return { from, to };
}

/** Returns the month that contains a day. The current month ends today. */
export function monthOf(day: string, now = Date.now()): Range {
  const [year = 0, month = 0] = day.split('-').map(Number);
  const end = dayText(Date.UTC(year, month, 0));
  const today = dayText(now);
  return { from: `${day.slice(0, 7)}-01`, to: end < today ? end : today };
}

/** Returns how many days the credits last at this month's rate, or undefined without spend. */
export function daysLeft(credits: number, spent: number, now = Date.now()): number | undefined {
  if (spent === 0) return undefined;
  return Math.floor((credits / spent) * new Date(now).getUTCDate());
}

export function daysIn({ from, to }: Range): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / dayMs) + 1;
}

/** Returns the range of the same length right before this one. */
export function previousRange(range: Range): Range {
  const end = Date.parse(range.from) - dayMs;
  return { from: dayText(end - (daysIn(range) - 1) * dayMs), to: dayText(end) };
}

export function chooseRange({ from, to }: Range, mode: 'push' | 'replace' = 'push'): void {
  setQuery({ from, to, offset: null }, mode);
}
