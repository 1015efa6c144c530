import type { JobStatus } from '../contract/jobs.ts';
import type { IdempotencyClaim } from '../core/recording.ts';
import type { Job, JobFailure, Piece } from './job.ts';

/** The jobs of one tenant, as clients create, read, and cancel them. */
export interface JobStore {
  /**
   * Queues the job unless the tenant's queue is full. The same transaction completes the claim. A
   * process that has lost the claim queues nothing. If a process queues the job, the claim is
   * complete even if the process crashes right after that.
   */
  enqueue(
    job: NewJob,
    bounds: QueueBounds,
    claim: JobIdempotencyClaim | null,
  ): Promise<EnqueueResult>;
  find(tenantId: string, id: string): Promise<Job | undefined>;
  /** Newest first. */
  list(tenantId: string, page: JobPage, now: number): Promise<readonly Job[]>;
  /** Returns the job afterwards: canceled, or unchanged if it had already ended. */
  cancel(tenantId: string, id: string, now: number): Promise<Job | undefined>;
}

/** `claim_taken_over`: another process handles the request with this `Idempotency-Key` now. */
export type EnqueueRejection = 'too_many_jobs' | 'too_many_bytes' | 'claim_taken_over';

export type EnqueueResult =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: EnqueueRejection };

/** The idempotency claim of the request that creates a job. */
export interface JobIdempotencyClaim extends IdempotencyClaim {
  /** Epoch milliseconds; until then, repeated requests get this job. */
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

/** A worker's right to a job. After losing it, the worker can't change the job anymore. */
export interface Lease {
  readonly jobId: string;
  readonly token: string;
}

/** The jobs as workers process them. Writes return false if the lease was lost. */
export interface JobQueue {
  /**
   * Claims the next job of the tenant that has waited longest, even a job with an expired lease.
   */
  claim(options: ClaimOptions): Promise<ClaimedJob | undefined>;
  renew(lease: Lease, until: number): Promise<boolean>;
  /** Returns whether a lease was lost because the job was canceled, not because of a takeover. */
  isCanceled(jobId: string): Promise<boolean>;
  /** Returns the job to the queue. `isAttempt` is false if the worker is shutting down. */
  release(lease: Lease, requeue: { notBefore: number; isAttempt: boolean }): Promise<boolean>;
  setPieces(lease: Lease, total: number): Promise<boolean>;
  /** Stores a finished piece and resets the count of attempts. */
  addPiece(lease: Lease, piece: Piece): Promise<boolean>;
  /** Adds the units of a piece that finished after its job was canceled. */
  addLateUnits(jobId: string, units: number): Promise<void>;
  pieces(jobId: string): Promise<readonly Piece[]>;
  /** Ends the job. A second call has no effect. */
  finish(lease: Lease, outcome: JobOutcome): Promise<boolean>;
}

/** How a process claims the next job or webhook. */
export interface ClaimOptions {
  readonly now: number;
  /** After this time, another process may claim the item unless it was renewed or has ended. */
  readonly until: number;
  /** Tenants that already use their full share of this process. */
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

/**
 * The registry of stored job objects. It lists an object from before its upload to its deletion.
 */
export interface JobObjects {
  register(key: string, jobId: string, deleteAt: number): Promise<void>;
  due(now: number, limit: number): Promise<readonly string[]>;
  /** Returns whether the object belongs to a job of a tenant that isn't disabled. */
  isAvailable(key: string): Promise<boolean>;
  unregister(key: string): Promise<void>;
  /** Makes an unused object due for deletion. Returns false if it is the input of a job. */
  releaseUnused(key: string): Promise<boolean>;
  /** Moves the deletion of the object to a later time. */
  postpone(key: string, until: number): Promise<void>;
  /** Marks outputs past their expiry as due and deletes old rows. */
  expire(now: number, rowsBefore: number): Promise<void>;
}

/** Webhooks that wait for delivery. */
export interface WebhookQueue {
  /** Claims the next webhook that is due. A disabled tenant's webhooks wait. */
  claim(options: ClaimOptions): Promise<Webhook | undefined>;
  retry(id: string, dueAt: number): Promise<void>;
  remove(id: string): Promise<void>;
}

export interface Webhook {
  readonly id: string;
  readonly jobId: string;
  readonly tenantId: string;
  readonly url: string;
  /** For example `job.succeeded`. */
  readonly event: string;
  /** Delivery attempts, including the current one. */
  readonly attempts: number;
  /** When the event occurred. */
  readonly createdAt: number;
}

/** Returns the tenants that appear at least `max` times in the list. */
export function tenantsAtLimit(tenantIds: readonly string[], max: number): string[] {
  const byTenant = Map.groupBy(tenantIds, (id) => id);
  return [...byTenant].flatMap(([id, occurrences]) => (occurrences.length >= max ? [id] : []));
}
