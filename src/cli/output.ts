import type { Context } from './command.ts';
import { offsetOf } from './shared-options.ts';
import { type Cell, table } from './table.ts';

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
