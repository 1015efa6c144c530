import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { TenantOrder } from '../../auth/directory.ts';
import { walletName } from '../../ledger/owner.ts';
import type { Engine } from '../database.ts';
import { byBytes, charged } from '../expressions.ts';

const sums = {
  spend: sql`sum(${charged})`,
  requests: sql`sum(requests)`,
  failed_requests: sql`sum(failed_requests)`,
  written_off: sql`sum(written_off)`,
} as const;

/**
 * What tenants are sorted by. Each one's sums are a short walk over the front of the daily sums'
 * key, so that it costs the days of a month and nothing for the years before or the log.
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

/** Tenants with this text in their name or id. */
export function holds(text: string, engine: Engine): RawBuilder<SqlBool> {
  const small = text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  // Not with a backslash, which `standard_conforming_strings` may give a meaning of its own.
  const pattern = `%${small.replaceAll(/[!%_]/g, '!$&')}%`;
  const like = (column: string) => sql`${plain(column, engine)} like ${pattern} escape '!'`;
  return sql<SqlBool>`(${like('name')} or ${like('id')})`;
}

/** Without the case of A to Z, and of no other letters: SQLite knows no more than these. */
function plain(column: string, engine: Engine): RawBuilder<string> {
  return sql<string>`lower(${byBytes(column, engine)})`;
}
