import type { IdempotencyClaim } from '../core/recording.ts';
import type { Job, JobFailure, JobStatus, Piece } from './job.ts';

/** What clients do with jobs. Everything is asked on behalf of one tenant. */
export interface JobStore {
  /**
   * Queues the job, unless the tenant has too much waiting already. With a claim both are one
   * change: a process that has lost the claim queues nothing, and one that queues the job has also
   * answered the claim, even if it dies right after.
   */
  enqueue(
    job: NewJob,
    bounds: QueueBounds,
    claim: JobIdempotencyClaim | null,
  ): Promise<EnqueueResult>;
  find(tenantId: string, id: string): Promise<Job | undefined>;
  /** Newest first. */
  list(tenantId: string, page: JobPage, now: number): Promise<readonly Job[]>;
  /** The job after that: cancelled, or as it had ended before. */
  cancel(tenantId: string, id: string, now: number): Promise<Job | undefined>;
}

export type EnqueueResult = 'queued' | 'too_many' | 'too_large' | 'taken_over';

/** The use of an `Idempotency-Key` that a job is made for. */
export interface JobIdempotencyClaim extends IdempotencyClaim {
  /** Epoch milliseconds until which the job is the answer to repetitions. */
  readonly answerExpiresAt: number;
}

export type NewJob = Pick<
  Job,
  | 'id'
  | 'tenantId'
  | 'keyId'
  | 'model'
  | 'request'
  | 'inputKey'
  | 'inputBytes'
  | 'metadata'
  | 'webhookUrl'
  | 'createdAt'
>;

export interface QueueBounds {
  readonly waitingMax: number;
  readonly inputBytesMax: number;
}

export interface JobPage {
  readonly limit: number;
  readonly offset: number;
  readonly status: JobStatus | null;
}

/** The right to a job. A worker that lost it, to a cancellation or a successor, changes nothing. */
export interface Lease {
  readonly jobId: string;
  readonly token: string;
}

/** What workers do with jobs. Changes answer false when the lease is lost. */
export interface JobQueue {
  /** The next job of the tenant that was served longest ago; also one whose worker has died. */
  claim(options: ClaimOptions): Promise<ClaimedJob | undefined>;
  renew(lease: Lease, until: number): Promise<boolean>;
  /** Whether a lost lease was lost by a cancellation; if not, another worker has the job. */
  isCanceled(jobId: string): Promise<boolean>;
  /** Back into the queue. A worker that stops in good order does not count as an attempt. */
  release(lease: Lease, requeue: { notBefore: number; isAttempt: boolean }): Promise<boolean>;
  setPieces(lease: Lease, total: number): Promise<boolean>;
  /** Writes a finished piece down, and forgets earlier attempts. */
  addPiece(lease: Lease, piece: Piece): Promise<boolean>;
  /** What a cancelled job had under way was used, too, though nobody gets the result. */
  addLateUnits(jobId: string, units: number): Promise<void>;
  pieces(jobId: string): Promise<readonly Piece[]>;
  /** Ends the job; a second end changes nothing. */
  finish(lease: Lease, outcome: JobOutcome): Promise<boolean>;
}

/** The terms on which a process takes the next job or message, which others may want as well. */
export interface ClaimOptions {
  readonly now: number;
  /** From then on anybody may take it again, unless it is renewed or ended before. */
  readonly until: number;
  /** Tenants that already have their share of this process. */
  readonly exceptTenants: readonly string[];
}

export interface ClaimedJob {
  readonly job: Job;
  readonly lease: Lease;
}

export type JobOutcome =
  | {
      readonly status: 'succeeded';
      readonly outputKey: string;
      readonly outputBytes: number;
      readonly expiresAt: number;
      readonly now: number;
    }
  | {
      readonly status: 'failed';
      readonly failure: JobFailure;
      readonly now: number;
    };

/** Every object that jobs have, from before its first byte until it is deleted. */
export interface JobObjects {
  register(key: string, jobId: string, deleteAt: number): Promise<void>;
  due(now: number, limit: number): Promise<readonly string[]>;
  unregister(key: string): Promise<void>;
  /** Makes an object that nobody needs due at once. False: it is the input of a job. */
  releaseUnused(key: string): Promise<boolean>;
  /** Makes the object due then, and not before. */
  postpone(key: string, until: number): Promise<void>;
  /** Turns outputs whose time is over into expired ones, and removes old rows. */
  expire(now: number, rowsBefore: number): Promise<void>;
}

/** Messages that wait for their receiver. */
export interface WebhookQueue {
  /** The next one that is due. */
  claim(options: ClaimOptions): Promise<Webhook | undefined>;
  retry(id: string, dueAt: number): Promise<void>;
  remove(id: string): Promise<void>;
}

export interface Webhook {
  readonly id: string;
  readonly jobId: string;
  readonly tenantId: string;
  readonly url: string;
  /** `job.succeeded` and its like. */
  readonly event: string;
  /** Deliveries tried, this one included. */
  readonly attempts: number;
  /** When it happened. */
  readonly createdAt: number;
}

/** Tenants that appear in a list `max` times or more: they have their share of it already. */
export function tenantsAtLimit(tenantIds: readonly string[], max: number): string[] {
  const byTenant = Map.groupBy(tenantIds, (id) => id);
  return [...byTenant].flatMap(([id, all]) => (all.length >= max ? [id] : []));
}
