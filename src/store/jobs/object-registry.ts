import { sql } from 'kysely';
import type { JobObjects } from '../../jobs/queue.ts';
import { SqlRepository } from '../database.ts';

/** Rows changed per sweep. The others wait for the next sweep. */
const batchRows = 500;

/** Registers the stored objects of jobs for deletion. `expire` also expires the jobs themselves. */
export class SqlJobObjects extends SqlRepository implements JobObjects {
  async register(key: string, jobId: string, deleteAt: number): Promise<void> {
    await this.database.write
      .insertInto('job_objects')
      .values({ key, job_id: jobId, delete_at: deleteAt })
      .execute();
  }

  async due(now: number, limit: number): Promise<readonly string[]> {
    const rows = await this.database.read
      .selectFrom('job_objects')
      .select('key')
      .where('delete_at', '<=', now)
      .orderBy('delete_at')
      .limit(limit)
      .execute();
    return rows.map(({ key }) => key);
  }

  async isAvailable(key: string): Promise<boolean> {
    const row = await this.database.read
      .selectFrom('job_objects')
      .innerJoin('jobs', 'jobs.id', 'job_objects.job_id')
      .innerJoin('tenants', 'tenants.id', 'jobs.tenant_id')
      .select('job_objects.key')
      .where('job_objects.key', '=', key)
      .where('tenants.disabled', '=', 0)
      .executeTakeFirst();
    return row !== undefined;
  }

  async unregister(key: string): Promise<void> {
    await this.database.write.deleteFrom('job_objects').where('key', '=', key).execute();
  }

  async releaseUnused(key: string): Promise<boolean> {
    const row = await this.database.write
      .updateTable('job_objects')
      .set({ delete_at: 0 })
      .where('key', '=', key)
      .where('delete_at', 'is not', null)
      .returning('key')
      .executeTakeFirst();
    return row !== undefined;
  }

  async postpone(key: string, until: number): Promise<void> {
    await this.database.write
      .updateTable('job_objects')
      .set({ delete_at: until })
      .where('key', '=', key)
      .execute();
  }

  async expire(now: number, rowsBefore: number): Promise<void> {
    const { write } = this.database;
    await write
      .updateTable('jobs')
      .set({ status: 'expired' })
      .where('id', 'in', (eb) =>
        eb
          .selectFrom('jobs')
          .select('id')
          // A literal, not a parameter, so that SQLite can use the partial index.
          .where('status', '=', sql.lit('succeeded'))
          .where('expires_at', '<=', now)
          .limit(batchRows),
      )
      .execute();
    await write
      .deleteFrom('jobs')
      .where('id', 'in', (eb) =>
        eb.selectFrom('jobs').select('id').where('completed_at', '<', rowsBefore).limit(batchRows),
      )
      .execute();
    // Tenants without waiting jobs need no turn. Their next job adds one.
    await write
      .deleteFrom('job_turns')
      .where('served_at', '<', rowsBefore)
      .where('served_at', '>', 0)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('jobs')
              .select('jobs.id')
              .whereRef('jobs.tenant_id', '=', 'job_turns.tenant_id')
              .where('jobs.claimable_at', 'is not', null),
          ),
        ),
      )
      .execute();
  }
}
