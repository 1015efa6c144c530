import { jobAttemptsMax, jobMsMax, jobOutputMs } from '../core/bounds.ts';
import { withTimeout } from '../core/deadlines.ts';
import { asGatewayError, errorTable, GatewayError } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { missingObject, newObjectKey } from '../core/stored-object.ts';
import type { Job, Piece } from './job.ts';
import { type ObjectStorage, readObject } from './object-storage.ts';
import { type JobObjects, type JobQueue, type Lease, tenantsAtLimit } from './queue.ts';
import { type JobRunner, pieceRequestId, RequestIdUsedError, type StopReason } from './runner.ts';
import { type SplitJob, splitJob } from './split-job.ts';

export interface WorkerDeps extends WorkDeps {
  /** Reports the cause of a failure that clients see as an internal error. */
  onFailure(jobId: string, error: unknown): void;
}

/**
 * Jobs that one process runs at the same time. Jobs can take hours, so while `sharedJobsMax` run,
 * only tenants without a running job get the remaining slots.
 */
const concurrentJobsMax = 6;
const sharedJobsMax = 4;
const concurrentJobsPerTenantMax = 3;

const claimEveryMs = 1_000;
const renewEveryMs = 15_000;
/** Long enough that several renewals can fail before another worker takes over the job. */
const leaseMs = 60_000;

/** Retries follow after 15 seconds and 5 minutes, which gives providers time to recover. */
const retryMsFirst = 15_000;
const retryFactor = 20;

interface RunningJob {
  readonly job: Job;
  readonly lease: Lease;
  readonly stop: AbortController;
  readonly done: Promise<void>;
  until: number;
}

/** Claims jobs from the queue and runs a few at a time until the process stops. */
export class JobWorker {
  readonly #deps: WorkerDeps;
  readonly #running = new Set<RunningJob>();
  #isStopping = false;
  #claiming: Promise<void> = Promise.resolve();

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
  }

  periodicTasks(): PeriodicTask[] {
    return [
      { everyMs: claimEveryMs, run: () => this.claim() },
      { everyMs: renewEveryMs, run: () => this.renew() },
    ];
  }

  /** Fills the free slots with waiting jobs. Calls run one after another to respect the limit. */
  claim(): Promise<void> {
    this.#claiming = this.#claiming.catch(() => undefined).then(() => this.#claimJobs());
    return this.#claiming;
  }

  async #claimJobs(): Promise<void> {
    while (!this.#isStopping && this.#running.size < concurrentJobsMax) {
      const now = this.#deps.now();
      // After a clock jump or a suspension, leases seem expired. Renew them first, so that this
      // process doesn't claim its own jobs.
      if ([...this.#running].some(({ until }) => until <= now)) await this.renew();
      const until = now + leaseMs;
      const tenants = [...this.#running].map(({ job }) => job.tenantId);
      const perTenantMax = tenants.length < sharedJobsMax ? concurrentJobsPerTenantMax : 1;
      const exceptTenants = tenantsAtLimit(tenants, perTenantMax);
      const claimed = await this.#deps.queue.claim({ now, until, exceptTenants });
      if (!claimed) return;
      this.#start(claimed.job, claimed.lease, until);
    }
  }

  /** Resolves when all running jobs have ended. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  /** Renews all leases and aborts jobs that are lost, canceled, or overdue. */
  async renew(): Promise<void> {
    await Promise.all([...this.#running].map((running) => this.#renewOne(running)));
  }

  /** Aborts a job that was canceled here. Another process would notice at its next renewal. */
  abortCanceled(jobId: string): void {
    for (const { job, stop } of this.#running) {
      if (job.id === jobId) stop.abort('cancelled' satisfies StopReason);
    }
  }

  /**
   * Stops claiming jobs and waits for running pieces, then aborts those that are still running.
   * Unfinished jobs return to the queue, and another process continues them.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    await withTimeout(this.idle(), withinMs);
    this.abortAll();
    await this.idle();
  }

  /** Call this before closing connections, so that the failures don't count as attempts. */
  abortAll(): void {
    for (const { stop } of this.#running) stop.abort('shutdown' satisfies StopReason);
  }

  #start(job: Job, lease: Lease, until: number): void {
    const stop = new AbortController();
    const done = this.#run(job, lease, stop.signal).finally(() => {
      this.#running.delete(running);
      // Claim the next job without waiting for the timer. If this fails, the timer tries again.
      this.claim().catch(() => undefined);
    });
    const running: RunningJob = { job, lease, stop, done, until };
    this.#running.add(running);
  }

  async #renewOne(running: RunningJob): Promise<void> {
    const { job, lease, stop } = running;
    const { now, queue } = this.#deps;
    if (isOverdue(job, now())) {
      stop.abort('timeout' satisfies StopReason);
      return;
    }
    const until = now() + leaseMs;
    try {
      if (await queue.renew(lease, until)) running.until = until;
      else stop.abort(await this.#lossReason(job));
    } catch {
      // The store is unreachable. After the lease expires, another worker may run the job.
      if (now() >= running.until) stop.abort('lost' satisfies StopReason);
    }
  }

  async #lossReason({ id }: Job): Promise<StopReason> {
    return (await this.#deps.queue.isCanceled(id)) ? 'cancelled' : 'lost';
  }

  /** Never rejects: failures are stored in the queue or logged. */
  async #run(job: Job, lease: Lease, signal: AbortSignal): Promise<void> {
    try {
      requireRunnable(job, this.#deps.now());
      const isStopping = () => this.#isStopping;
      await runJob(job, lease, signal, { ...this.#deps, isStopping });
    } catch (error) {
      await this.#handleFailure(job, lease, signal, error).catch((failure: unknown) =>
        this.#deps.onFailure(job.id, failure),
      );
    }
  }

  async #handleFailure(job: Job, lease: Lease, signal: AbortSignal, cause: unknown): Promise<void> {
    const { queue, now } = this.#deps;
    const isLost = signal.reason === 'lost' || signal.reason === 'cancelled';
    if (isLost || cause instanceof LeaseLostError) return;
    if (signal.reason === 'shutdown' || cause instanceof JobInterruptedError) {
      await queue.release(lease, { notBefore: 0, isAttempt: false });
      return;
    }
    const reason = signal.reason === 'timeout' ? timeoutError() : cause;
    const error = reason instanceof PermanentFailure ? reason.error : asGatewayError(reason);
    if (error.symbol === 'internal_error') this.#deps.onFailure(job.id, cause);
    const attempts = await this.#attemptsOf(job);
    if (!(reason instanceof PermanentFailure) && isTransient(error) && attempts < jobAttemptsMax) {
      const waitMs = retryMsFirst * retryFactor ** (attempts - 1);
      const notBefore = now() + Math.max(waitMs, (error.retryAfterSeconds ?? 0) * 1000);
      await queue.release(lease, { notBefore, isAttempt: true });
      return;
    }
    const failure = { message: error.message, type: error.symbol, code: error.status };
    await queue.finish(lease, { status: 'failed', failure, now: now() });
  }

  /** Returns 1 if this run finished a piece, because progress resets the count of attempts. */
  async #attemptsOf(job: Job): Promise<number> {
    const { length } = await this.#deps.queue.pieces(job.id);
    return length > job.piecesDone ? 1 : job.attempts;
  }
}

