import { contentTypeOf } from '../core/object-key.ts';
import type { Job } from './job.ts';
import type { ObjectStorage } from './objects.ts';

/** Links are good for an hour, and never longer than what they lead to. */
const linkMs = 3_600_000;

interface JobView {
  readonly now: number;
  readonly baseUrl: string;
  readonly storage: Pick<ObjectStorage, 'link'>;
}

/** A job as its creation is answered. */
export function newJobObject(job: JobSummary, baseUrl: string) {
  return {
    id: job.id,
    object: 'job',
    type: job.request.type,
    status: job.status,
    model: job.model,
    created_at: time(job.createdAt),
    polling_url: `${baseUrl}/v1/jobs/${job.id}`,
  };
}

type JobSummary = Pick<Job, 'id' | 'request' | 'status' | 'model' | 'createdAt'>;

/** A job as it is polled, listed and sent to webhooks. */
export function jobObject(job: Job, view: JobView) {
  const isOver = job.status === 'succeeded' && (job.expiresAt ?? 0) <= view.now;
  const status = isOver ? 'expired' : job.status;
  return {
    ...newJobObject({ ...job, status }, view.baseUrl),
    progress: progressOf(job),
    started_at: time(job.startedAt),
    completed_at: time(job.completedAt),
    expires_at: time(job.expiresAt),
    output: status === 'succeeded' ? outputOf(job, view) : null,
    error: job.failure,
    usage: usageOf(job),
    cost: job.costCredits,
    metadata: job.metadata,
  };
}

function outputOf({ output, expiresAt }: Job, { now, baseUrl, storage }: JobView) {
  if (!output) return null;
  const until = Math.min(now + linkMs, expiresAt ?? 0);
  return {
    url: storage.link(output.key, { now, expiresAt: until, baseUrl }),
    url_expires_at: time(until),
    content_type: contentTypeOf(output.key),
    bytes: output.bytes,
  };
}

function progressOf({ status, piecesDone, piecesTotal }: Job): number {
  if (status === 'succeeded' || status === 'expired') return 1;
  return piecesTotal ? Math.round((piecesDone / piecesTotal) * 100) / 100 : 0;
}

function usageOf({ request, units }: Job) {
  return request.type === 'speech' ? { input_characters: units } : { seconds: units / 1000 };
}

function time(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString();
}
