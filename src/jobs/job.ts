import type { SpeechFormat, TextLimit, TranscriptFormat } from '../core/media/audio.ts';
import { contentTypeOf } from '../core/stored-object.ts';
import type { ObjectStorage } from './objects.ts';

/** A piece of audio work that outlives the request that asked for it. */
export interface Job {
  readonly id: string;
  readonly tenantId: string;
  /** The key that asked for it, and pays. */
  readonly keyId: string;
  readonly model: string;
  readonly request: JobRequest;
  readonly inputKey: string;
  readonly inputBytes: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly webhookUrl: string | null;
  readonly status: JobStatus;
  /** Claims since the last piece was finished. */
  readonly attempts: number;
  readonly piecesDone: number;
  /** Null until the input has been looked at. */
  readonly piecesTotal: number | null;
  /** What the books took for its pieces: they add each charge in the change that books it. */
  readonly costCredits: number;
  /** Characters of speech, or milliseconds of audio. */
  readonly units: number;
  readonly output: JobOutput | null;
  readonly failure: JobFailure | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  /** When a finished output is removed. */
  readonly expiresAt: number | null;
}

export const jobStatuses = [
  'queued',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const;
export type JobStatus = (typeof jobStatuses)[number];

interface JobOutput {
  readonly key: string;
  readonly bytes: number;
}

export interface JobFailure {
  readonly message: string;
  /** Symbol and status of the error table. */
  readonly type: string;
  readonly code: number;
}

export interface SpeechJobRequest {
  readonly type: 'speech';
  readonly voice: string;
  readonly format: SpeechFormat;
  readonly speed: number | null;
  readonly instructions: string | null;
  /** Kept with the job: a worker that takes it over must cut the text at the same places. */
  readonly limit: TextLimit;
}

export interface TranscriptionJobRequest {
  readonly type: 'transcription';
  readonly format: TranscriptFormat;
  readonly language: string | null;
  readonly prompt: string | null;
  readonly temperature: number | null;
  /** Of `timestamp_granularities`: which times `verbose_json` carries. */
  readonly granularities: readonly string[];
}

export type JobRequest = SpeechJobRequest | TranscriptionJobRequest;

/** One finished part of a job. */
export interface Piece {
  readonly number: number;
  /** The key of the piece's result in the object store. */
  readonly objectKey: string;
  readonly costCredits: number;
  readonly units: number;
  /** Who served it. */
  readonly provider: string;
}

/** Links are good for an hour, and never longer than what they lead to. */
const linkTtlMs = 3_600_000;

interface JobObjectContext {
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
export function jobObject(job: Job, context: JobObjectContext) {
  const isExpired = job.status === 'succeeded' && (job.expiresAt ?? 0) <= context.now;
  const status = isExpired ? 'expired' : job.status;
  return {
    ...newJobObject({ ...job, status }, context.baseUrl),
    progress: progressOf(job),
    started_at: time(job.startedAt),
    completed_at: time(job.completedAt),
    expires_at: time(job.expiresAt),
    output: status === 'succeeded' ? outputOf(job, context) : null,
    error: job.failure,
    usage: usageOf(job),
    cost: job.costCredits,
    metadata: job.metadata,
  };
}

function outputOf({ output, expiresAt }: Job, { now, baseUrl, storage }: JobObjectContext) {
  if (!output) return null;
  const until = Math.min(now + linkTtlMs, expiresAt ?? 0);
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