/** Rejects jobs that are overdue, or whose workers have all crashed. */
function requireRunnable(job: Job, now: number): void {
  if (isOverdue(job, now)) throw timeoutError();
  if (job.attempts <= jobAttemptsMax) return;
  const message = `The job failed: ${jobAttemptsMax} workers stopped while running it.`;
  throw new PermanentFailure(new GatewayError('internal_error', message));
}

/**
 * Returns whether a later attempt may succeed. Doesn't use `retryHelps`, which is for waiting
 * clients, because a job has more time. If this process doesn't know the model, another may.
 */
function isTransient({ symbol, status, param }: GatewayError): boolean {
  if (status === 404 && param === 'model') return true;
  return symbol === 'rate_limit_exceeded' || errorTable[symbol].blame !== 'caller';
}

function isOverdue({ startedAt }: Job, now: number): boolean {
  return startedAt !== null && now - startedAt > jobMsMax;
}

function timeoutError(): PermanentFailure {
  const message = `The job didn't finish within ${jobMsMax / 3_600_000} hours.`;
  return new PermanentFailure(new GatewayError('upstream_error', message, { status: 504 }));
}

interface WorkDeps {
  readonly queue: JobQueue;
  readonly objects: Pick<JobObjects, 'register' | 'releaseUnused'>;
  readonly storage: ObjectStorage;
  readonly runner: JobRunner;
  now(): number;
}

/** The job was canceled or taken over, so this worker must not change it. */
class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

/** The process is shutting down; another worker runs the remaining pieces. */
class JobInterruptedError extends Error {
  override readonly name = 'JobInterruptedError';
}

/** A failure that a retry can't fix. */
class PermanentFailure extends Error {
  override readonly name = 'PermanentFailure';
  readonly error: GatewayError;

  constructor(error: GatewayError) {
    super(error.message);
    this.error = error;
  }
}

/** Longer than any job runs. Objects of an ended job become due for deletion sooner. */
const unfinishedObjectMs = jobOutputMs;

