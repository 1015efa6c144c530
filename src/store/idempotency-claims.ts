import { type Insertable, type Kysely, type Selectable, sql } from 'kysely';
import type { ClaimResult, ClaimStore } from '../cache/idempotency.ts';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../core/bounds.ts';
import { failureCode } from '../core/errors.ts';
import type { IdempotencyClaim, IdempotentAnswer, Recording } from '../core/recording.ts';
import { ClaimsInUse } from '../money/ledger.ts';
import { inTransaction, SqlRepository, type StoreTransaction } from './database.ts';
import type { Schema } from './schema.ts';

/** Counted for each row besides its text, so that countless short answers reach the bound, too. */
const bytesPerRow = 500;

/** Rows that one statement removes: a whole day's answers would take longer than it may. */
const batchRows = 500;

/** Claims that one statement names. */
const claimsPerStatement = 200;

/** Claims on idempotency keys: running until the lease ends, or done until the answer expires. */
export class SqlIdempotencyClaims extends SqlRepository implements ClaimStore {
  /**
   * Waits for no lock: an answer may take long to write, and repetitions that wait for its row
   * would take all connections of their process.
   */
  async claim(claim: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult> {
    const known = await findRow(this.database.read, claim).executeTakeFirst();
    const state = known && stateOf(known, claim, now, leaseMs);
    if (state) return state;
    const running = { is_done: 0 as const, recording: null, expires_at: now + leaseMs };
    const row = { ...identityColumns(claim), ...running };
    const writing = known ? this.#takeOver(row, now) : this.#add(row);
    const claimed = await writing.catch(undefinedOnConflict);
    // Another was faster, or brings the answer after all: the next look tells.
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
          .where((of) => of.and({ tenant_id, key }))
          .where('expires_at', '<=', now)
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', over.$asTuple('tenant_id', 'key'));
      })
      .returning('key')
      .executeTakeFirst();
  }

  async extend(claims: readonly IdempotencyClaim[], until: number): Promise<void> {
    for (let at = 0; at < claims.length; at += claimsPerStatement) {
      const some = claims.slice(at, at + claimsPerStatement);
      await this.#extend(some, 0, until);
      // Already charged by way of the journal, while this process still has the answer.
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
          .where((of) => of.or(claims.map((claim) => of.and({ ...ownClaim(claim) }))))
          .where('is_done', '=', isDone)
          .where((of) => of.or([of('is_done', '=', 0), of('recording', 'is', null)]))
          // A locked row has its answer being written, so it needs no extension; the others do.
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', ours.$asTuple('tenant_id', 'key'));
      })
      .execute();
  }

  /**
   * Locks the row only once the store has all of the answer: that may be long on its way, and a
   * process that freezes meanwhile would keep the row.
   */
  async finish(answer: IdempotentAnswer): Promise<boolean> {
    const finished = await inTransaction(this.database, (trx) =>
      finishClaims(trx, [answer], 'unanswered'),
    );
    return finished.size > 0;
  }

  async release(claim: IdempotencyClaim): Promise<void> {
    const { write } = this.database;
    await write
      .deleteFrom('idempotency_claims')
      .where((of) => of.and({ ...ownClaim(claim), is_done: 0 }))
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
          // A locked one is being claimed again, or removed by another process.
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
 * A Postgres that isolates statements more strictly than ours need refuses one whose row another
 * has changed meanwhile. Transactions choose how strict they are; statements outside cannot.
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

/** What a known row means for a request; undefined where the request may take the claim over. */
function stateOf(
  { fingerprint, is_done, recording, expires_at }: KnownRow,
  claim: IdempotencyClaim,
  now: number,
  leaseMs: number,
): ClaimResult | undefined {
  // A lease that ran out belongs to a process that died; an old result is forgotten.
  if (expires_at <= now) return undefined;
  if (fingerprint !== claim.fingerprint) return { state: 'other_request' };
  if (is_done === 0) return { state: 'running' };
  if (recording !== null) return { state: 'done', recording: readRecording(recording) };
  // Charged by way of the journal: for a lease's time, its process may still bring the answer.
  const chargedAt = expires_at - idempotencyTtlMs;
  return now < chargedAt + leaseMs ? { state: 'running' } : { state: 'done', recording: null };
}

/** Selects a claim only while this request holds it: another process may have taken it over. */
function ownClaim({ tenantId, key, requestId }: IdempotencyClaim) {
  return { tenant_id: tenantId, key, request_id: requestId };
}

/** False where another process has taken the claim over. */
export async function finishClaim(
  trx: StoreTransaction,
  answer: IdempotentAnswer,
): Promise<boolean> {
  return (await finishClaims(trx, [answer])).has(answer.claim.requestId);
}

/**
 * For requests that were answered and charged while the store was away: those whose keys have been
 * answered by others before. The other keys are used from now on, even if the answers are lost.
 */
export async function answeredBefore(
  trx: StoreTransaction,
  claims: readonly IdempotencyClaim[],
  { now, mayPutOff }: { readonly now: number; readonly mayPutOff: boolean },
): Promise<ReadonlySet<string>> {
  const tenantIds = new Set(claims.map(({ tenantId }) => tenantId));
  const tenants = await trx
    .selectFrom('tenants')
    .select('id')
    .where('id', 'in', [...tenantIds])
    .execute();
  const known = new Set(tenants.map(({ id }) => id));
  // A journal may come from another store: a line with an unknown tenant must not fail the rest.
  const ours = claims.filter(({ tenantId }) => known.has(tenantId));
  if (ours.length === 0) return new Set();
  if (mayPutOff) await rejectClaimsInUse(trx, ours);
  const expiresAt = now + idempotencyTtlMs;
  // A journal may hold a line twice, and one change may touch a row only once.
  const byKey = new Map(
    ours.map((claim) => [`${claim.tenantId} ${claim.key}`, { claim, expiresAt }]),
  );
  const finished = await finishClaims(trx, [...byKey.values()], 'unanswered');
  return new Set(ours.map(({ requestId }) => requestId).filter((id) => !finished.has(id)));
}

/** Fails for claims whose rows another transaction is writing, and locks the rows that are free. */
async function rejectClaimsInUse(
  trx: StoreTransaction,
  claims: readonly IdempotencyClaim[],
): Promise<void> {
  const inUse = new Map<string, string>();
  for (let at = 0; at < claims.length; at += claimsPerStatement) {
    const some = claims.slice(at, at + claimsPerStatement);
    const rows = trx
      .selectFrom('idempotency_claims')
      .select(['tenant_id', 'key'])
      .where((of) => of.or(some.map(({ tenantId, key }) => of.and({ tenant_id: tenantId, key }))));
    const names = (found: readonly { tenant_id: string; key: string }[]) =>
      new Set(found.map(({ tenant_id, key }) => `${tenant_id} ${key}`));
    const known = names(await rows.execute());
    const free = names(await rows.forUpdate().skipLocked().execute());
    for (const { tenantId, key, requestId } of some) {
      const name = `${tenantId} ${key}`;
      if (known.has(name) && !free.has(name)) inUse.set(requestId, tenantId);
    }
  }
  if (inUse.size > 0) throw new ClaimsInUse(inUse);
}

/**
 * Answers the requests that have their claims now; other requests have the rest. Inserts a row that
 * is missing, since a changed clock may have ended its lease too early. With `unanswered`, for an
 * answer that a client has already, it also takes a claim over that another is still working on.
 */
export async function finishClaims(
  trx: StoreTransaction,
  answers: readonly FinishedClaim[],
  which: 'own' | 'unanswered' = 'own',
): Promise<ReadonlySet<string>> {
  // Everybody locks rows in the same order, as with accounts: no two can wait for each other.
  const rows = answers.map(doneRow).toSorted(byTenantAndKey);
  const written = await trx
    .insertInto('idempotency_claims')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['tenant_id', 'key'])
        .doUpdateSet((of) => ({
          fingerprint: of.ref('excluded.fingerprint'),
          request_id: of.ref('excluded.request_id'),
          is_done: of.ref('excluded.is_done'),
          recording: of.fn.coalesce('excluded.recording', 'idempotency_claims.recording'),
          expires_at: of.ref('excluded.expires_at'),
        }))
        .where((of) => {
          const isOwn = of('idempotency_claims.request_id', '=', of.ref('excluded.request_id'));
          const isFirstRecording = of.or([
            of('idempotency_claims.recording', 'is', null),
            of('excluded.recording', 'is', null),
          ]);
          const isOurs = of.and([isOwn, isFirstRecording]);
          if (which === 'own') return isOurs;
          return of.or([isOurs, of('idempotency_claims.is_done', '=', 0)]);
        }),
    )
    .returning('request_id')
    .execute();
  const requestIds = new Set(written.map(({ request_id }) => request_id));
  // A row without its answer is counted when that comes: bookings need not lock the counts.
  const answered = rows.filter(({ recording }) => recording !== null);
  const isWritten = ({ request_id }: DoneRow) => requestIds.has(request_id);
  await addBytes(trx, answered.filter(isWritten));
  const before = await storedBefore(
    trx,
    answered.filter((row) => !isWritten(row)),
  );
  return before.length === 0 ? requestIds : new Set([...requestIds, ...before]);
}

/** Requests whose answers were written, and counted, by a try that was not heard of. */
async function storedBefore(
  trx: StoreTransaction,
  rows: readonly DoneRow[],
): Promise<readonly string[]> {
  if (rows.length === 0) return [];
  const names = rows.map(({ tenant_id, key, request_id }) => ({ tenant_id, key, request_id }));
  const stored = await trx
    .selectFrom('idempotency_claims')
    .select('request_id')
    .where((of) => of.or(names.map((name) => of.and(name))))
    .execute();
  return stored.map(({ request_id }) => request_id);
}

/** Without a recording where the answer is still with its process, or lost. */
type FinishedClaim = Omit<IdempotentAnswer, 'recording'> & Partial<IdempotentAnswer>;
type DoneRow = ReturnType<typeof doneRow>;

function doneRow({ claim, recording, expiresAt }: FinishedClaim) {
  // An answer that is too long to be kept is stored as the JSON word `null`: it never comes.
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
      conflict.columns(['tenant_id', 'hour']).doUpdateSet((of) => ({
        bytes: of('idempotency_bytes.bytes', '+', of.ref('excluded.bytes')),
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
  // Written by doneRow() above, into a column that nothing else writes.
  return JSON.parse(text) as Recording | null;
}
