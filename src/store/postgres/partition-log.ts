import { type Kysely, sql } from 'kysely';
import { failureCode } from '../../core/errors.ts';
import { dayMs } from '../../records/period.ts';
import type { StoreTransaction } from '../database.ts';
import type { Schema } from '../schema.ts';
import {
  changePartitions,
  copyRights,
  dayStart,
  dayText,
  defaultPartition,
  identifier,
  limitWaits,
  listPartitions,
  lockPartitions,
  lockTable,
  movedRowsMax,
  runAll,
} from './partition-tables.ts';

/**
 * Days from now until the first partition after a log that had none. An older process recognizes a
 * repeated piece of a job only within a partition, and has been replaced by then.
 */
const daysUntilFirst = 8;

/** The migration starts over if less than this is left. */
const leftMsMin = dayMs;

/** A check of the log, until it is the first partition. Its bound is the end of that partition. */
const checkName = 'request_log_before';

/** The trigger and the function that keep the check from rejecting a booking. */
const divertName = 'request_log_divert';

/** Attempts to get a lock that a long read, such as a backup, holds; and the pause in between. */
const attemptsMax = 20;
const pauseMs = 3_000;

/** How often a process looks whether it is its turn. */
const turnsMax = 10;
const turnMs = 500;

interface PlainLog {
  /** The end of the first partition, or undefined before the first step. */
  readonly until: number | undefined;
  readonly isValid: boolean;
}

/**
 * Makes a log that has rows the first partition of a new one, without blocking bookings for more
 * than a moment. Each step is a transaction, and the next process resumes after the last one.
 * Returns true if this process has done it.
 */
export async function partitionLog(
  db: Kysely<Schema>,
  now: () => number,
  isStopped: () => boolean,
): Promise<boolean> {
  const change = (step: (trx: StoreTransaction) => Promise<boolean>, msMax?: number) =>
    takeTurn(() => changePartitions(db, step, msMax), isStopped);
  await retryLocked(() => change((trx) => ensureCheck(trx, now())), isStopped);
  // Reads the entire log. Other processes continue to book meanwhile.
  await change(validateCheck, 0);
  return retryLocked(() => change(attach), isStopped);
}

/** Partitions the log of a new database. Does nothing if the log has rows or is partitioned. */
export async function partitionEmptyLog(db: Kysely<Schema>, now: number): Promise<void> {
  if (!(await isPlainAndEmpty(db))) return;
  const work = async (trx: StoreTransaction) => {
    await lockPartitions(trx);
    if (!(await isPlainAndEmpty(trx))) return;
    await limitWaits(trx);
    await lockTable(trx, 'request_log', 'access exclusive');
    if (!(await isPlainAndEmpty(trx))) return;
    await makeFirstPartition(trx, dayStart(now) + dayMs);
  };
  // A user who may not create tables uses the log as it is, and a gateway tries again later.
  await (db.isTransaction ? work(db as StoreTransaction) : db.transaction().execute(work)).catch(
    (error: unknown) => {
      if (db.isTransaction || !['42501', '55P03'].includes(failureCode(error) ?? '')) throw error;
    },
  );
}

async function isPlainAndEmpty(db: Kysely<Schema>): Promise<boolean> {
  if (await listPartitions(db)) return false;
  const row = await db.selectFrom('request_log').select('id').limit(1).executeTakeFirst();
  return row === undefined;
}

async function retryLocked<T>(work: () => Promise<T>, isStopped: () => boolean): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      const isLocked = failureCode(error) === '55P03';
      if (!isLocked || attempt === attemptsMax || isStopped()) throw error;
      await Bun.sleep(pauseMs);
    }
  }
}

/** Waits for steps of other processes. Leaves the rest to them if one takes long. */
async function takeTurn(
  step: () => Promise<boolean | undefined>,
  isStopped: () => boolean,
): Promise<boolean> {
  for (let turn = 1; turn <= turnsMax && !isStopped(); turn += 1) {
    const outcome = await step();
    if (outcome !== undefined) return outcome;
    await Bun.sleep(turnMs);
  }
  return false;
}

/** Returns undefined if the log is partitioned. */
async function readPlainLog(trx: StoreTransaction): Promise<PlainLog | undefined> {
  if (await listPartitions(trx)) return undefined;
  const { rows } = await sql<{ definition: string; valid: boolean }>`
    select pg_get_constraintdef(oid) as definition, convalidated as valid from pg_constraint
    where conrelid = 'request_log'::regclass and conname = ${checkName}`.execute(trx);
  const [, until] = /< '?(\d+)/.exec(rows[0]?.definition ?? '') ?? [];
  return {
    until: until === undefined ? undefined : Number(until),
    isValid: rows[0]?.valid === true,
  };
}

/**
 * From here on, requests that are later than the first partition go to what will be the default
 * partition, and are missing in reports until then. No version of Tollgate fails to book them, even
 * if the migration isn't resumed for weeks.
 */
