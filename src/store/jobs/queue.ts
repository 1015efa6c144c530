import { type Selectable, sql, type Updateable } from 'kysely';
import { randomText } from '../../core/ids.ts';
import type { Piece } from '../../jobs/job.ts';
import type {
  ClaimedJob,
  ClaimOptions,
  JobOutcome,
  JobQueue,
  Lease,
  Webhook,
  WebhookQueue,
} from '../../jobs/queue.ts';
import { inTransaction, SqlRepository, type StoreTransaction } from '../database.ts';
import type { JobPiecesTable, JobsTable, WebhooksTable } from '../schema.ts';
import { endJob, jobOf } from './jobs.ts';

/** Jobs of all tenants, as workers see them. */
export class SqlJobQueue extends SqlRepository implements JobQueue {
  async claim(options: ClaimOptions): Promise<ClaimedJob | undefined> {
    // An idle worker polls every second, so take the write lock only if there is a job.
    if (!(await this.#hasWork(options))) return undefined;
    return inTransaction(this.database, async (trx) => {
      const turn = await this.#nextTurn(trx, options);
      if (!turn) return undefined;
      await trx
        .updateTable('job_turns')
        .set({ served_at: options.now })
        .where('tenant_id', '=', turn.tenant_id)
        .execute();
      const token = randomText(24);
      const row = await trx
        .updateTable('jobs')
        .set((eb) => ({
          status: 'running',
          lease: token,
          claimable_at: options.until,
          attempts: eb('attempts', '+', 1),
          started_at: eb.fn.coalesce('started_at', eb.val(options.now)),
        }))
        .where('id', '=', (eb) =>
          eb
            .selectFrom('jobs')
            .select('id')
            .where('tenant_id', '=', turn.tenant_id)
            .where('claimable_at', '<=', options.now)
            .orderBy('created_at')
            .orderBy('id')
            .limit(1)
            .forUpdate(),
        )
        .returningAll()
        .executeTakeFirst();
      return row && { job: jobOf(row), lease: { jobId: row.id, token } };
    });
  }

  async #hasWork({ now }: ClaimOptions): Promise<boolean> {
    const row = await this.database.read
      .selectFrom('job_turns')
      .select('tenant_id')
      .where(hasClaimable(now))
      .limit(1)
      .executeTakeFirst();
    return row !== undefined;
  }

  #nextTurn(trx: StoreTransaction, { now, exceptTenants: except }: ClaimOptions) {
    let query = trx
      .selectFrom('job_turns')
      .select('tenant_id')
      .where(hasClaimable(now))
      .orderBy('served_at')
      .orderBy('tenant_id')
      .limit(1);
    if (except.length > 0) query = query.where('tenant_id', 'not in', except);
    return query.forUpdate().executeTakeFirst();
  }

  renew(lease: Lease, until: number): Promise<boolean> {
    return this.#update(lease, { claimable_at: until });
  }

  async isCanceled(jobId: string): Promise<boolean> {
    const row = await this.database.read
      .selectFrom('jobs')
      .select('id')
      .where('id', '=', jobId)
      .where('status', '=', 'cancelled')
      .executeTakeFirst();
    return row !== undefined;
  }

  release(lease: Lease, requeue: { notBefore: number; isAttempt: boolean }): Promise<boolean> {
    return this.#update(lease, {
      status: 'queued',
      lease: null,
      claimable_at: requeue.notBefore,
      ...(requeue.isAttempt ? {} : { attempts: 0 }),
    });
  }

  setPieces(lease: Lease, total: number): Promise<boolean> {
    return this.#update(lease, { pieces_total: total });
  }

  addPiece(lease: Lease, piece: Piece): Promise<boolean> {
    return inTransaction(this.database, async (trx) => {
      const counted = await trx
        .updateTable('jobs')
        .set((eb) => ({
          pieces_done: eb('pieces_done', '+', 1),
          units: eb('units', '+', piece.units),
          attempts: 1,
        }))
        .where('id', '=', lease.jobId)
        .where('lease', '=', lease.token)
        .returning('id')
        .executeTakeFirst();
      if (!counted) return false;
      await trx.insertInto('job_pieces').values(pieceRow(lease.jobId, piece)).execute();
      await raiseCost(trx, lease.jobId);
      return true;
    });
  }

  async addLateUnits(jobId: string, units: number): Promise<void> {
    await this.database.write
      .updateTable('jobs')
      .set((eb) => ({ units: eb('units', '+', units) }))
      .where('id', '=', jobId)
      .where('status', '=', 'cancelled')
      .execute();
  }

  async pieces(jobId: string): Promise<readonly Piece[]> {
    const rows = await this.database.read
      .selectFrom('job_pieces')
      .selectAll()
      .where('job_id', '=', jobId)
      .orderBy('number')
      .execute();
    return rows.map(pieceOf);
  }

  finish(lease: Lease, outcome: JobOutcome): Promise<boolean> {
    const columns =
      outcome.status === 'succeeded'
        ? {
            output_key: outcome.outputKey,
            output_bytes: outcome.outputBytes,
            expires_at: outcome.expiresAt,
          }
        : { failure: JSON.stringify(outcome.failure) };
    const { status, now } = outcome;
    return inTransaction(this.database, (trx) =>
      endJob(trx, lease.jobId, lease, { status, completed_at: now, ...columns }),
    );
  }

  async #update(lease: Lease, columns: Updateable<JobsTable>): Promise<boolean> {
    const row = await this.database.write
      .updateTable('jobs')
      .set(columns)
      .where('id', '=', lease.jobId)
      .where('lease', '=', lease.token)
      .returning('id')
      .executeTakeFirst();
    return row !== undefined;
  }
}

