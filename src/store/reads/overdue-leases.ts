import { sql } from 'kysely';
import type { Database } from '../database.ts';

interface OverdueLeases {
  readonly leases: number;
  readonly credits: number;
}

/** What processes had on lease that should have given it back by then. */
export async function overdueLeases({ read }: Database, by: number): Promise<OverdueLeases> {
  const { leases, credits } = await read
    .selectFrom('leases')
    .select(({ fn }) => [
      fn.countAll<number>().as('leases'),
      fn.coalesce(fn.sum<number>('credits'), sql.lit(0)).as('credits'),
    ])
    .where('until', '<', by)
    .executeTakeFirstOrThrow();
  return { leases, credits };
}
