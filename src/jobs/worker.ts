import { jobAttemptsMax, jobMsMax } from '../core/bounds.ts';
import type { Chore } from '../core/chore.ts';
import { asGatewayError, errorTable, GatewayError } from '../core/errors.ts';
import { within } from '../core/within.ts';
import { crowded } from './crowded.ts';
import type { Job } from './job.ts';
import type { Lease } from './queue.ts';
import type { StopReason } from './runner.ts';
import { Hopeless, Interrupted, LeaseLost, type WorkParts, work } from './work.ts';

export interface WorkerParts extends WorkParts {
  /** What happened to a job that clients only see as a failure of ours. */
  onFailure(jobId: string, thrown: unknown): void;
}

/** Jobs that one process works on at once; one tenant never gets all of the places. */
const jobsAtOnce = 4;
const jobsOfTenant = 3;

const claimEveryMs = 1_000;
const renewEveryMs = 15_000;
/** Several renewals may fail before anybody takes a job over. */
const leaseMs = 60_000;

/** After 15 seconds, and after five minutes: providers recover, and nobody waits for a job. */
const retryMsFirst = 15_000;
const retryFactor = 20;

interface Running {
  readonly job: Job;
  readonly lease: Lease;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  until: number;
}

/** Takes jobs from the queue and does them, a few at a time, until the process stops. */
export class JobWorker {
  readonly #parts: WorkerParts;
  readonly #running = new Set<Running>();
  #isStopping = false;
  #claiming: Promise<void> = Promise.resolve();

  constructor(parts: WorkerParts) {
    this.#parts = parts;
  }

  chores(): Chore[] {
    return [
      { everyMs: claimEveryMs, run: () => this.claim() },
      { everyMs: renewEveryMs, run: () => this.renew() },
    ];
  }

  /** Fills every free place with a waiting job, one at a time, so that there are never too many. */
  claim(): Promise<void> {
    this.#claiming = this.#claiming.catch(() => undefined).then(() => this.#fill());
    return this.#claiming;
  }

  async #fill(): Promise<void> {
    while (!this.#isStopping && this.#running.size < jobsAtOnce) {
      const now = this.#parts.now();
      // The clock jumped, or the machine slept: renewed, so that we do not claim our own jobs.
      if ([...this.#running].some(({ until }) => until <= now)) await this.renew();
      const until = now + leaseMs;
      const tenants = [...this.#running].map(({ job }) => job.tenantId);
      const except = crowded(tenants, jobsOfTenant);
      const claimed = await this.#parts.queue.claim({ now, until, except });
      if (!claimed) return;
      this.#start(claimed.job, claimed.lease, until);
    }
  }

  /** Resolves when everything that runs now has ended. */
  async idle(): Promise<void> {
    await Promise.all([...this.#running].map(({ ended }) => ended));
  }

  /** Tells the queue that the jobs live, and stops those that have been lost or take too long. */
  async renew(): Promise<void> {
    await Promise.all([...this.#running].map((running) => this.#renewOne(running)));
  }

  /** Breaks off a job that was cancelled here; other processes find out at their next renewal. */
  cancelled(jobId: string): void {
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
    await within(this.idle(), withinMs);
    this.breakOff();
    await this.idle();
  }

  /** Called before connections are cut: what fails then does not count as an attempt. */
  breakOff(): void {
    for (const { stop } of this.#running) stop.abort('shutdown' satisfies StopReason);
  }

  #start(job: Job, lease: Lease, until: number): void {
    const stop = new AbortController();
    const ended = this.#run(job, lease, stop.signal).finally(() => {
      this.#running.delete(running);
      // The next job need not wait for the timer; if the store is away, the timer tries again.
      this.claim().catch(() => undefined);
    });
    const running: Running = { job, lease, stop, ended, until };
    this.#running.add(running);
  }

  async #renewOne(running: Running): Promise<void> {
    const { job, lease, stop } = running;
    const { now, queue } = this.#parts;
    if (isOverdue(job, now())) {
      stop.abort('timeout' satisfies StopReason);
      return;
    }
    const until = now() + leaseMs;
    try {
      if (await queue.renew(lease, until)) running.until = until;
      else stop.abort(await this.#lossOf(job));
    } catch {
      // The store is away: the job is ours until the lease is over, and then perhaps another's.
      if (now() >= running.until) stop.abort('lost' satisfies StopReason);
    }
  }

  async #lossOf({ id }: Job): Promise<StopReason> {
    return (await this.#parts.queue.isCancelled(id)) ? 'cancelled' : 'lost';
  }

  /** Never rejects: whatever happens to a job ends in the queue or in the log. */
  async #run(job: Job, lease: Lease, signal: AbortSignal): Promise<void> {
    try {
      refuseHopeless(job, this.#parts.now());
      const isStopping = () => this.#isStopping;
      await work(job, lease, signal, { ...this.#parts, isStopping });
    } catch (thrown) {
      await this.#end(job, lease, signal, thrown).catch((failure: unknown) =>
        this.#parts.onFailure(job.id, failure),
      );
    }
  }

  async #end(job: Job, lease: Lease, signal: AbortSignal, thrown: unknown): Promise<void> {
    const { queue, now } = this.#parts;
    const isLost = signal.reason === 'lost' || signal.reason === 'cancelled';
    if (isLost || thrown instanceof LeaseLost) return;
    if (signal.reason === 'shutdown' || thrown instanceof Interrupted) {
      await queue.release(lease, { notBefore: 0, isAttempt: false });
      return;
    }
    const reason = signal.reason === 'timeout' ? timeout() : thrown;
    const error = reason instanceof Hopeless ? reason.error : asGatewayError(reason);
    if (error.symbol === 'internal_error') this.#parts.onFailure(job.id, thrown);
    const attempts = await this.#attemptsOf(job);
    if (!(reason instanceof Hopeless) && mayPass(error) && attempts < jobAttemptsMax) {
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
    const { length } = await this.#parts.queue.pieces(job.id);
    return length > job.piecesDone ? 1 : job.attempts;
  }
}

/** A worker that died without a word leaves only the count of its attempts. */
function refuseHopeless(job: Job, now: number): void {
  if (isOverdue(job, now)) throw timeout();
  if (job.attempts <= jobAttemptsMax) return;
  const message = `The job was given up after ${jobAttemptsMax} attempts that never ended.`;
  throw new Hopeless(new GatewayError('internal_error', message));
}

/**
 * `retryHelps` speaks to clients who wait; a job has more time than they have. A model that is
 * unknown here was known where the job was made: each process reads a configuration of its own.
 */
function mayPass({ symbol, status, param }: GatewayError): boolean {
  if (status === 404 && param === 'model') return true;
  return symbol === 'rate_limit_exceeded' || errorTable[symbol].blame !== 'caller';
}

function isOverdue({ startedAt }: Job, now: number): boolean {
  return startedAt !== null && now - startedAt > jobMsMax;
}

function timeout(): Hopeless {
  const message = `The job did not end within ${jobMsMax / 3_600_000} hours.`;
  return new Hopeless(new GatewayError('upstream_error', message, { status: 504 }));
}
