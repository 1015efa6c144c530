import { limitPeriod } from '../core/caller.ts';
import { invalidRequest } from '../core/errors.ts';

/** Reads dates and months from queries. Everything is UTC. */

export const dayMs = 86_400_000;
export const hourMs = 3_600_000;
export const hoursPerDay = 24;

/** Epoch milliseconds: `from` is inclusive, `until` is exclusive. */
export interface Period {
  readonly from: number;
  readonly until: number;
}

/** The full range of JavaScript dates from 1970. */
export const allTime: Period = { from: 0, until: 8_640_000_000_000_000 };

const dayPattern = '(\\d{4}-\\d{2}-\\d{2})';
const zonePattern = '(Z|[+-](?:[01]\\d|2[0-3]):?[0-5]\\d)?';
const clockPattern = `T(\\d{2}):(\\d{2})(?::(\\d{2})(?:\\.(\\d{1,9}))?)?${zonePattern}`;
const datePattern = new RegExp(`^${dayPattern}(?:${clockPattern})?$`, 'i');

export interface PeriodQuery {
  readonly start: string | null;
  readonly end: string | null;
}

/**
 * Both ends are inclusive: a date covers the whole day, and a time covers the whole minute or
 * second.
 */
export function readPeriod({ start, end }: PeriodQuery): Period {
  const from = start === null ? allTime.from : readDate(start, 'start_date').from;
  const until = end === null ? allTime.until : readDate(end, 'end_date').until;
  if (start !== null && from >= until) throw reversedRange();
  return { from, until };
}

export interface DayRange {
  /** Days since 1970, both inclusive. */
  readonly first: number;
  readonly last: number;
}

/** Ten years of daily rows make a response of about 1 MB. */
const daysMax = 3_660;
const defaultDays = 7;

/** Hours since 1970, both inclusive. */
export interface HourRange {
  readonly first: number;
  readonly last: number;
}

/** Returns the hours of a report that contain its ends, or undefined if it covers full days. */
export function readHours(query: PeriodQuery, { first, last }: DayRange): HourRange | undefined {
  const { from, until } = readPeriod(query);
  const start = query.start === null ? first * hoursPerDay : Math.floor(from / hourMs);
  const isOpen = query.end === null;
  const end = isOpen ? (last + 1) * hoursPerDay - 1 : Math.floor((until - 1) / hourMs);
  const isFullDays = start % hoursPerDay === 0 && (end + 1) % hoursPerDay === 0;
  return isFullDays ? undefined : { first: start, last: end };
}

/** Returns the days that a report covers, including those of which it covers only hours. */
export function readDays({ start, end }: PeriodQuery, now: number): DayRange {
  const last = end === null ? dayOf(now) : dayOf(readDate(end, 'end_date').until - 1);
  const first = start === null ? last - defaultDays : dayOf(readDate(start, 'start_date').from);
  if (first > last) throw reversedRange();
  if (last - first >= daysMax) {
    throw invalidRequest(
      `A report covers at most ${daysMax} days. Choose a later start_date.`,
      'start_date',
    );
  }
  return { first, last };
}

/** Reads `YYYY-MM`; the default is the current month. */
export function readMonth(text: string | null, now: number): Period {
  if (text === null) return monthAround(now);
  const [, year = 0, month = 0] = (/^(\d{4})-(\d{2})$/.exec(text) ?? []).map(Number);
  if (year < 1970 || month < 1 || month > 12) {
    throw invalidRequest(`month must be a month such as 2026-02, not "${text}".`, 'month');
  }
  const requested = monthAround(Date.UTC(year, month - 1));
  if (requested.from > now) throw invalidRequest('month must not be in the future.', 'month');
  return requested;
}

export function monthAround(time: number): Period {
  return limitPeriod('monthly', time);
}

export function daysOf({ from, until }: Period): DayRange {
  return { first: dayOf(from), last: dayOf(until - 1) };
}

export function dayOf(time: number): number {
  return Math.floor(time / dayMs);
}

export function isoTime(time: number): string {
  return new Date(time).toISOString();
}

/** Formats a day number since 1970 as `2026-02-28`. */
export function isoDay(day: number): string {
  return isoTime(day * dayMs).slice(0, -'T00:00:00.000Z'.length);
}

function readDate(text: string, name: string): Period {
  // An unescaped plus sign in a query is decoded as a space.
  const match = datePattern.exec(text.replace(/ (?=\d{2}:?\d{2}$)/, '+'));
  const [, day = '', hour, minute, second, fraction = '', zone] = match ?? [];
  const midnight = Date.parse(`${day}T00:00:00Z`);
  // Date.parse turns November 31 into December 1.
  if (Number.isNaN(midnight) || !isoTime(midnight).startsWith(day)) throw invalidDate(name, text);
  if (hour === undefined) return { from: midnight, until: midnight + dayMs };
  const seconds = Number(hour) * 3600 + Number(minute) * 60 + Number(second ?? 0);
  const isClock = Number(hour) < 24 && Number(minute) < 60 && Number(second ?? 0) < 60;
  if (!isClock) throw invalidDate(name, text);
  const milliseconds = Number(fraction.padEnd(3, '0').slice(0, 3));
  const from = midnight + seconds * 1000 + milliseconds - zoneMs(zone);
  return { from, until: from + precisionMs(second, fraction) };
}

/** A time without seconds covers the whole minute. A time without a fraction covers the second. */
function precisionMs(second: string | undefined, fraction: string): number {
  if (second === undefined) return 60_000;
  return fraction === '' ? 1000 : 1;
}

/** A time without a zone is UTC. */
function zoneMs(zone: string | undefined): number {
  if (zone === undefined || zone.toUpperCase() === 'Z') return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(-2))];
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}

function invalidDate(name: string, text: string) {
  const example = '2026-02-28 or 2026-02-28T12:00:00Z';
  return invalidRequest(`${name} must be a date such as ${example}, not "${text}".`, name);
}

function reversedRange() {
  return invalidRequest('start_date must not be after end_date.', 'start_date');
}