/**
 * Runs the missing pieces of a job and joins all pieces. If one fails, waits for the others that
 * are running and stores them, because they are charged. Then rejects.
 */
async function runJob(
  job: Job,
  lease: Lease,
  signal: AbortSignal,
  deps: WorkDeps & { isStopping(): boolean },
): Promise<void> {
  const { queue, storage, runner, now } = deps;
  const mayStart = () => !signal.aborted && !deps.isStopping();
  const pieces = await queue.pieces(job.id);
  const split = await splitJob(job, pieces, runner, storage);
  requireLease(await queue.setPieces(lease, split.count));
  const done = new Map(pieces.map((piece) => [piece.number, piece]));
  const missing = Array.from({ length: split.count }, (_, number) => number).filter(
    (number) => !done.has(number),
  );
  const runOne = async (number: number) => {
    const provider = done.values().next().value?.provider ?? null;
    done.set(number, await runPiece({ job, lease, split, number, provider, signal }, deps));
  };
  const read = async (number: number) => readPiece(done.get(number), storage);
  if (done.size === 0) await runOne(missing.shift() ?? 0);
  // Check the first piece's format before the others run. They cost credits even if they can't be
  // joined.
  if (split.checkJoinable && missing.length > 0 && done.has(0)) {
    await split.checkJoinable(await read(0)).catch(rethrowAsPermanent);
  }
  await runAll(missing, split.concurrency, runOne, mayStart);
  signal.throwIfAborted();
  if (done.size < split.count) throw new JobInterruptedError('The worker is stopping.');
  const outputKey = newObjectKey(split.extension);
  await deps.objects.register(outputKey, job.id, now() + unfinishedObjectMs);
  const outputBytes = await storage.put(outputKey, split.join(read)).catch(rethrowAsPermanent);
  const endedAt = now();
  const outcome = { outputKey, outputBytes, expiresAt: endedAt + jobOutputMs, now: endedAt };
  const holdsLease = await queue.finish(lease, { status: 'succeeded', ...outcome });
  if (!holdsLease) await deps.objects.releaseUnused(outputKey);
  requireLease(holdsLease);
}

interface PieceRunInput {
  readonly job: Job;
  readonly lease: Lease;
  readonly split: SplitJob;
  readonly number: number;
  readonly provider: string | null;
  readonly signal: AbortSignal;
}

/** Runs one piece and stores its result. */
async function runPiece(
  { job, lease, split, number, provider, signal }: PieceRunInput,
  { queue, objects, storage, runner, now }: WorkDeps,
): Promise<Piece> {
  const run = async () => {
    const requestId = await pieceRequestId(job, number, runner);
    return split.run(number, { requestId, provider, signal });
  };
  const result = await run().catch((error: unknown) => {
    if (error instanceof RequestIdUsedError) return run();
    throw error;
  });
  const { costCredits, units } = result;
  const objectKey = newObjectKey(split.extension);
  await objects.register(objectKey, job.id, now() + unfinishedObjectMs);
  await storage.put(objectKey, [result.bytes]);
  const piece: Piece = { number, objectKey, costCredits, units, provider: result.provider };
  // Retry once, because the piece is already charged and the first transaction may have been rolled
  // back. If it was committed instead, the retry fails, and the next worker finds the piece.
  const holdsLease = await queue.addPiece(lease, piece).catch(() => queue.addPiece(lease, piece));
  if (!holdsLease) {
    await queue.addLateUnits(job.id, units);
    await objects.releaseUnused(objectKey);
  }
  requireLease(holdsLease);
  return piece;
}

/** Runs up to `concurrency` pieces at a time. After a failure, starts no more and throws it. */
async function runAll(
  numbers: readonly number[],
  concurrency: number,
  runOne: (number: number) => Promise<void>,
  mayStart: () => boolean,
): Promise<void> {
  const waiting = [...numbers];
  const failures: unknown[] = [];
  const runNext = async () => {
    while (mayStart() && failures.length === 0) {
      const number = waiting.shift();
      if (number === undefined) return;
      await runOne(number).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, runNext));
  if (failures.length > 0) throw failures[0];
}

async function readPiece(piece: Piece | undefined, storage: ObjectStorage): Promise<Uint8Array> {
  const object = piece && (await storage.open(piece.objectKey));
  if (!object) throw missingObject('A finished piece of the job');
  return readObject(object);
}

/** Pieces with different formats can never be joined, but storage failures may be temporary. */
function rethrowAsPermanent(error: unknown): never {
  throw error instanceof GatewayError ? new PermanentFailure(error) : error;
}

function requireLease(holdsLease: boolean): void {
  if (!holdsLease) throw new LeaseLostError('The job was canceled or taken over.');
}
