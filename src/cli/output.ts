import { showTenant } from '../auth/manage/tenants.ts';
import { invalidRequest } from '../core/errors.ts';
import type { Args, Context, Option } from './command.ts';
import { type Cell, table } from './table.ts';

/** What the commands of the store share: the tenant, pages, JSON. */

export const tenantOption = {
  tenant: { value: '<id>', summary: 'Which tenant (default: "default")' },
} as const;

export const offsetOption: Readonly<Record<string, Option>> = {
  offset: { value: '<n>', summary: 'Leave out the first n' },
};

/** The tenant that the first start makes, unless another one is named. */
export function tenantOf(args: Args): string {
  return args.text('tenant') ?? 'default';
}

/** An unknown tenant is refused before anything happens. */
export async function deskOfTenant({ args, desk }: Context) {
  const opened = await desk();
  const { id } = await showTenant(opened, tenantOf(args));
  return { desk: opened, tenantId: id };
}

export function offsetOf(args: Args): number {
  const offset = args.number('offset') ?? 0;
  if (typeof offset === 'number' && Number.isSafeInteger(offset) && offset >= 0) return offset;
  throw invalidRequest('offset must be a whole number of at least 0.', 'offset');
}

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
