import type { Selectable } from 'kysely';
import type { Job, JobFailure, JobRequest } from '../../jobs/job.ts';
import type { JobsTable } from './schema.ts';

/** Between the table of jobs and the jobs of the code. What we wrote ourselves is trusted. */
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
