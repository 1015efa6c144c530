import { choose, type Route } from './route.ts';

/** Ranges of UTC days, both ends included, as the address holds them. */
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

export function rangeOf({ query }: Route, usualDays: number): Range {
  const usual = lastDays(usualDays);
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? ''];
  if (!isDay(from) || !isDay(to) || from > to) return usual;
  return { from, to };
}

/** The month that contains a day; the current month ends today. */
export function monthOf(day: string, now = Date.now()): Range {
  const [year = 0, month = 0] = day.split('-').map(Number);
  const end = dayText(Date.UTC(year, month, 0));
  const today = dayText(now);
  return { from: `${day.slice(0, 7)}-01`, to: end < today ? end : today };
}

/**
 * How many days the credits last if spending goes on as in this month; undefined if nothing was
 * spent.
 */
export function daysLeft(credits: number, spent: number, now = Date.now()): number | undefined {
  if (spent === 0) return undefined;
  return Math.floor((credits / spent) * new Date(now).getUTCDate());
}

export function daysIn({ from, to }: Range): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / dayMs) + 1;
}

/** The period of the same length right before this one. */
export function previousRange(range: Range): Range {
  const end = Date.parse(range.from) - dayMs;
  return { from: dayText(end - (daysIn(range) - 1) * dayMs), to: dayText(end) };
}

export function chooseRange({ from, to }: Range, mode: 'push' | 'replace' = 'push'): void {
  choose({ from, to, offset: null }, mode);
}
