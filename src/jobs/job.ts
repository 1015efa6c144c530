import type {
  JobObject,
  JobOutputObject,
  JobStatus,
  JobUsageObject,
  NewJobObject,
} from '../contract/jobs.ts';
import type { TextLimit } from '../core/media/audio.ts';
import { contentTypeOf } from '../core/stored-object.ts';
import type { SpeechOptions, TranscriptionOptions } from '../dialects/media.ts';
import type { ObjectStorage } from './object-storage.ts';

/** Audio work that continues after the request that created it. */
export interface Job {
  readonly id: string;
  readonly tenantId: string;
  /** The key that created the job and is billed for it. */
  readonly keyId: string;
  readonly model: string;
  readonly request: JobRequest;
  readonly inputKey: string;
  readonly inputBytes: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly webhookUrl: string | null;
  readonly status: JobStatus;
  /** How many times workers have claimed the job since its last finished piece. */
  readonly attempts: number;
  readonly piecesDone: number;
  /** Null until a worker has split the input. */
  readonly piecesTotal: number | null;
  /** The charges of its pieces. The transaction that books a charge also adds it here. */
  readonly costCredits: number;
  /** Characters of speech, or milliseconds of audio. */
  readonly units: number;
  readonly output: JobOutput | null;
  readonly failure: JobFailure | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  /** When the output of a finished job is deleted. */
  readonly expiresAt: number | null;
}

interface JobOutput {
  readonly key: string;
  readonly bytes: number;
}

export interface JobFailure {
  readonly message: string;
  /** The error type and its status, as in API errors. */
  readonly type: string;
  readonly code: number;
}

interface RequestedModel {
  /** The requested alias, if the key may use the model only under that name. */
  readonly alias?: string;
}

/** The stored options of a speech job. */
export interface SpeechJobRequest
  extends RequestedModel,
    Pick<SpeechOptions, 'voice' | 'format' | 'speed' | 'instructions'> {
  readonly type: 'speech';
  /** Stored with the job so that every worker splits the text at the same positions. */
  readonly limit: TextLimit;
}

/** The stored options of a transcription job. */
export interface TranscriptionJobRequest
  extends RequestedModel,
    Omit<TranscriptionOptions, 'extraFields'> {
  readonly type: 'transcription';
}

export type JobRequest = SpeechJobRequest | TranscriptionJobRequest;

/** One finished part of a job. */
export interface Piece {
  readonly number: number;
  /** The key of the piece's result in the object store. */
  readonly objectKey: string;
  readonly costCredits: number;
  readonly units: number;
  readonly provider: string;
}

/** How long a download link is valid, unless the output expires sooner. */
const linkTtlMs = 3_600_000;

interface JobObjectContext {
  readonly now: number;
  readonly baseUrl: string;
  readonly storage: Pick<ObjectStorage, 'link'>;
}

/** Returns the JSON object in the response to a request that creates a job. */
export function newJobObject(job: JobSummary, baseUrl: string): NewJobObject {
  return {
    id: job.id,
    object: 'job',
    type: job.request.type,
    status: job.status,
    model: job.model,
    created_at: isoTime(job.createdAt),
    polling_url: `${baseUrl}/v1/jobs/${job.id}`,
  };
}

type JobSummary = Pick<Job, 'id' | 'request' | 'status' | 'model' | 'createdAt'>;

/** Returns the JSON object for polling, lists, and webhooks. */
export function jobObject(job: Job, context: JobObjectContext): JobObject {
  const isExpired = job.status === 'succeeded' && (job.expiresAt ?? 0) <= context.now;
  const status = isExpired ? 'expired' : job.status;
  return {
    ...newJobObject({ ...job, status }, context.baseUrl),
    progress: progressOf(job),
    started_at: isoTimeOrNull(job.startedAt),
    completed_at: isoTimeOrNull(job.completedAt),
    expires_at: isoTimeOrNull(job.expiresAt),
    output: status === 'succeeded' ? outputOf(job, context) : null,
    error: job.failure,
    usage: usageOf(job),
    cost: job.costCredits,
    metadata: job.metadata,
  };
}

function outputOf(
  { output, expiresAt }: Job,
  { now, baseUrl, storage }: JobObjectContext,
): JobOutputObject | null {
  if (!output) return null;
  const linkExpiresAt = Math.min(now + linkTtlMs, expiresAt ?? 0);
  return {
    url: storage.link(output.key, { now, expiresAt: linkExpiresAt, baseUrl }),
    url_expires_at: isoTime(linkExpiresAt),
    content_type: contentTypeOf(output.key),
    bytes: output.bytes,
  };
}

function progressOf({ status, piecesDone, piecesTotal }: Job): number {
  if (status === 'succeeded' || status === 'expired') return 1;
  return piecesTotal ? Math.round((piecesDone / piecesTotal) * 100) / 100 : 0;
}

function usageOf({ request, units }: Job): JobUsageObject {
  return request.type === 'speech' ? { input_characters: units } : { seconds: units / 1000 };
}

function isoTime(time: number): string {
  return new Date(time).toISOString();
}

function isoTimeOrNull(time: number | null): string | null {
  return time === null ? null : isoTime(time);
}
