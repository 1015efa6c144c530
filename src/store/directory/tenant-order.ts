import { type RawBuilder, sql } from 'kysely';
import type { TenantOrder } from '../../auth/directory.ts';
import { walletName } from '../../ledger/owner.ts';
import type { Engine } from '../database.ts';
import { charged } from '../expressions.ts';
import { plain } from './search.ts';

const sums = {
  spend: sql`sum(${charged})`,
  requests: sql`sum(requests)`,
  failed_requests: sql`sum(failed_requests)`,
  written_off: sql`sum(written_off)`,
} as const;

/**
 * What tenants are sorted by. Each tenant's sums are a short range of the daily sums' key, so they
 * cost the days of a month, and nothing for the years before or for the log.
 */
export function rankOf({ by, days }: TenantOrder, engine: Engine): RawBuilder<unknown> {
  if (by === 'created_at') return sql.ref(by);
  if (by === 'name') return plain(by, engine);
  const found =
    by === 'credits'
      ? sql`select balance from accounts where owner = ${walletName('')} || tenants.id`
      : sql`select ${sums[by]} from usage_daily
          where tenant_id = tenants.id and day between ${days.first} and ${days.last}`;
  return sql`coalesce((${found}), 0)`;
}
