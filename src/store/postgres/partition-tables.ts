import { type Kysely, sql } from 'kysely';
import pg from 'pg';
import { dayMs, dayOf, isoDay } from '../../records/period.ts';
import type { LogPartition, StoreTransaction } from '../database.ts';
import type { Schema } from '../schema.ts';

export const defaultPartition = 'request_log_default';

/** How long DDL waits for a lock, because bookings wait in line behind it. */
const lockWaitMs = 500;

/** How long it waits for a lock that bookings don't wait behind. Autovacuum yields in a second. */
const quietLockWaitMs = 30_000;

/** Bookings may wait for DDL that has its lock, so it ends soon in any case. */
const ddlMsMax = 3_000;

/** An arbitrary number that identifies our advisory lock on Postgres. */
const partitionsLock = 7_316_205_115;

export const identifier = (name: string) => pg.escapeIdentifier(name);

/** Formats the start of a day for the name of a partition, such as `20261119`. */
export const dayText = (time: number) => isoDay(dayOf(time)).replaceAll('-', '');

/** Returns the start of the day in UTC. */
export const dayStart = (time: number) => dayOf(time) * dayMs;

/** Lists the partitions of the log by time. Returns undefined if it isn't partitioned yet. */
export async function listPartitions(
  db: Kysely<Schema>,
): Promise<readonly LogPartition[] | undefined> {
  const { rows } = await sql<PartitionRow>`
    select log.relkind as kind, child.relname as name,
      coalesce(pg_get_expr(child.relpartbound, child.oid), '') as bounds,
      coalesce(pg_has_role(child.relowner, 'usage'), false) as "isOwned"
    from pg_class log
    left join pg_inherits on inhparent = log.oid
    left join pg_class child on child.oid = inhrelid
    where log.oid = to_regclass(quote_ident(current_schema()) || '.request_log')`.execute(db);
  if (rows[0]?.kind !== 'p') return undefined;
  return rows
    .flatMap(({ name, ...row }) => (name === null ? [] : [partitionOf({ ...row, name })]))
    .toSorted((a, b) => a.from - b.from);
}

interface PartitionRow {
  /** `p` for a partitioned table. */
  readonly kind: string;
  readonly name: string | null;
  readonly bounds: string;
  readonly isOwned: boolean;
}

function partitionOf({
  name,
  bounds,
  isOwned,
}: PartitionRow & { readonly name: string }): LogPartition {
  const [, from, until] = /FROM \('?([^')]+)'?\) TO \('?([^')]+)'?\)/.exec(bounds) ?? [];
  const isDefault = from === undefined;
  const numberOf = (text = '', unbounded = 0) => (/\d/.test(text) ? Number(text) : unbounded);
  const open = Number.POSITIVE_INFINITY;
  return { name, from: numberOf(from, -open), until: numberOf(until, open), isDefault, isOwned };
}

/**
 * Runs DDL in a transaction that waits for locks only for a moment. Returns undefined if another
 * process is changing the partitions.
 */
export function changePartitions<T>(
  db: Kysely<Schema>,
  work: (trx: StoreTransaction) => Promise<T>,
  msMax = ddlMsMax,
): Promise<T | undefined> {
  return db.transaction().execute(async (trx) => {
    await limitWaits(trx, msMax);
    const { rows } = await sql<{ locked: boolean }>`
      select pg_try_advisory_xact_lock(${sql.lit(partitionsLock)}) as locked`.execute(trx);
    return rows[0]?.locked ? work(trx) : undefined;
  });
}

/** Like `changePartitions` in a transaction that exists. Waits for other processes. */
export async function lockPartitions(trx: StoreTransaction): Promise<void> {
  await sql`select pg_advisory_xact_lock(${sql.lit(partitionsLock)})`.execute(trx);
}

/**
 * Locks a table against reads and writes. First waits for autovacuum and other DDL with a lock that
 * doesn't hinder bookings.
 */
export async function lockTable(
  trx: StoreTransaction,
  name: string,
  mode: 'access exclusive' | 'share',
): Promise<void> {
  const table = identifier(name);
  await runAll(trx, [
    `set local lock_timeout = ${quietLockWaitMs}`,
    `lock table ${table} in share update exclusive mode`,
    `set local lock_timeout = ${lockWaitMs}`,
    `lock table ${table} in ${mode} mode`,
  ]);
}

export async function limitWaits(trx: StoreTransaction, msMax = ddlMsMax): Promise<void> {
  await sql
    .raw(`set local lock_timeout = ${lockWaitMs}; set local statement_timeout = ${msMax}`)
    .execute(trx);
}

/**
 * Returns statements that give tables the owner and the privileges of the log. Access through the
 * log needs none on its partitions, but `pg_dump` reads each of them.
 */
export async function copyRights(
  trx: StoreTransaction,
  tables: readonly string[],
): Promise<readonly string[]> {
  const { rows } = await sql<{ owner: string; own: boolean; grants: readonly string[] }>`
    select pg_get_userbyid(relowner) as owner, pg_get_userbyid(relowner) = current_user as own,
      array(
        select format('grant %s on %%s to %s%s', privilege_type,
          case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end,
          case when is_grantable then ' with grant option' else '' end)
        from aclexplode(relacl) where grantee <> relowner
      ) as grants
    from pg_class where oid = to_regclass(quote_ident(current_schema()) || '.request_log')
  `.execute(trx);
  const [log] = rows;
  if (!log) return [];
  return tables.flatMap((table) => [
    ...(log.own ? [] : [`alter table ${identifier(table)} owner to ${identifier(log.owner)}`]),
    ...log.grants.map((grant) => grant.replace('%s', () => identifier(table))),
  ]);
}

/** Runs statements in one round trip, because they hold locks. */
export async function runAll(trx: StoreTransaction, statements: readonly string[]): Promise<void> {
  await sql.raw(statements.join(';\n')).execute(trx);
}

/** Rows that are moved between partitions at most, because bookings may wait for it. */
export const movedRowsMax = 10_000;

/** Attaching reads the entire default partition under a lock, so a large one rules it out. */
const defaultBytesMax = 2 ** 30;

/**
 * Creates a partition and moves the rows for it from the default partition. Returns false if these
 * are too many.
 */
export async function createPartition(
  trx: StoreTransaction,
  { from, until }: { readonly from: number; readonly until: number },
): Promise<boolean> {
  const name = `request_log_from_${dayText(from)}`;
  const [table, others] = [identifier(name), identifier(defaultPartition)];
  await lockTable(trx, defaultPartition, 'access exclusive');
  const isIn = `created_at >= ${from} and created_at < ${until}`;
  const { rows } = await sql<{ bytes: number; rows: number }>`
    select pg_relation_size(${others}::regclass) as bytes,
      (select count(*) from (
        select from ${sql.raw(others)} where ${sql.raw(isIn)} limit ${movedRowsMax + 1}
      ) as moved) as rows`.execute(trx);
  const [moved] = rows;
  if (!moved || moved.rows > movedRowsMax || moved.bytes > defaultBytesMax) return false;
  await runAll(trx, [
    `create table ${table} (like request_log including defaults including constraints
      including indexes including storage)`,
    `create unique index on ${table} (request_id)`,
    `with moved as (delete from ${others} where ${isIn} returning *)
      insert into ${table} select * from moved`,
    `alter table request_log attach partition ${table} for values from (${from}) to (${until})`,
    ...(await copyRights(trx, [name])),
  ]);
  return true;
}
