import { sql } from 'kysely';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { LedgerStore } from '../money/ledger.ts';
import type { ReadOnlyDatabase } from './database.ts';

const syncEveryMs = 5_000;

/** A reading with a longer round trip is too imprecise. */
const roundTripMsMax = 2_000;

/**
 * How much further the wall clock may have moved than the monotonic one since the last reading.
 * Enough to end every lease of a machine that slept, but too little to expire data that is kept for
 * a day.
 */
const leapMsMax = 600_000;

/** The time of the store and of both local clocks at one moment. */
interface Reading {
  readonly storeMs: number;
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * The clock by which all processes expire leases and keys. On Postgres, it is the server's clock: a
 * machine whose clock is minutes ahead would otherwise consider the leases of all other processes
 * expired and spend their credits again.
 */
export class StoreClock {
  readonly #database: ReadOnlyDatabase;
  #reading: Reading | undefined;

  private constructor(database: ReadOnlyDatabase) {
    this.#database = database;
  }

  static async open(database: ReadOnlyDatabase): Promise<StoreClock> {
    const clock = new StoreClock(database);
    await clock.sync();
    return clock;
  }

  /**
   * Returns the last reading plus the time since, as measured by the local clock that moved
   * further: the wall clock can be set back, and the monotonic one stops while the machine sleeps.
   */
  readonly now = (): number => {
    if (!this.#reading) return Date.now();
    const { storeMs, wallMs, monotonicMs } = this.#reading;
    const sinceMs = performance.now() - monotonicMs;
    const leapMs = Math.min(Math.max(0, Date.now() - wallMs - sinceMs), leapMsMax);
    return storeMs + Math.round(sinceMs + leapMs);
  };

  /** How far the store is ahead of this machine. Undefined if the reading took too long. */
  get aheadMs(): number | undefined {
    if (this.#database.engine === 'sqlite') return 0;
    return this.#reading && this.#reading.storeMs - this.#reading.wallMs;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: syncEveryMs, run: () => this.sync() }];
  }

  async sync(): Promise<void> {
    // Processes that share a file share a machine and its clock.
    if (this.#database.engine === 'sqlite') return;
    const startedAt = performance.now();
    const { rows } = await sql<{ ms: number }>`
      select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as ms
    `.execute(this.#database.read);
    // Measured on the monotonic clock, because the wall clock may change meanwhile.
    const roundTripMs = performance.now() - startedAt;
    const [time] = rows;
    if (!time || roundTripMs > roundTripMsMax) return;
    const storeMs = time.ms + Math.round(roundTripMs / 2);
    this.#reading = { storeMs, wallMs: Date.now(), monotonicMs: performance.now() };
  }
}

/**
 * Wraps a ledger so that it commits with the store's time, not with the caller's. This way, a month
 * ends for all processes at once. Reads the store's clock before renewing or expiring leases.
 */
export function withStoreClock(
  ledger: LedgerStore,
  clock: Pick<StoreClock, 'now' | 'sync'>,
): LedgerStore {
  return {
    lease: (request) => ledger.lease(request),
    returnCredits: (returned) => ledger.returnCredits(returned),
    async renew(processId, until) {
      // After a long sleep, `until` may have passed. Once the clock is synced, the caller can
      // detect that.
      await clock.sync();
      return ledger.renew(processId, until);
    },
    reportHolds: (processId, holds) => ledger.reportHolds(processId, holds),
    async expire(_, deadProcessId) {
      await clock.sync();
      await ledger.expire(clock.now(), deadProcessId);
    },
    recall: (owner, processId) => ledger.recall(owner, processId),
    pendingRecalls: (processId) => ledger.pendingRecalls(processId),
    commit: (batch) => ledger.commit({ ...batch, now: clock.now() }),
    commitWithAnswers: (batch, answers) =>
      ledger.commitWithAnswers({ ...batch, now: clock.now() }, answers),
  };
}
