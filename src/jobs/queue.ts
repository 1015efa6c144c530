import type { Claim } from '../core/claim.ts';
import type { Job, JobFailure, JobStatus, Piece } from './job.ts';

/** What clients do with jobs. Everything is asked on behalf of one tenant. */
export interface JobBook {
  /**
   * Queues it, unless the tenant has too much waiting already. With a claim the two are one change:
   * whoever has lost it queues nothing, and whoever queued has answered it, even if it dies now.
   */
  enqueue(job: NewJob, bounds: QueueBounds, claim: JobClaim | null): Promise<Enqueued>;
  find(tenantId: string, id: string): Promise<Job | undefined>;
  /** Newest first. */
  list(tenantId: string, page: JobPage, now: number): Promise<readonly Job[]>;
  /**
   * The job as it is then: cancelled, or as it had ended before. What was paid for pieces that were
   * never written down is added to one that waits; whoever works on one adds it there.
   */
  cancel(tenantId: string, id: string, now: number, lostCredits?: number): Promise<Job | undefined>;
}

export type Enqueued = 'queued' | 'too_many' | 'too_large' | 'taken_over';

/** The use of an `Idempotency-Key` that a job is made for. */
export interface JobClaim extends Claim {
  /** Epoch milliseconds until which the job is the answer to repetitions. */
  readonly keptUntil: number;
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

/** The right to one job. Whoever has lost it, to a cancellation or a successor, changes nothing. */
export interface Lease {
  readonly jobId: string;
  readonly token: string;
}

/** What workers do with jobs. Changes answer false when the lease is lost. */
export interface JobQueue {
  /** The next job of the tenant that was served longest ago; also one whose worker has died. */
  claim(terms: ClaimTerms): Promise<ClaimedJob | undefined>;
  renew(lease: Lease, until: number): Promise<boolean>;
  /** Whether a lost lease was lost by a cancellation; if not, another worker has the job. */
  isCancelled(jobId: string): Promise<boolean>;
  /** Back into the queue. A worker that stops in good order does not count as an attempt. */
  release(lease: Lease, back: { notBefore: number; isAttempt: boolean }): Promise<boolean>;
  setPieces(lease: Lease, total: number): Promise<boolean>;
  /** Writes a finished piece down, with its cost, and forgets earlier attempts. */
  addPiece(lease: Lease, piece: Piece): Promise<boolean>;
  /** What a cancelled job had under way is paid for too, though nothing comes of it. */
  addLateCost(jobId: string, late: Pick<Piece, 'costCredits' | 'units'>): Promise<void>;
  pieces(jobId: string): Promise<readonly Piece[]>;
  /** The one way to an end; a second one changes nothing. */
  finish(lease: Lease, end: JobEnd): Promise<boolean>;
}

/** On which terms one process takes the next job, or the next message, from all that do. */
export interface ClaimTerms {
  readonly now: number;
  /** From then on it is anybody's again, unless something is said before. */
  readonly until: number;
  /** Tenants that have enough of this process already. */
  readonly except: readonly string[];
}

export interface ClaimedJob {
  readonly job: Job;
  readonly lease: Lease;
}

export type JobEnd =
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
      /** Paid for pieces that were never written down. */
      readonly lostCredits: number;
      readonly now: number;
    };

/** Every object that jobs have, from before its first byte until it is deleted. */
export interface JobObjects {
  note(key: string, jobId: string, deleteAt: number): Promise<void>;
  due(now: number, limit: number): Promise<readonly string[]>;
  forget(key: string): Promise<void>;
  /** Makes one due at once that nobody needs. False: it is the input of a job. */
  letGo(key: string): Promise<boolean>;
  /** It is not due before. */
  postpone(key: string, until: number): Promise<void>;
  /** Turns outputs whose time is over into expired ones, and removes old rows. */
  expire(now: number, rowsBefore: number): Promise<void>;
}

/** Messages that wait for their receiver. */
export interface WebhookQueue {
  /** The next one that is due. */
  claim(terms: ClaimTerms): Promise<Webhook | undefined>;
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
