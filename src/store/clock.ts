import { sql } from 'kysely';
import type { PeriodicTask } from '../core/periodic-task.ts';
import type { LedgerStore } from '../money/ledger.ts';
import type { Database } from './database.ts';

const setEveryMs = 5_000;

/** An answer that took longer is too old to set a clock by. */
const roundTripMsMax = 2_000;

/**
 * How much further the wall clock may have moved than the monotonic one since the store was asked.
 * Enough to end every lease of a machine that slept, too little to remove what is kept for a day.
 */
const leapMsMax = 600_000;

/** What time it was in the store, and on our own clocks at that moment. */
interface Reading {
  readonly storeMs: number;
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * The time by which processes agree when a lease or a key is over, and what is old. On Postgres it
 * is the server's: a machine whose clock is minutes ahead would take the leases of all others for
 * ended, and spend them again.
 */
export class StoreClock {
  readonly #database: Database;
  #reading: Reading | undefined;

  private constructor(database: Database) {
    this.#database = database;
  }

  static async open(database: Database): Promise<StoreClock> {
    const clock = new StoreClock(database);
    await clock.set();
    return clock;
  }

  /**
   * The store's time when it was last read, and what has passed since by the clock that moved
   * further: the wall clock can be set back, and the monotonic one stops while the machine sleeps.
   */
  readonly now = (): number => {
    if (!this.#reading) return Date.now();
    const { storeMs, wallMs, monotonicMs } = this.#reading;
    const sinceMs = performance.now() - monotonicMs;
    const leapMs = Math.min(Math.max(0, Date.now() - wallMs - sinceMs), leapMsMax);
    return storeMs + Math.round(sinceMs + leapMs);
  };

  /** How far the store is ahead of this machine; undefined when it took too long to say. */
  get aheadMs(): number | undefined {
    if (this.#database.engine === 'sqlite') return 0;
    return this.#reading && this.#reading.storeMs - this.#reading.wallMs;
  }

  periodicTasks(): PeriodicTask[] {
    return [{ everyMs: setEveryMs, run: () => this.set() }];
  }

  async set(): Promise<void> {
    // Those who share a file share a machine, and its clock.
    if (this.#database.engine === 'sqlite') return;
    const startedAt = performance.now();
    const { rows } = await sql<{ ms: number }>`
      select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as ms
    `.execute(this.#database.read);
    // Measured by the monotonic clock: the wall clock may be changed while we wait.
    const roundTripMs = performance.now() - startedAt;
    const [time] = rows;
    if (!time || roundTripMs > roundTripMsMax) return;
    const storeMs = time.ms + Math.round(roundTripMs / 2);
    this.#reading = { storeMs, wallMs: Date.now(), monotonicMs: performance.now() };
  }
}

/**
 * A ledger that books by the store's time, whatever clock its caller goes by, so that a month ends
 * for all at once; and that reads the store's clock before it renews or expires leases.
 */
export function withStoreClock(
  ledger: LedgerStore,
  clock: Pick<StoreClock, 'now' | 'set'>,
): LedgerStore {
  return {
    lease: (order) => ledger.lease(order),
    returnCredits: (back) => ledger.returnCredits(back),
    async renew(processId, until) {
      // After a long sleep `until` may be over: with the clock set, the caller can see that.
      await clock.set();
      return ledger.renew(processId, until);
    },
    async expire(_, deadProcessId) {
      await clock.set();
      await ledger.expire(clock.now(), deadProcessId);
    },
    recall: (owner, processId) => ledger.recall(owner, processId),
    pendingRecalls: (processId) => ledger.pendingRecalls(processId),
    commit: (batch) => ledger.commit({ ...batch, now: clock.now() }),
    commitWithAnswers: (batch, answers) =>
      ledger.commitWithAnswers({ ...batch, now: clock.now() }, answers),
  };
}
