import {
  type Expression,
  type ExpressionBuilder,
  type Insertable,
  type Kysely,
  type OnConflictDatabase,
  type OnConflictTables,
  type Selectable,
  type SqlBool,
  sql,
} from 'kysely';
import type { ClaimResult, ClaimStore } from '../cache/idempotency.ts';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../core/bounds.ts';
import { failureCode } from '../core/errors.ts';
import type { IdempotencyClaim, IdempotentAnswer, Recording } from '../core/recording.ts';
import { ClaimsInUse } from '../money/ledger.ts';
import { inTransaction, SqlRepository, type StoreTransaction } from './database.ts';
import type { Schema } from './schema.ts';

/** Added to each row's length, so that many short answers also reach the limit. */
const bytesPerRow = 500;

/** Rows deleted per statement, because deleting a day's answers at once would take too long. */
const batchRows = 500;

/** Claims per statement. */
const claimsPerStatement = 200;

/** Idempotency claims. A running claim has a lease. A done claim has an answer that expires. */
export class SqlIdempotencyClaims extends SqlRepository implements ClaimStore {
  /**
   * Never waits for a row lock: writing an answer can take long, and repeated requests that wait
   * for its row would use up all connections of their process.
   */
  async claim(claim: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult> {
    const known = await findRow(this.database.read, claim).executeTakeFirst();
    const state = known && stateOf(known, claim, now, leaseMs);
    if (state) return state;
    const running = { is_done: 0 as const, recording: null, expires_at: now + leaseMs };
    const row = { ...identityColumns(claim), ...running };
    const writing = known ? this.#takeOver(row, now) : this.#add(row);
    const claimed = await writing.catch(undefinedOnConflict);
    // If no row was written, another request was faster or done. The next poll finds out.
    return { state: claimed ? 'ours' : 'running' };
  }

  #add(row: Insertable<Schema['idempotency_claims']>) {
    return this.database.write
      .insertInto('idempotency_claims')
      .values(row)
      .onConflict((conflict) => conflict.columns(['tenant_id', 'key']).doNothing())
      .returning('key')
      .executeTakeFirst();
  }

  #takeOver({ tenant_id, key, ...fields }: Insertable<Schema['idempotency_claims']>, now: number) {
    return this.database.write
      .updateTable('idempotency_claims')
      .set(fields)
      .where(({ eb, refTuple, selectFrom }) => {
        const over = selectFrom('idempotency_claims')
          .select(['tenant_id', 'key'])
          .where((eb) => eb.and({ tenant_id, key }))
          .where('expires_at', '<=', now)
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', over.$asTuple('tenant_id', 'key'));
      })
      .returning('key')
      .executeTakeFirst();
  }

  async extend(claims: readonly IdempotencyClaim[], until: number): Promise<void> {
    for (let index = 0; index < claims.length; index += claimsPerStatement) {
      const some = claims.slice(index, index + claimsPerStatement);
      await this.#extend(some, 0, until);
      // Claims that were charged through the journal. Only this process has their answers.
      await this.#extend(some, 1, until - idempotencyLeaseMs + idempotencyTtlMs);
    }
  }

  async #extend(
    claims: readonly IdempotencyClaim[],
    isDone: 0 | 1,
    expiresAt: number,
  ): Promise<void> {
    await this.database.write
      .updateTable('idempotency_claims')
      .set({ expires_at: expiresAt })
      .where(({ eb, refTuple, selectFrom }) => {
        const ours = selectFrom('idempotency_claims')
          .select(['tenant_id', 'key'])
          .where((eb) => eb.or(claims.map((claim) => eb.and({ ...ownClaim(claim) }))))
          .where('is_done', '=', isDone)
          .where((eb) => eb.or([eb('is_done', '=', 0), eb('recording', 'is', null)]))
          // If a row is locked, its answer is being written, so it needs no extension.
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', ours.$asTuple('tenant_id', 'key'));
      })
      .execute();
  }

  /**
   * Locks the row only once the database has received the full answer. Sending it can take long,
   * and a process that freezes meanwhile would keep the lock.
   */
  async finish(answer: IdempotentAnswer): Promise<boolean> {
    const finished = await inTransaction(this.database, (trx) => finishOrTakeOver(trx, [answer]));
    return finished.size > 0;
  }

  async release(claim: IdempotencyClaim): Promise<void> {
    const { write } = this.database;
    await write
      .deleteFrom('idempotency_claims')
      .where((eb) => eb.and({ ...ownClaim(claim), is_done: 0 }))
      .execute();
  }

  async removeExpired(now: number): Promise<void> {
    for (let removed = batchRows; removed === batchRows; ) removed = await this.#removeBatch(now);
    const { write } = this.database;
    await write.deleteFrom('idempotency_bytes').where('hour', '<', hourOf(now)).execute();
  }

  async #removeBatch(now: number): Promise<number> {
    const removed = await this.database.write
      .deleteFrom('idempotency_claims')
      .where(({ eb, refTuple, selectFrom }) => {
        const expired = selectFrom('idempotency_claims')
          .select(['tenant_id', 'key'])
          .where('expires_at', '<=', now)
          .orderBy('expires_at')
          .limit(batchRows)
          // A locked row is being claimed again or removed by another process.
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', expired.$asTuple('tenant_id', 'key'));
      })
      .executeTakeFirst();
    return Number(removed.numDeletedRows);
  }

  async storedBytes(): Promise<ReadonlyMap<string, number>> {
    const rows = await this.database.read
      .selectFrom('idempotency_bytes')
      .select(['tenant_id', sql<number>`cast(sum(bytes) as bigint)`.as('bytes')])
      .groupBy('tenant_id')
      .execute();
    return new Map(rows.map((row) => [row.tenant_id, row.bytes]));
  }
}

