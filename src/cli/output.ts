import { type Context, offsetOf } from './command.ts';

/** Prints rows of `things`. That there are none goes to stderr, so that a pipe gets only rows. */
export function printTable(
  { args, out, err }: Context,
  things: string,
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  if (rows.length > 0) out(table(header, rows));
  else err(offsetOf(args) > 0 ? `There are no more ${things}.` : `There are no ${things}.`);
}

/** Says on stderr that there may be more, so that a pipe gets only rows. */
export function nextPage({ err }: Context, offset: number, shown: number, perPage: number): void {
  if (shown === perPage) err(`There may be more: add --offset ${offset + shown}.`);
}

export function printJson({ out }: Context, value: unknown): void {
  out(JSON.stringify(value, null, 2));
}

/** Rows as people read them: aligned columns, numbers to the right. */
export type Cell = string | number | null;

const gap = '  ';

export function table(header: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isNumeric = header.map(
    (_, at) =>
      rows.some((row) => typeof row[at] === 'number') &&
      rows.every((row) => typeof row[at] !== 'string'),
  );
  const lines = [header, ...rows.map((row) => row.map(show))];
  const widths = header.map((_, at) =>
    Math.max(...lines.map((line) => Bun.stringWidth(line[at] ?? ''))),
  );
  const align = (text: string, at: number) => {
    const padding = ' '.repeat((widths[at] ?? 0) - Bun.stringWidth(text));
    return isNumeric[at] ? padding + text : text + padding;
  };
  return lines.map((line) => line.map(align).join(gap).trimEnd()).join('\n');
}

/** One record: a line per field. */
export function fields(record: Readonly<Record<string, Cell>>): string {
  const names = Object.keys(record);
  const width = Math.max(...names.map((name) => name.length));
  return names.map((name) => `${name.padEnd(width)}${gap}${show(record[name] ?? null)}`).join('\n');
}

/** Like `counted` of core/, with the number as tables show it: `1,000 credits`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${show(count)} ${count === 1 ? one : many}`;
}

/** `2026-11-15 02:13` from an ISO time, in UTC. */
export function minute(time: string | null): string | null {
  return time === null ? null : time.slice(0, 16).replace('T', ' ');
}

/**
 * Names and messages come from users: control characters in them must not move the cursor or break
 * the line.
 */
function show(cell: Cell): string {
  if (cell === null) return '–';
  if (typeof cell === 'number') return cell.toLocaleString('en-US');
  return cell.replace(/\p{Cc}+/gu, ' ');
}