function hasClaimable(now: number) {
  return sql<boolean>`exists (
    select 1 from jobs
    where jobs.tenant_id = job_turns.tenant_id and jobs.claimable_at <= ${now}
  )`;
}

/**
 * Raises the cost of a job to at least the cost of its pieces. The commit of a piece's charge has
 * already added it, unless a process of an older version committed it. Must run with the job
 * locked, because a statement that waits for the lock doesn't see what was added meanwhile.
 */
async function raiseCost(trx: StoreTransaction, jobId: string): Promise<void> {
  const pieces = sql<number>`(select sum(job_pieces.cost) from job_pieces where job_id = ${jobId})`;
  await trx
    .updateTable('jobs')
    .set({ cost: pieces })
    .where('id', '=', jobId)
    .where('cost', '<', pieces)
    .execute();
}

function pieceRow(jobId: string, piece: Piece): JobPiecesTable {
  return {
    job_id: jobId,
    number: piece.number,
    object_key: piece.objectKey,
    cost: piece.costCredits,
    units: piece.units,
    provider: piece.provider,
  };
}

function pieceOf(row: Selectable<JobPiecesTable>): Piece {
  return {
    number: row.number,
    objectKey: row.object_key,
    costCredits: row.cost,
    units: row.units,
    provider: row.provider,
  };
}

export class SqlWebhooks extends SqlRepository implements WebhookQueue {
  async claim({ now, until, exceptTenants: except }: ClaimOptions): Promise<Webhook | undefined> {
    const { read, write } = this.database;
    const isDue = await read
      .selectFrom('webhooks')
      .select('id')
      .where('due_at', '<=', now)
      .where(isOfActiveTenant)
      .limit(1)
      .executeTakeFirst();
    if (!isDue) return undefined;
    const row = await write
      .updateTable('webhooks')
      .set((eb) => ({ due_at: until, attempts: eb('attempts', '+', 1) }))
      .where('id', '=', (eb) => {
        let next = eb
          .selectFrom('webhooks')
          .select('id')
          .where('due_at', '<=', now)
          .where(isOfActiveTenant);
        if (except.length > 0) next = next.where('tenant_id', 'not in', except);
        return (
          next
            .orderBy('due_at')
            .orderBy('id')
            .limit(1)
            // Concurrent processes claim different webhooks.
            .forUpdate()
            .skipLocked()
        );
      })
      .returningAll()
      .executeTakeFirst();
    return row && webhookOf(row);
  }

  async retry(id: string, dueAt: number): Promise<void> {
    await this.database.write
      .updateTable('webhooks')
      .set({ due_at: dueAt })
      .where('id', '=', id)
      .execute();
  }

  async remove(id: string): Promise<void> {
    await this.database.write.deleteFrom('webhooks').where('id', '=', id).execute();
  }
}

/** A webhook has a link to the output of its job, which a disabled tenant must not get. */
const isOfActiveTenant = sql<boolean>`not exists (
  select 1 from tenants where tenants.id = webhooks.tenant_id and tenants.disabled = 1
)`;

function webhookOf(row: Selectable<WebhooksTable>): Webhook {
  return {
    id: row.id,
    jobId: row.job_id,
    tenantId: row.tenant_id,
    url: row.url,
    event: row.event,
    attempts: row.attempts,
    createdAt: row.created_at,
  };
}