async function ensureCheck(trx: StoreTransaction, now: number): Promise<boolean> {
  const log = await readPlainLog(trx);
  if (!log || (log.until !== undefined && log.until - now >= leftMsMin)) return false;
  const until = dayStart(now) + daysUntilFirst * dayMs;
  await runAll(trx, createDefault());
  const { rows: diverted } = await sql`
    select from ${sql.table(defaultPartition)} where created_at < ${until}
    limit ${movedRowsMax + 1}`.execute(trx);
  // They stay there, so the first partition ends where it would have.
  if (diverted.length > movedRowsMax) return false;
  const rights = await copyRights(trx, [defaultPartition]);
  await lockTable(trx, 'request_log', 'access exclusive');
  await runAll(trx, [
    `alter table request_log drop constraint if exists ${checkName}`,
    ...dropDivert('request_log'),
    `with returned as (delete from ${defaultPartition} where created_at < ${until} returning *)
      insert into request_log overriding system value select * from returned`,
    `alter table request_log add constraint ${checkName} check (created_at < ${until}) not valid`,
    `create function ${divertName}() returns trigger language plpgsql
      set search_path from current as $$ begin
        insert into ${defaultPartition} values (new.*);
        return null;
      end $$`,
    `create trigger ${divertName} before insert on request_log for each row
      when (new.created_at >= ${until}) execute function ${divertName}()`,
    ...rights,
  ]);
  return true;
}

const dropDivert = (table: string) => [
  `drop trigger if exists ${divertName} on ${table}`,
  `drop function if exists ${divertName}()`,
];

async function validateCheck(trx: StoreTransaction): Promise<boolean> {
  const log = await readPlainLog(trx);
  if (log?.until === undefined || log.isValid) return false;
  // Bookings don't wait behind this lock.
  await sql`set local lock_timeout = 0`.execute(trx);
  await moveLaterRows(trx, log.until);
  await sql.raw(`alter table request_log validate constraint ${checkName}`).execute(trx);
  return true;
}

async function attach(trx: StoreTransaction): Promise<boolean> {
  const log = await readPlainLog(trx);
  if (!log?.isValid || log.until === undefined) return false;
  await lockTable(trx, 'request_log', 'access exclusive');
  await makeFirstPartition(trx, log.until);
  return true;
}

/**
 * Moves rows of clocks that were far ahead to what will be the default partition. They are missing
 * in reports until then.
 */
async function moveLaterRows(trx: StoreTransaction, until: number): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select id from tenants where exists (
      select from request_log where tenant_id = tenants.id and created_at >= ${until}
    )`.execute(trx);
  if (rows.length === 0) return;
  await runAll(trx, createDefault());
  const { numAffectedRows = 0n } = await sql`
    with moved as (
      delete from request_log
      where tenant_id in (${sql.join(rows.map(({ id }) => id))}) and created_at >= ${until}
      returning *
    )
    insert into ${sql.table(defaultPartition)} select * from moved`.execute(trx);
  if (numAffectedRows <= movedRowsMax) return;
  throw new Error(`${numAffectedRows} requests in the log are more than a week in the future.`);
}

const createDefault = () => [
  `create table if not exists ${defaultPartition}
    (like request_log including defaults including constraints including storage)`,
  `alter table ${defaultPartition} drop constraint if exists ${checkName}`,
  `create unique index if not exists ${defaultPartition}_request_id_key
    on ${defaultPartition} (request_id)`,
];

/**
 * Renames the locked log and attaches it to a new, partitioned one. Nothing is read or built,
 * because the check proves what Postgres would otherwise read the log for, and the indexes exist.
 */
async function makeFirstPartition(trx: StoreTransaction, until: number): Promise<void> {
  const first = `request_log_before_${dayText(until)}`;
  const rights = await copyRights(trx, ['request_log', defaultPartition]);
  const { rows: indexes } = await sql<{ name: string; definition: string; isUnique: boolean }>`
    select relname as name, pg_get_indexdef(indexrelid) as definition, indisunique as "isUnique"
    from pg_index join pg_class on pg_class.oid = indexrelid
    where indrelid = 'request_log'::regclass and indisvalid order by relname`.execute(trx);
  const { rows: sequences } = await sql<{ next: number }>`
    select coalesce(pg_sequence_last_value(seq::regclass), 0) + 1 as next
    from pg_get_serial_sequence('request_log', 'id') as seq`.execute(trx);
  const ownName = (index: string) => `${first}_${index.replace(/^request_log_/, '')}`.slice(0, 63);
  await runAll(trx, [
    `alter table request_log rename to ${first}`,
    ...dropDivert(first),
    ...indexes.map(
      ({ name }) => `alter index ${identifier(name)} rename to ${identifier(ownName(name))}`,
    ),
    `create table request_log (like ${first} including defaults including constraints
      including storage) partition by range (created_at)`,
    `alter table request_log drop constraint if exists ${checkName}`,
    `alter table ${first} alter column id drop identity`,
    `alter table request_log
      alter column id add generated always as identity (start with ${sequences[0]?.next ?? 1})`,
    // A unique index of the partitioned log would need the time as a column.
    ...indexes.filter(({ isUnique }) => !isUnique).map(({ definition }) => definition),
    `alter table request_log attach partition ${first} for values from (minvalue) to (${until})`,
    `alter table ${first} drop constraint if exists ${checkName}`,
    ...createDefault(),
    `alter table request_log attach partition ${defaultPartition} default`,
    ...rights,
  ]);
}