/**
 * Ignores serialization failures. A server with a stricter default isolation level rejects a
 * statement whose row has changed meanwhile, and only transactions can choose their own level.
 */
function undefinedOnConflict(error: unknown): undefined {
  if (failureCode(error) !== '40001') throw error;
}

function findRow(database: Kysely<Schema>, { tenantId, key }: IdempotencyClaim) {
  return database
    .selectFrom('idempotency_claims')
    .select(['fingerprint', 'request_id', 'is_done', 'recording', 'expires_at'])
    .where('tenant_id', '=', tenantId)
    .where('key', '=', key);
}

type KnownRow = Omit<Selectable<Schema['idempotency_claims']>, 'tenant_id' | 'key'>;

/** Returns what a row means for a request, or undefined if the request may take it over. */
function stateOf(
  { fingerprint, is_done, recording, expires_at }: KnownRow,
  claim: IdempotencyClaim,
  now: number,
  leaseMs: number,
): ClaimResult | undefined {
  // An expired lease belongs to a dead process; an expired answer no longer counts.
  if (expires_at <= now) return undefined;
  if (fingerprint !== claim.fingerprint) return { state: 'other_request' };
  if (is_done === 0) return { state: 'running' };
  if (recording !== null) return { state: 'done', recording: readRecording(recording) };
  // The answer was charged through the journal. For the length of one lease, the process that
  // received it may still have it.
  const chargedAt = expires_at - idempotencyTtlMs;
  return now < chargedAt + leaseMs ? { state: 'running' } : { state: 'done', recording: null };
}

/** Matches a claim while this request holds it. Another process may have taken it over. */
function ownClaim({ tenantId, key, requestId }: IdempotencyClaim) {
  return { tenant_id: tenantId, key, request_id: requestId };
}

/** Writes an answer. Returns false if another process has taken over the claim. */
export async function finishClaim(
  trx: StoreTransaction,
  answer: IdempotentAnswer,
): Promise<boolean> {
  return (await finishClaims(trx, [answer])).has(answer.claim.requestId);
}

/**
 * Takes over the claims of requests that were answered while the database was unreachable. Returns
 * the requests whose keys had already been answered by other requests. The remaining keys count as
 * used from now on, even if their answers are lost.
 */
