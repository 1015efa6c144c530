/** Formats numbers and times for display. Days and months are UTC, as in billing. */

const integer = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en-US', {
  notation: 'compact',
  maximumSignificantDigits: 3,
});

export function count(value: number): string {
  // `|| 0` turns −0 into 0.
  return integer.format(value || 0).replace('-', '−');
}

/** `1 request`, `2 requests`. */
export function plural(value: number, unit: string): string {
  return `${count(value)} ${unit}${value === 1 ? '' : 's'}`;
}

/** `1.24M`, for narrow columns. Show the full number in a tooltip. */
export function brief(value: number): string {
  return Math.abs(value) < 10_000 ? integer.format(value) : short.format(value);
}

/** Formats a decimal string without rounding: `12345.678` becomes `12,345.678`. */
export function exactAmount(text: string): string {
  const [head = '0', tail] = text.split('.');
  return `${integer.format(BigInt(head))}${tail === undefined ? '' : `.${tail}`}`;
}

/** `$49.79`. Amounts below a dollar, as most requests cost, get 3 significant digits. */
export function usd(value: number): string {
  const isSmall = value > 0 && value < 1;
  return `$${value.toLocaleString('en-US', {
    minimumFractionDigits: 2,
    maximumFractionDigits: isSmall ? Math.min(20, 2 - Math.floor(Math.log10(value))) : 2,
  })}`;
}

/** Formats a configured price with at least 2 decimals: `0.5` becomes `$0.50`. */
export function price(text: string): string {
  const [head = '0', tail = ''] = text.split('.');
  return `$${head}.${tail.padEnd(2, '0')}`;
}

export function milliseconds(value: number): string {
  if (value < 1_000) return `${integer.format(value)} ms`;
  const seconds = value / 1_000;
  return seconds < 60 ? `${seconds.toFixed(2)} s` : `${integer.format(seconds)} s`;
}

export function percent(value: number): string {
  // Don't show a small nonzero share as 0%.
  if (value > 0 && value < 0.005) return '<0.01%';
  return `${value.toLocaleString('en-US', { maximumFractionDigits: 2 })}%`;
}

/** Uses fixed decimals so that digits align in a column. */
export function percentInColumn(value: number): string {
  if (value > 0 && value < 0.05) return '<0.1%';
  return `${value.toFixed(1)}%`;
}

export function bytes(value: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB'];
  const step = value < 1_024 ? 0 : Math.min(3, Math.floor(Math.log2(value) / 10));
  const scaled = value / 1_024 ** step;
  return `${step === 0 ? scaled : scaled.toFixed(1)} ${units[step] ?? ''}`;
}

const utc = (parts: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...parts });
const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const;
const timeFormat = utc({ day: '2-digit', month: 'short', year: 'numeric', ...clock });
const dayFormat = utc({ day: 'numeric', month: 'short' });
const hourFormat = utc({ hour: '2-digit', minute: '2-digit' });
const dateFormat = utc({ day: 'numeric', month: 'short', year: 'numeric' });
const monthFormat = utc({ month: 'long', year: 'numeric' });

export const time = (iso: string): string => timeFormat.format(new Date(iso));
/** Omits the current year. */
export const shortTime = (iso: string, now = new Date()): string =>
  time(iso).replace(` ${now.getUTCFullYear()},`, ',');
export const dayName = (seconds: number): string => dayFormat.format(new Date(seconds * 1_000));
export const hourName = (seconds: number): string => hourFormat.format(new Date(seconds * 1_000));
/** `6 May`, or `6 May, 13:00–14:00` for an hour. */
export function bucketName({ date, hour }: { readonly date: string; readonly hour?: number }) {
  const start = Date.parse(`${date}T00:00:00Z`) / 1_000;
  const hourAt = (value: number) => `${String(value).padStart(2, '0')}:00`;
  const name = dayName(start);
  return hour === undefined ? name : `${name}, ${hourAt(hour)}–${hourAt(hour + 1)}`;
}
export const date = (iso: string): string => dateFormat.format(new Date(iso));
export const monthName = (month: string): string =>
  monthFormat.format(new Date(`${month}-01T00:00:00Z`));

export function ago(iso: string | null, now = Date.now()): string {
  if (iso === null) return 'never';
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1_000);
  const steps: [number, string][] = [
    [86_400, 'day'],
    [3_600, 'hour'],
    [60, 'minute'],
  ];
  for (const [size, unit] of steps) {
    const number = Math.floor(seconds / size);
    if (number >= 1) return `${plural(number, unit)} ago`;
  }
  return 'just now';
}

export function duration(seconds: number): string {
  const [days, hours] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3_600) % 24];
  const minutes = Math.floor(seconds / 60) % 60;
  if (days > 0) return `${days} d ${hours} h`;
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min`;
}

/** Names the current period of a limit, by its reset interval. */
export const resetPeriods = {
  daily: ' today',
  weekly: ' this week',
  monthly: ' this month',
} as const;

/** Returns the change in percent, or undefined if the previous value was 0. */
export function change(current: number, previous: number): number | undefined {
  return previous === 0 ? undefined : ((current - previous) / previous) * 100;
}
