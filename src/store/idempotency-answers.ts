import type {
  Expression,
  ExpressionBuilder,
  OnConflictDatabase,
  OnConflictTables,
  SqlBool,
} from 'kysely';
import { idempotencyLeaseMs, idempotencyTtlMs } from '../core/bounds.ts';
import type { IdempotencyClaim, IdempotentAnswer } from '../core/recording.ts';
import { ClaimsInUse, type ParsedBatch } from '../money/ledger.ts';
import type { StoreTransaction } from './database.ts';
import type { Schema } from './schema.ts';

/** Stores answers and charged claims, inside the transactions that charge them. */

/** Added to each row's length, so that many short answers also reach the limit. */
const bytesPerRow = 500;

/** Claims per statement. */
export const claimsPerStatement = 200;

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
  { now, mayDefer, isReplay }: Required<Pick<ParsedBatch, 'now' | 'mayDefer' | 'isReplay'>>,
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
  // Nobody has the answers of a dead process.
  const expiresAt = now + idempotencyTtlMs - (isReplay ? idempotencyLeaseMs : 0);
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
export function finishOrTakeOver(
  trx: StoreTransaction,
  answers: readonly FinishedClaim[],
): Promise<ReadonlySet<string>> {
  return writeAnswers(trx, answers, (eb) =>
    eb.or([isOwnClaim(eb), eb('idempotency_claims.is_done', '=', 0)]),
  );
}

/**
 * Writes answers to keys that were charged for other requests, whose answers are lost. Returns the
 * requests that wrote them. They must be free.
 */
export function finishLost(
  trx: StoreTransaction,
  answers: readonly IdempotentAnswer[],
): Promise<ReadonlySet<string>> | ReadonlySet<string> {
  return answers.length === 0 ? new Set() : writeAnswers(trx, answers, isLostClaim);
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

const isLostClaim: ClaimCondition = (eb) =>
  eb.and([
    eb('idempotency_claims.is_done', '=', 1),
    eb('idempotency_claims.recording', 'is', null),
    eb('idempotency_claims.fingerprint', '=', eb.ref('excluded.fingerprint')),
  ]);

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

export function hourOf(time: number): number {
  return Math.floor(time / 3_600_000);
}

export function identityColumns({ tenantId, key, fingerprint, requestId }: IdempotencyClaim) {
  return { tenant_id: tenantId, key, fingerprint, request_id: requestId };
}