export async function answeredBefore(
  trx: StoreTransaction,
  claims: readonly IdempotencyClaim[],
  { now, mayDefer }: { readonly now: number; readonly mayDefer: boolean },
): Promise<ReadonlySet<string>> {
  const tenantIds = new Set(claims.map(({ tenantId }) => tenantId));
  const tenants = await trx
    .selectFrom('tenants')
    .select('id')
    .where('id', 'in', [...tenantIds])
    .execute();
  const known = new Set(tenants.map(({ id }) => id));
  // A journal may belong to another store, so an unknown tenant must not fail the other lines.
  const ours = claims.filter(({ tenantId }) => known.has(tenantId));
  if (ours.length === 0) return new Set();
  if (mayDefer) await rejectClaimsInUse(trx, ours);
  const expiresAt = now + idempotencyTtlMs;
  // A journal can contain a line twice, and one statement can change a row only once.
  const byKey = new Map(
    ours.map((claim) => [`${claim.tenantId} ${claim.key}`, { claim, expiresAt }]),
  );
  const finished = await finishOrTakeOver(trx, [...byKey.values()]);
  return new Set(ours.map(({ requestId }) => requestId).filter((id) => !finished.has(id)));
}

/** Throws for claims whose rows another transaction is writing, and locks the free rows. */
async function rejectClaimsInUse(
  trx: StoreTransaction,
  claims: readonly IdempotencyClaim[],
): Promise<void> {
  const inUse = new Map<string, string>();
  for (let index = 0; index < claims.length; index += claimsPerStatement) {
    const some = claims.slice(index, index + claimsPerStatement);
    const rows = trx
      .selectFrom('idempotency_claims')
      .select(['tenant_id', 'key'])
      .where((eb) => eb.or(some.map(({ tenantId, key }) => eb.and({ tenant_id: tenantId, key }))));
    const namesOf = (found: readonly { tenant_id: string; key: string }[]) =>
      new Set(found.map(({ tenant_id, key }) => `${tenant_id} ${key}`));
    const known = namesOf(await rows.execute());
    const free = namesOf(await rows.forUpdate().skipLocked().execute());
    for (const { tenantId, key, requestId } of some) {
      const name = `${tenantId} ${key}`;
      if (known.has(name) && !free.has(name)) inUse.set(requestId, tenantId);
    }
  }
  if (inUse.size > 0) throw new ClaimsInUse(inUse);
}

/**
 * Writes answers. Returns the requests that still held their claims; the other claims were taken
 * over. Inserts missing rows, because a clock change may have ended their leases too early.
 */
export function finishClaims(
  trx: StoreTransaction,
  answers: readonly IdempotentAnswer[],
): Promise<ReadonlySet<string>> {
  return writeAnswers(trx, answers, isOwnClaim);
}

/**
 * Like `finishClaims`, for answers that clients already have: also takes over claims whose requests
 * are still running.
 */
function finishOrTakeOver(
  trx: StoreTransaction,
  answers: readonly FinishedClaim[],
): Promise<ReadonlySet<string>> {
  return writeAnswers(trx, answers, (eb) =>
    eb.or([isOwnClaim(eb), eb('idempotency_claims.is_done', '=', 0)]),
  );
}

type ClaimCondition = (
  eb: ExpressionBuilder<
    OnConflictDatabase<Schema, 'idempotency_claims'>,
    OnConflictTables<'idempotency_claims'>
  >,
) => Expression<SqlBool>;

const isOwnClaim: ClaimCondition = (eb) => {
  const isSameRequest = eb('idempotency_claims.request_id', '=', eb.ref('excluded.request_id'));
  const isFirstRecording = eb.or([
    eb('idempotency_claims.recording', 'is', null),
    eb('excluded.recording', 'is', null),
  ]);
  return eb.and([isSameRequest, isFirstRecording]);
};

