import { type Selectable, sql } from 'kysely';
import type { JobStatus } from '../../contract/jobs.ts';
import { randomText } from '../../core/ids.ts';
import type { IdempotentAnswer, Recording } from '../../core/recording.ts';
import type { Job, JobFailure, JobRequest } from '../../jobs/job.ts';
import type {
  EnqueueResult,
  JobIdempotencyClaim,
  JobPage,
  JobStore,
  Lease,
  NewJob,
  QueueBounds,
} from '../../jobs/queue.ts';
import type { Settlement } from '../../money/ledger.ts';
import { totalCharge } from '../../money/price/fee-kinds.ts';
import { type Database, inTransaction, SqlRepository, type StoreTransaction } from '../database.ts';
import { finishClaim } from '../idempotency-answers.ts';
import type { JobsTable } from '../schema.ts';

/** Jobs as their tenants see them. */
export class SqlJobs extends SqlRepository implements JobStore {
  enqueue(
    job: NewJob,
    bounds: QueueBounds,
    claim: JobIdempotencyClaim | null,
  ): Promise<EnqueueResult> {
    return inTransaction(this.database, async (trx) => {
      await lockTurn(trx, job);
      const waiting = await waitingOf(trx, job.tenantId);
      if (waiting.jobs >= bounds.waitingMax) return { ok: false, reason: 'too_many_jobs' };
      if (waiting.bytes + job.inputBytes > bounds.inputBytesMax) {
        return { ok: false, reason: 'too_many_bytes' };
      }
      if (claim && !(await finishClaim(trx, answerOf(claim, job)))) {
        return { ok: false, reason: 'claim_taken_over' };
      }
      await trx.insertInto('jobs').values(rowOf(job)).execute();
      // The input is kept until the job ends, however long it waits.
      await trx
        .updateTable('job_objects')
        .set({ delete_at: null })
        .where('key', '=', job.inputKey)
        .execute();
      return { ok: true };
    });
  }

  find(tenantId: string, id: string): Promise<Job | undefined> {
    return findJob(this.database.read, tenantId, id);
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
    return inTransaction(this.database, async (trx) => {
      const job = await findJob(trx, tenantId, id);
      if (job) await endJob(trx, id, null, { status: 'cancelled', completed_at: now });
      return findJob(trx, tenantId, id);
    });
  }
}

/**
 * Inserts the tenant's row in the job rotation if it is missing, and locks the row, so that
 * concurrent writers can't exceed the bounds.
 */
async function lockTurn(trx: StoreTransaction, { tenantId }: NewJob): Promise<void> {
  await trx
    .insertInto('job_turns')
    // A tenant that was never served goes first.
    .values({ tenant_id: tenantId, served_at: 0 })
    .onConflict((conflict) => conflict.column('tenant_id').doNothing())
    .execute();
  await trx
    .selectFrom('job_turns')
    .select('served_at')
    .where('tenant_id', '=', tenantId)
    .forUpdate()
    .execute();
}

/** Returns the recording for an idempotency key that created a job. Its text is the job's ID. */
export function recordingOfJob(id: string): Recording {
  return { dialect: '', form: 'reply', model: '', provider: '', text: id };
}

function answerOf(claim: JobIdempotencyClaim, { id }: NewJob): IdempotentAnswer {
  return { claim, recording: recordingOfJob(id), expiresAt: claim.answerExpiresAt };
}

/**
 * Matches jobs by status. A job whose output has expired counts as expired even before the sweep
 * runs.
 */
function isShownAs(status: JobStatus, now: number) {
  if (status === 'succeeded') return sql<boolean>`status = ${status} and expires_at > ${now}`;
  if (status !== 'expired') return sql<boolean>`status = ${status}`;
  return sql<boolean>`(status = ${status} or status = 'succeeded' and expires_at <= ${now})`;
}

