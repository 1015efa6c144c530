import { type Insertable, type Kysely, type Selectable, sql } from 'kysely';
import type { ClaimResult, ClaimStore } from '../cache/idempotency.ts';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../core/bounds.ts';
import { failureCode } from '../core/errors.ts';
import type { IdempotencyClaim, IdempotentAnswer, Recording } from '../core/recording.ts';
import { inTransaction, SqlRepository } from './database.ts';
import {
  claimsPerStatement,
  finishOrTakeOver,
  hourOf,
  identityColumns,
} from './idempotency-answers.ts';
import type { Schema } from './schema.ts';

/** Rows deleted per statement, because deleting a day's answers at once would take too long. */
const batchRows = 500;

/** Idempotency claims. A running claim has a lease. A done claim has an answer that expires. */
export class SqlIdempotencyClaims extends SqlRepository implements ClaimStore {
  /**
   * Never waits for a row lock: writing an answer can take long, and repeated requests that wait
   * for its row would use up all connections of their process.
   */
  async claim(claim: IdempotencyClaim, now: number, leaseMs: number): Promise<ClaimResult> {
    const known = await findRow(this.database.read, claim).executeTakeFirst();
    const state = known && stateOf(known, claim, now, leaseMs);
    if (state === 'lost') return this.#answerAnew(claim, now);
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

  /**
   * Takes over a request that was charged, but whose answer is lost. The row stays charged, so that
   * only one request at a time repeats the answer, and none of them is charged.
   */
  async #answerAnew(claim: IdempotencyClaim, now: number): Promise<ClaimResult> {
    const { tenantId, key, requestId } = claim;
    const writing = this.database.write
      .updateTable('idempotency_claims')
      .set({ request_id: requestId, expires_at: now + idempotencyTtlMs })
      .where(({ eb, refTuple, selectFrom }) => {
        const lost = selectFrom('idempotency_claims')
          .select(['tenant_id', 'key'])
          .where((eb) => eb.and({ tenant_id: tenantId, key, is_done: 1 }))
          .where('recording', 'is', null)
          .where('expires_at', '<=', now + idempotencyTtlMs - idempotencyLeaseMs)
          .forUpdate()
          .skipLocked();
        return eb(refTuple('tenant_id', 'key'), 'in', lost.$asTuple('tenant_id', 'key'));
      })
      .returning('key')
      .executeTakeFirst();
    const claimed = await writing.catch(undefinedOnConflict);
    return claimed ? { state: 'ours', isPaid: true } : { state: 'running' };
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
    const released = await write
      .deleteFrom('idempotency_claims')
      .where((eb) => eb.and({ ...ownClaim(claim), is_done: 0 }))
      .executeTakeFirst();
    if (released.numDeletedRows > 0) return;
    // A charged request without an answer. Another one may answer it now.
    await write
      .updateTable('idempotency_claims')
      .set((eb) => ({ expires_at: eb('expires_at', '-', idempotencyLeaseMs) }))
      .where((eb) => eb.and({ ...ownClaim(claim), is_done: 1 }))
      .where('recording', 'is', null)
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

/**
 * Returns what a row means for a request, `lost` if it was charged but its answer is lost, or
 * undefined if the request may take it over.
 */
function stateOf(
  { fingerprint, is_done, recording, expires_at }: KnownRow,
  claim: IdempotencyClaim,
  now: number,
  leaseMs: number,
): ClaimResult | 'lost' | undefined {
  // An expired lease belongs to a dead process; an expired answer no longer counts.
  if (expires_at <= now) return undefined;
  if (fingerprint !== claim.fingerprint) return { state: 'other_request' };
  if (is_done === 0) return { state: 'running' };
  if (recording !== null) return { state: 'done', recording: readRecording(recording) };
  // The answer was charged through the journal. For the length of one lease, the process that
  // received it may still have it.
  const chargedAt = expires_at - idempotencyTtlMs;
  return now < chargedAt + leaseMs ? { state: 'running' } : 'lost';
}

/** Matches a claim while this request holds it. Another process may have taken it over. */
function ownClaim({ tenantId, key, requestId }: IdempotencyClaim) {
  return { tenant_id: tenantId, key, request_id: requestId };
}

function readRecording(text: string): Recording | null {
  // Only doneRow() writes this column.
  return JSON.parse(text) as Recording | null;
}
