import { jobAttemptsMax, jobMsMax, jobOutputMs } from '../core/bounds.ts';
import { withTimeout } from '../core/deadlines.ts';
import { asGatewayError, errorTable, GatewayError } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { missingObject, newObjectKey } from '../core/stored-object.ts';
import type { Job, Piece } from './job.ts';
import { type ObjectStorage, readObject } from './objects.ts';
import { type JobObjects, type JobQueue, type Lease, tenantsAtLimit } from './queue.ts';
import { type JobRunner, pieceRequestId, RequestIdUsedError, type StopReason } from './runner.ts';
import { type SplitJob, splitJob } from './split-job.ts';

export interface WorkerDeps extends WorkDeps {
  /** What happened to a job that clients only see as a failure of ours. */
  onFailure(jobId: string, error: unknown): void;
}

/** Jobs that one process works on at once; one tenant never gets all of the places. */
const concurrentJobsMax = 4;
const concurrentJobsPerTenantMax = 3;

const claimEveryMs = 1_000;
const renewEveryMs = 15_000;
/** Several renewals may fail before anybody takes a job over. */
const leaseMs = 60_000;

/** After 15 seconds, and after five minutes: providers recover, and nobody waits for a job. */
const retryMsFirst = 15_000;
const retryFactor = 20;

interface RunningJob {
  readonly job: Job;
  readonly lease: Lease;
  readonly stop: AbortController;
  readonly done: Promise<void>;
  until: number;
}

