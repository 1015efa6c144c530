import { sql } from 'kysely';
import type { Database } from '../database.ts';

interface OverdueLeases {
  readonly leases: number;
  readonly credits: number;
}

/** Leases that ended before this time, though their processes should have given them back. */
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
