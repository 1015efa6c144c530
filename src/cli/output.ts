import { type Context, offsetOf } from './command.ts';

/** Prints rows. If there are none, it says so on stderr, so that a pipe receives only rows. */
export function printTable(
  { args, out, err }: Context,
  plural: string,
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  if (rows.length > 0) out(table(header, rows));
  else err(offsetOf(args) > 0 ? `There are no more ${plural}.` : `There are no ${plural}.`);
}

/** Prints to stderr how to get the next page, so that a pipe receives only rows. */
export function hintAtNextPage(
  { err }: Context,
  offset: number,
  shown: number,
  perPage: number,
): void {
  if (shown === perPage) err(`There may be more. To continue, add --offset ${offset + shown}.`);
}

export function printJson({ out }: Context, value: unknown): void {
  out(JSON.stringify(value, null, 2));
}

/** The value of a table cell or field. Null is shown as a dash. */
export type Cell = string | number | null;

const gap = '  ';

/** Formats rows as aligned columns, with numbers aligned to the right. */
export function table(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isNumeric = header.map(
    (_, column) =>
      rows.some((row) => typeof row[column] === 'number') &&
      rows.every((row) => typeof row[column] !== 'string'),
  );
  const lines = [header, ...rows.map((row) => row.map(format))];
  const widths = header.map((_, column) =>
    Math.max(...lines.map((line) => Bun.stringWidth(line[column] ?? ''))),
  );
  const align = (text: string, column: number) => {
    const padding = ' '.repeat((widths[column] ?? 0) - Bun.stringWidth(text));
    return isNumeric[column] ? padding + text : text + padding;
  };
  return lines.map((line) => line.map(align).join(gap).trimEnd()).join('\n');
}

/** Formats a record, with one line per field. */
export function fields(record: Readonly<Record<string, Cell>>): string {
  const names = Object.keys(record);
  const width = Math.max(...names.map((name) => name.length));
  return names
    .map((name) => `${name.padEnd(width)}${gap}${format(record[name] ?? null)}`)
    .join('\n');
}

/** Like `pluralize`, but with thousands separators for people to read: `1,000 credits`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${format(count)} ${count === 1 ? one : many}`;
}

/** Shortens an ISO time to the minute, in UTC: `2026-11-15 02:13`. */
export function formatMinute(time: string | null): string | null {
  return time === null ? null : time.slice(0, 16).replace('T', ' ');
}

/**
 * Formats a cell. Control characters in names and messages, which come from users, must not move
 * the cursor or break the line.
 */
function format(cell: Cell): string {
  if (cell === null) return '–';
  if (typeof cell === 'number') return cell.toLocaleString('en-US');
  return cell.replace(/\p{Cc}+/gu, ' ');
}
