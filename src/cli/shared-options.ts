import { showTenant } from '../auth/manage/tenants.ts';
import { invalidRequest } from '../core/errors.ts';
import type { Args, Context, Option } from './command.ts';

/** Options that several commands take: which tenant, and where in a list to begin. */

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