async function findJob(
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

function waitingOf(trx: StoreTransaction, tenantId: string) {
  return trx
    .selectFrom('jobs')
    .select((eb) => [
      eb.fn.countAll<number>().as('jobs'),
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
    // 0 is claimable at once, even if the clock is set back.
    claimable_at: 0,
    pieces_done: 0,
    cost: 0,
    units: 0,
    created_at: job.createdAt,
  };
}

interface EndColumns {
  readonly status: 'succeeded' | 'failed' | 'cancelled';
  readonly completed_at: number;
  readonly output_key?: string;
  readonly output_bytes?: number;
  readonly expires_at?: number;
  readonly failure?: string;
}

/**
 * Ends a job. Only the first call succeeds. The same transaction schedules the job's objects for
 * deletion and queues its webhook. Without a lease, the job ends no matter which worker runs it.
 */
export async function endJob(
  trx: StoreTransaction,
  jobId: string,
  lease: Lease | null,
  end: EndColumns,
): Promise<boolean> {
  let query = trx
    .updateTable('jobs')
    .set({ ...end, lease: null, claimable_at: null })
    .where('id', '=', jobId)
    .where('claimable_at', 'is not', null);
  if (lease) query = query.where('lease', '=', lease.token);
  const job = await query.returning(['tenant_id', 'webhook_url']).executeTakeFirst();
  if (!job) return false;
  await trx
    .updateTable('job_objects')
    .set({ delete_at: end.completed_at })
    .where('job_id', '=', jobId)
    .execute();
  // The output is kept longer than the job's other objects.
  await trx
    .updateTable('job_objects')
    .set({ delete_at: end.expires_at ?? end.completed_at })
    .where('key', '=', end.output_key ?? '')
    .execute();
  if (job.webhook_url !== null) {
    await trx
      .insertInto('webhooks')
      .values({
        id: `msg_${randomText(24)}`,
        job_id: jobId,
        tenant_id: job.tenant_id,
        url: job.webhook_url,
        event: `job.${end.status}`,
        attempts: 0,
        due_at: end.completed_at,
        created_at: end.completed_at,
      })
      .execute();
  }
  return true;
}

/**
 * Adds the charges of pieces to the costs of their jobs. Must run in the transaction that commits
 * the charges, because its locks on the accounts prevent concurrent transactions from updating the
 * same jobs.
 */
export async function addJobCosts(
  trx: StoreTransaction,
  settlements: readonly Settlement[],
): Promise<void> {
  const costs = new Map<string, number>();
  for (const { record } of settlements) {
    const { jobId, charges } = record;
    if (jobId === undefined) continue;
    const credits = totalCharge(charges);
    if (credits > 0) costs.set(jobId, (costs.get(jobId) ?? 0) + credits);
  }
  for (const [jobId, credits] of costs) {
    await trx
      .updateTable('jobs')
      .set((eb) => ({ cost: eb('cost', '+', credits) }))
      .where('id', '=', jobId)
      .execute();
  }
}

/** Converts a row into a job. Its JSON is trusted, because only this code writes it. */
export function jobOf(row: Selectable<JobsTable>): Job {
  return {
    id: row.id,
    tenantId: row.tenant_id,
    keyId: row.key_id,
    model: row.model,
    request: JSON.parse(row.request) as JobRequest,
    inputKey: row.input_key,
    inputBytes: row.input_bytes,
    metadata: JSON.parse(row.metadata) as Job['metadata'],
    webhookUrl: row.webhook_url,
    status: row.status,
    attempts: row.attempts,
    piecesDone: row.pieces_done,
    piecesTotal: row.pieces_total,
    costCredits: row.cost,
    units: row.units,
    output: row.output_key === null ? null : { key: row.output_key, bytes: row.output_bytes ?? 0 },
    failure: row.failure === null ? null : (JSON.parse(row.failure) as JobFailure),
    createdAt: row.created_at,
    startedAt: row.started_at,
    completedAt: row.completed_at,
    expiresAt: row.expires_at,
  };
}