async function writeAnswers(
  trx: StoreTransaction,
  answers: readonly FinishedClaim[],
  isWritable: ClaimCondition,
): Promise<ReadonlySet<string>> {
  // Every transaction locks rows in the same order, as with accounts, so they can't deadlock.
  const rows = answers.map(doneRow).toSorted(byTenantAndKey);
  const written = await trx
    .insertInto('idempotency_claims')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['tenant_id', 'key'])
        .doUpdateSet((eb) => ({
          fingerprint: eb.ref('excluded.fingerprint'),
          request_id: eb.ref('excluded.request_id'),
          is_done: eb.ref('excluded.is_done'),
          recording: eb.fn.coalesce('excluded.recording', 'idempotency_claims.recording'),
          expires_at: eb.ref('excluded.expires_at'),
        }))
        .where(isWritable),
    )
    .returning('request_id')
    .execute();
  const requestIds = new Set(written.map(({ request_id }) => request_id));
  // Rows without an answer are counted once it is stored, so charging doesn't lock the counts.
  const answered = rows.filter(({ recording }) => recording !== null);
  const isWritten = ({ request_id }: DoneRow) => requestIds.has(request_id);
  await addBytes(trx, answered.filter(isWritten));
  const before = await storedBefore(
    trx,
    answered.filter((row) => !isWritten(row)),
  );
  return before.length === 0 ? requestIds : new Set([...requestIds, ...before]);
}

/** Returns requests whose answers were written by an earlier attempt whose response was lost. */
async function storedBefore(
  trx: StoreTransaction,
  rows: readonly DoneRow[],
): Promise<readonly string[]> {
  if (rows.length === 0) return [];
  const names = rows.map(({ tenant_id, key, request_id }) => ({ tenant_id, key, request_id }));
  const stored = await trx
    .selectFrom('idempotency_claims')
    .select('request_id')
    .where((eb) => eb.or(names.map((name) => eb.and(name))))
    .execute();
  return stored.map(({ request_id }) => request_id);
}

/** Has no recording if the answer is lost or still in the memory of its process. */
type FinishedClaim = Omit<IdempotentAnswer, 'recording'> & Partial<IdempotentAnswer>;
type DoneRow = ReturnType<typeof doneRow>;

function doneRow({ claim, recording, expiresAt }: FinishedClaim) {
  // The recording `null` of an answer that is too long becomes the JSON text `null`.
  const text = recording === undefined ? null : JSON.stringify(recording);
  return { ...identityColumns(claim), is_done: 1 as const, recording: text, expires_at: expiresAt };
}

function byTenantAndKey(one: DoneRow, other: DoneRow): number {
  return `${one.tenant_id} ${one.key}` < `${other.tenant_id} ${other.key}` ? -1 : 1;
}

async function addBytes(trx: StoreTransaction, rows: readonly DoneRow[]): Promise<void> {
  const sums = new Map<string, { tenant_id: string; hour: number; bytes: number }>();
  for (const { tenant_id, expires_at, recording } of rows) {
    const hour = hourOf(expires_at);
    const name = `${tenant_id} ${hour}`;
    const sum = sums.get(name)?.bytes ?? 0;
    const bytes = sum + bytesPerRow + Buffer.byteLength(recording ?? '');
    sums.set(name, { tenant_id, hour, bytes });
  }
  if (sums.size === 0) return;
  const ordered = [...sums].toSorted(([one], [other]) => (one < other ? -1 : 1));
  await trx
    .insertInto('idempotency_bytes')
    .values(ordered.map(([, sum]) => sum))
    .onConflict((conflict) =>
      conflict.columns(['tenant_id', 'hour']).doUpdateSet((eb) => ({
        bytes: eb('idempotency_bytes.bytes', '+', eb.ref('excluded.bytes')),
      })),
    )
    .execute();
}

function hourOf(time: number): number {
  return Math.floor(time / 3_600_000);
}

function identityColumns({ tenantId, key, fingerprint, requestId }: IdempotencyClaim) {
  return { tenant_id: tenantId, key, fingerprint, request_id: requestId };
}

function readRecording(text: string): Recording | null {
  // Only doneRow() writes this column.
  return JSON.parse(text) as Recording | null;
}
