import { type Kysely, sql } from 'kysely';
import { failureCode } from '../../core/errors.ts';
import { dayMs, dayOf } from '../../records/period.ts';
import type { LogPartition, LogPartitions, StoreTransaction } from '../database.ts';
import { firstDay } from '../retention.ts';
import type { Schema } from '../schema.ts';
import { isServerFull } from './connection.ts';
import { partitionLog } from './partition-log.ts';
import {
  changePartitions,
  createPartition,
  dayStart,
  identifier,
  listPartitions,
  lockTable,
} from './partition-tables.ts';

/** Partitions exist for this long from now on, in case no gateway can create one for a while. */
const aheadMs = 14 * dayMs;

/** The number of partitions that a log of limited age has, unless each has a week. */
const partitionsMax = 60;
const spanDaysMax = 7;

const notOwned = "The database user can't add partitions, because it doesn't own request_log.";

/**
 * Returns the days of a new partition. A partition is removed once it is as old as a whole, so a
 * short retention needs short ones. More than a few hundred partitions would make reads that need
 * all of them slow.
 */
function spanDays(keepDays: number | null): number {
  if (keepDays === null) return spanDaysMax;
  return Math.min(spanDaysMax, Math.ceil(keepDays / partitionsMax));
}

/** Creates partitions of the request log ahead of time, and removes old ones. */
export class PostgresLogPartitions implements LogPartitions {
  readonly #db: Kysely<Schema>;
  /** Runs work on a connection of its own, without a time limit. */
  readonly #atLength: <T>(work: (db: Kysely<Schema>) => Promise<T>) => Promise<T>;
  #stopped = false;

  constructor(
    db: Kysely<Schema>,
    atLength: <T>(work: (db: Kysely<Schema>) => Promise<T>) => Promise<T>,
  ) {
    this.#db = db;
    this.#atLength = atLength;
  }

  list(): Promise<readonly LogPartition[] | undefined> {
    return listPartitions(this.#db);
  }

  async prepare(now: () => number, keepDays: number | null): Promise<boolean> {
    // With a clock this wrong, all requests would be in the future.
    if (dayOf(now()) < firstDay) return false;
    const isNew =
      (await this.list()) === undefined &&
      (await this.#atLength((db) => partitionLog(db, now, () => this.#stopped)));
    const spanMs = spanDays(keepDays) * dayMs;
    for (let from = dayStart(now()); from < now() + aheadMs && !this.#stopped; ) {
      const partitions = await this.list();
      if (!partitions) return false;
      const ranges = partitions.filter(({ isDefault }) => !isDefault);
      const current = ranges.find((range) => range.from <= from && from < range.until);
      if (current) from = current.until;
      else {
        if (!partitions.every(({ isOwned }) => isOwned)) throw new Error(notOwned);
        const next = ranges.find((range) => range.from > from)?.from ?? Number.POSITIVE_INFINITY;
        const outcome = await this.#create(from, Math.min(from + spanMs, next));
        // Another process is creating it.
        if (outcome === undefined) break;
        // The default partition keeps a day with too many requests.
        if (!outcome) from += dayMs;
      }
    }
    return isNew;
  }

  #create(from: number, until: number): Promise<boolean | undefined> {
    return changePartitions(this.#db, async (trx) => {
      const partitions = (await listPartitions(trx)) ?? [];
      // Another process may just have created it.
      const overlaps = (other: LogPartition) => other.from < until && from < other.until;
      const exists = partitions.some((other) => !other.isDefault && overlaps(other));
      return exists || createPartition(trx, { from, until });
    });
  }

  async removeBefore(time: number): Promise<number> {
    const partitions = (await this.list()) ?? [];
    let rows = 0;
    for (const { name, until, isDefault, isOwned } of partitions) {
      if (isDefault || !isOwned || until > time || this.#stopped) continue;
      const remove = (db: Kysely<Schema>) => removePartition(db, name, time);
      rows += await this.#atLength(remove).catch((error: unknown) => {
        if (!(error instanceof Error && isServerFull(error.cause))) throw error;
        // Counting the rows of most partitions fits into the limits of shared connections.
        return remove(this.#db);
      });
    }
    return rows;
  }

  stop(): void {
    this.#stopped = true;
  }
}

/**
 * Drops a partition unless an entry of a ledger since then has requests in it, as `ledger verify`
 * requires. Returns how many rows it had.
 */
async function removePartition(db: Kysely<Schema>, name: string, time: number): Promise<number> {
  const remove = async (trx: StoreTransaction) => {
    const table = sql.table(name);
    if (!(await listPartitions(trx))?.some((partition) => partition.name === name)) return 0;
    // Keeps a journal that returns from adding a row, and no booking of recent requests waits.
    await lockTable(trx, name, 'share');
    const { rows } = await sql<{ rows: number; isRecent: boolean }>`
      select (select count(*) from ${table}) as rows, exists (
        select from (select distinct entry_id from ${table} where entry_id is not null) as log
        left join bookings on bookings.number = log.entry_id
        join ledger_entries on ledger_entries.id = coalesce(bookings.entry_id, log.entry_id)
        where ledger_entries.created_at >= ${time}
      ) as "isRecent"`.execute(trx);
    const [found] = rows;
    if (!found || found.isRecent) return 0;
    await sql.raw(`drop table ${identifier(name)}`).execute(trx);
    return found.rows;
  };
  try {
    return (await changePartitions(db, remove, 0)) ?? 0;
  } catch (error) {
    // A long read, such as a backup, is using the log. The next run tries again.
    if (failureCode(error) === '55P03') return 0;
    throw error;
  }
}
