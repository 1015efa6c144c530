import { sql } from 'kysely';
import type { NamedAnswer } from '../../core/claim.ts';
import type { Recording } from '../../core/recording.ts';
import type { Job, JobStatus } from '../../jobs/job.ts';
import type {
  Enqueued,
  JobBook,
  JobClaim,
  JobPage,
  NewJob,
  QueueBounds,
} from '../../jobs/queue.ts';
import { finishClaim } from '../claims.ts';
import { type Database, inTransaction, OnDatabase, type StoreTransaction } from '../database.ts';
import { endJob } from './end.ts';
import { jobOf } from './rows.ts';

/** The jobs of tenants, as tenants see them. */
export class SqlJobBook extends OnDatabase implements JobBook {
  enqueue(job: NewJob, bounds: QueueBounds, claim: JobClaim | null): Promise<Enqueued> {
    return inTransaction(this.database, async (change) => {
      await takeTurn(change, job);
      const waiting = await waitingOf(change, job.tenantId);
      if (waiting.jobs >= bounds.waitingMax) return 'too_many';
      if (waiting.bytes + job.inputBytes > bounds.inputBytesMax) return 'too_large';
      if (claim && !(await finishClaim(change, answerOf(claim, job)))) return 'taken_over';
      await change.insertInto('jobs').values(rowOf(job)).execute();
      // The input stays until the job ends, however long it waits.
      await change
        .updateTable('job_objects')
        .set({ delete_at: null })
        .where('key', '=', job.inputKey)
        .execute();
      return 'queued';
    });
  }

  find(tenantId: string, id: string): Promise<Job | undefined> {
    return jobIn(this.database.read, tenantId, id);
  }

  async list(tenantId: string, page: JobPage, now: number): Promise<readonly Job[]> {
    const { limit, offset, status } = page;
    let query = this.database.report
      .selectFrom('jobs')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .orderBy('created_at', 'desc')
      .orderBy('id', 'desc')
      .limit(limit)
      .offset(offset);
    if (status !== null) query = query.where(isShownAs(status, now));
    return (await query.execute()).map(jobOf);
  }

  cancel(tenantId: string, id: string, now: number): Promise<Job | undefined> {
    return inTransaction(this.database, async (change) => {
      const job = await jobIn(change, tenantId, id);
      if (job) await endJob(change, id, null, { status: 'cancelled', completed_at: now });
      return jobIn(change, tenantId, id);
    });
  }
}

/** Gives the tenant a turn, and locks it: the bounds are exact as writers follow each other. */
async function takeTurn(change: StoreTransaction, { tenantId }: NewJob): Promise<void> {
  await change
    .insertInto('job_turns')
    // A tenant that was never served comes first.
    .values({ tenant_id: tenantId, served_at: 0 })
    .onConflict((conflict) => conflict.column('tenant_id').doNothing())
    .execute();
  await change
    .selectFrom('job_turns')
    .select('served_at')
    .where('tenant_id', '=', tenantId)
    .forUpdate()
    .execute();
}

/** What an idempotency key remembers of a job: its id, in the place of an answer's text. */
export function recordingOfJob(id: string): Recording {
  return { dialect: '', form: 'whole', model: '', provider: '', text: id };
}

function answerOf(claim: JobClaim, { id }: NewJob): NamedAnswer {
  return { claim, recording: recordingOfJob(id), expiresAt: claim.keptUntil };
}

/** An output whose time is over is shown as expired, also before the sweep has come by. */
function isShownAs(status: JobStatus, now: number) {
  if (status === 'succeeded') return sql<boolean>`status = ${status} and expires_at > ${now}`;
  if (status !== 'expired') return sql<boolean>`status = ${status}`;
  return sql<boolean>`(status = ${status} or status = 'succeeded' and expires_at <= ${now})`;
}

async function jobIn(
  store: Database['read'],
  tenantId: string,
  id: string,
): Promise<Job | undefined> {
  const row = await store
    .selectFrom('jobs')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row && jobOf(row);
}

function waitingOf(change: StoreTransaction, tenantId: string) {
  return change
    .selectFrom('jobs')
    .select((of) => [
      of.fn.countAll<number>().as('jobs'),
      sql<number>`cast(coalesce(sum(input_bytes), 0) as bigint)`.as('bytes'),
    ])
    .where('tenant_id', '=', tenantId)
    .where('claimable_at', 'is not', null)
    .executeTakeFirstOrThrow();
}

function rowOf(job: NewJob) {
  return {
    id: job.id,
    tenant_id: job.tenantId,
    key_id: job.keyId,
    model: job.model,
    request: JSON.stringify(job.request),
    input_key: job.inputKey,
    input_bytes: job.inputBytes,
    metadata: JSON.stringify(job.metadata),
    webhook_url: job.webhookUrl,
    status: 'queued' as const,
    attempts: 0,
    // Claimable at once, even if the clock is set back meanwhile.
    claimable_at: 0,
    pieces_done: 0,
    cost: 0,
    units: 0,
    created_at: job.createdAt,
  };
}
