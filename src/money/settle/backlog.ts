import { unbookedMax } from '../../core/bounds.ts';

/**
 * Booking is behind from this many waiting requests or this lag on. Batches are committed several
 * times per second, so this is far from normal, and far from the limit at which calls are rejected.
 */
const behindRequests = unbookedMax / 5;
const behindLagMs = 10_000;
/** Booking has caught up below half of these. */
const caughtUpRequests = behindRequests / 2;
const caughtUpLagMs = behindLagMs / 2;
/** Rejecting ends below this, not at once, so that a client that waits as told isn't too early. */
const acceptBelow = 0.9 * unbookedMax;

/** The time over which the booking rate is measured. */
const rateWindowMs = 10_000;
/** The wait to suggest while nothing is booked, when nobody can know how long it takes. */
const unknownWaitSeconds = 30;
const waitSecondsMax = 300;

export interface BacklogSize {
  /** Ended requests that aren't booked. */
  readonly waiting: number;
  /** How long the oldest of them has waited. */
  readonly lagMs: number;
}

/** Tells from the size of the backlog and the booking rate whether booking keeps up. */
export class Backlog {
  /** The commits of the last seconds, oldest first. Times are of the monotonic clock. */
  readonly #commits: { readonly at: number; readonly requests: number }[] = [];
  #bookedRequests = 0;
  #isBehind = false;
  #isFull = false;

  /** All requests booked by this process. */
  get bookedRequests(): number {
    return this.#bookedRequests;
  }

  get isBehind(): boolean {
    return this.#isBehind;
  }

  booked(requests: number, now = performance.now()): void {
    this.#bookedRequests += requests;
    this.#commits.push({ at: now, requests });
    this.#dropOldCommits(now);
  }

  /** Returns what changed since the last call. */
  update({ waiting, lagMs }: BacklogSize): 'behind' | 'caught-up' | undefined {
    const before = this.#isBehind;
    if (waiting >= behindRequests || lagMs >= behindLagMs) this.#isBehind = true;
    else if (waiting < caughtUpRequests && lagMs < caughtUpLagMs) this.#isBehind = false;
    if (this.#isBehind === before) return undefined;
    return this.#isBehind ? 'behind' : 'caught-up';
  }

  /** Returns in how many seconds calls will be accepted, or undefined if they are now. */
  rejectionSeconds(waiting: number, now = performance.now()): number | undefined {
    if (waiting >= unbookedMax) this.#isFull = true;
    else if (waiting < acceptBelow) this.#isFull = false;
    if (!this.#isFull) return undefined;
    const perSecond = this.perSecond(now);
    if (perSecond === 0) return unknownWaitSeconds;
    return Math.min(waitSecondsMax, Math.max(1, Math.ceil((waiting - acceptBelow) / perSecond)));
  }

  /** Returns the requests booked per second, measured over the last seconds. */
  perSecond(now = performance.now()): number {
    this.#dropOldCommits(now);
    const requests = this.#commits.reduce((sum, commit) => sum + commit.requests, 0);
    return requests / (rateWindowMs / 1000);
  }

  #dropOldCommits(now: number): void {
    const first = this.#commits.findIndex(({ at }) => at > now - rateWindowMs);
    this.#commits.splice(0, first === -1 ? this.#commits.length : first);
  }
}
