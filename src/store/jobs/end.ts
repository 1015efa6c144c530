import { randomText } from '../../core/ids.ts';
import type { Lease } from '../../jobs/queue.ts';
import type { StoreTransaction } from '../database.ts';

interface EndColumns {
  readonly status: 'succeeded' | 'failed' | 'cancelled';
  readonly completed_at: number;
  readonly output_key?: string;
  readonly output_bytes?: number;
  readonly expires_at?: number;
  readonly failure?: string;
}

/**
 * The one change that ends a job, whoever comes first. In the same transaction its objects are
 * given to the sweep and its webhook is queued. Without a lease, the job is ended whoever runs it.
 */
export async function endJob(
  change: StoreTransaction,
  jobId: string,
  lease: Lease | null,
  end: EndColumns,
): Promise<boolean> {
  let query = change
    .updateTable('jobs')
    .set({ ...end, lease: null, claimable_at: null })
    .where('id', '=', jobId)
    .where('claimable_at', 'is not', null);
  if (lease) query = query.where('lease', '=', lease.token);
  const job = await query.returning(['tenant_id', 'webhook_url']).executeTakeFirst();
  if (!job) return false;
  await change
    .updateTable('job_objects')
    .set({ delete_at: end.completed_at })
    .where('job_id', '=', jobId)
    .execute();
  // The output stays longer than the job's other objects.
  await change
    .updateTable('job_objects')
    .set({ delete_at: end.expires_at ?? end.completed_at })
    .where('key', '=', end.output_key ?? '')
    .execute();
  if (job.webhook_url !== null) {
    await change
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