/** Takes jobs from the queue and does them, a few at a time, until the process stops. */
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

  /** Fills every free place with a waiting job, one at a time, so that there are never too many. */
  claim(): Promise<void> {
    this.#claiming = this.#claiming.catch(() => undefined).then(() => this.#claimJobs());
    return this.#claiming;
  }

  async #claimJobs(): Promise<void> {
    while (!this.#isStopping && this.#running.size < concurrentJobsMax) {
      const now = this.#deps.now();
      // The clock jumped, or the machine slept: renewed, so that we do not claim our own jobs.
      if ([...this.#running].some(({ until }) => until <= now)) await this.renew();
      const until = now + leaseMs;
      const tenants = [...this.#running].map(({ job }) => job.tenantId);
      const exceptTenants = tenantsAtLimit(tenants, concurrentJobsPerTenantMax);
      const claimed = await this.#deps.queue.claim({ now, until, exceptTenants });
      if (!claimed) return;
      this.#start(claimed.job, claimed.lease, until);
    }
  }

  /** Resolves when everything that runs now has ended. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running].map(({ done }) => done));
  }

  /** Tells the queue that the jobs live, and stops those that have been lost or take too long. */
  async renew(): Promise<void> {
    await Promise.all([...this.#running].map((running) => this.#renewOne(running)));
  }

  /** Breaks off a job that was cancelled here; other processes find out at their next renewal. */
  abortCanceled(jobId: string): void {
    for (const { job, stop } of this.#running) {
      if (job.id === jobId) stop.abort('cancelled' satisfies StopReason);
    }
  }

  /**
   * Claims nothing more, gives running pieces this time to end, then breaks them off. The jobs go
   * back into the queue and another process continues where they stood.
   */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    await withTimeout(this.idle(), withinMs);
    this.abortAll();
    await this.idle();
  }

  /** Called before connections are cut: what fails then does not count as an attempt. */
  abortAll(): void {
    for (const { stop } of this.#running) stop.abort('shutdown' satisfies StopReason);
  }

  #start(job: Job, lease: Lease, until: number): void {
    const stop = new AbortController();
    const done = this.#run(job, lease, stop.signal).finally(() => {
      this.#running.delete(running);
      // The next job need not wait for the timer; if the store is away, the timer tries again.
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
      // The store is away: the job is ours until the lease is over, and then perhaps another's.
      if (now() >= running.until) stop.abort('lost' satisfies StopReason);
    }
  }

  async #lossReason({ id }: Job): Promise<StopReason> {
    return (await this.#deps.queue.isCanceled(id)) ? 'cancelled' : 'lost';
  }

  /** Never rejects: whatever happens to a job ends in the queue or in the log. */
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
    if (signal.reason === 'shutdown' || cause instanceof JobInterrupted) {
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

  /** A piece that was finished in this run makes it the first attempt again. */
  async #attemptsOf(job: Job): Promise<number> {
    const { length } = await this.#deps.queue.pieces(job.id);
    return length > job.piecesDone ? 1 : job.attempts;
  }
}

/** A worker that died without a word leaves only the count of its attempts. */
function requireRunnable(job: Job, now: number): void {
  if (isOverdue(job, now)) throw timeoutError();
  if (job.attempts <= jobAttemptsMax) return;
  const message = `The job was given up after ${jobAttemptsMax} attempts that never ended.`;
  throw new PermanentFailure(new GatewayError('internal_error', message));
}

/**
 * `retryHelps` speaks to clients who wait; a job has more time than they have. A model that is
 * unknown here was known where the job was made: each process reads a configuration of its own.
 */
function isTransient({ symbol, status, param }: GatewayError): boolean {
  if (status === 404 && param === 'model') return true;
  return symbol === 'rate_limit_exceeded' || errorTable[symbol].blame !== 'caller';
}

function isOverdue({ startedAt }: Job, now: number): boolean {
  return startedAt !== null && now - startedAt > jobMsMax;
}

function timeoutError(): PermanentFailure {
  const message = `The job did not end within ${jobMsMax / 3_600_000} hours.`;
  return new PermanentFailure(new GatewayError('upstream_error', message, { status: 504 }));
}

interface WorkDeps {
  readonly queue: JobQueue;
  readonly objects: Pick<JobObjects, 'register' | 'releaseUnused'>;
  readonly storage: ObjectStorage;
  readonly runner: JobRunner;
  now(): number;
}

/** The job belongs to somebody else now, or to nobody: nothing more may be done for it. */
class LeaseLostError extends Error {
  override readonly name = 'LeaseLost';
}

/** The process stops: what runs is finished, and the rest is left to another. */
class JobInterrupted extends Error {
  override readonly name = 'Interrupted';
}

/** A failure that no retry can mend. */
class PermanentFailure extends Error {
  override readonly name = 'Hopeless';
  readonly error: GatewayError;

  constructor(error: GatewayError) {
    super(error.message);
    this.error = error;
  }
}

/** Longer than any job takes; when the job ends, its objects are swept sooner. */
const unfinishedObjectMs = jobOutputMs;

/**
 * Does a job from where it stands: every piece that is written down already is kept, the others
 * are run, then all are joined. Rejects when a piece fails; those that ran beside it are finished
 * and written down first, since they are paid for.
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
  // Whether the pieces can be joined shows in the first: if not, nobody pays for the others.
  if (missing.length > 0 && done.has(0))
    await split.tryJoin(await read(0)).catch(rethrowAsPermanent);
  await runAll(missing, split.concurrency, runOne, mayStart);
  signal.throwIfAborted();
  if (done.size < split.count) throw new JobInterrupted('The worker stops.');
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

/** Runs one piece and writes down what came of it; only then is it done. */
async function runPiece(
  { job, lease, split, number, provider, signal }: PieceRunInput,
  { queue, objects, storage, runner, now }: WorkDeps,
): Promise<Piece> {
  const run = async () => {
    const requestId = await pieceRequestId(job, number, runner);
    return split.run(number, { requestId, provider, signal });
  };
  const { bytes, costCredits, units, ...served } = await run().catch((error: unknown) => {
    if (error instanceof RequestIdUsedError) return run();
    throw error;
  });
  const objectKey = newObjectKey(split.extension);
  await objects.register(objectKey, job.id, now() + unfinishedObjectMs);
  await storage.put(objectKey, [bytes]);
  const piece: Piece = { number, objectKey, costCredits, units, provider: served.provider };
  // The piece is made and paid for, so this is tried twice. A store that undid the first try,
  // because we stood still, may take it now; one that has it already refuses, and the next worker
  // finds it.
  const holdsLease = await queue.addPiece(lease, piece).catch(() => queue.addPiece(lease, piece));
  if (!holdsLease) {
    await queue.addLateUnits(job.id, units);
    await objects.releaseUnused(objectKey);
  }
  requireLease(holdsLease);
  return piece;
}

/** A few at a time; after a failure no further one starts, and the failure is passed on. */
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

/** Pieces that do not fit together never will; a full disk may be emptied. */
function rethrowAsPermanent(error: unknown): never {
  throw error instanceof GatewayError ? new PermanentFailure(error) : error;
}

function requireLease(holdsLease: boolean): void {
  if (!holdsLease) throw new LeaseLostError('The job was cancelled or taken over.');
}
