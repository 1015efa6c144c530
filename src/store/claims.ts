import { sql } from 'kysely';
import type { Claim, Claimed, ClaimStore } from '../cache/claim.ts';
import type { Recording } from '../core/recording.ts';
import type { Database, StoreTransaction } from './database.ts';

/** A row costs something by itself, so that short answers without number are counted too. */
const bytesPerRow = 500;

/** Uses of idempotency keys. A row is running until its lease ends, then done until it expires. */
export class SqlClaims implements ClaimStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  claim(claim: Claim, now: number, leaseMs: number): Promise<Claimed> {
    const running = { is_done: 0 as const, recording: null, expires_at: now + leaseMs };
    const row = { ...nameOf(claim), ...running };
    return this.#database.write.transaction().execute(async (change) => {
      const added = await change
        .insertInto('idempotency_claims')
        .values(row)
        .onConflict((conflict) => conflict.columns(['tenant_id', 'key']).doNothing())
        .returning('key')
        .executeTakeFirst();
      if (added) return { state: 'ours' };
      const { tenant_id, key, ...fields } = row;
      const known = await this.#lock(change, claim);
      // Released since we tried: it is free for whoever asks next, which may well be us.
      if (!known) return { state: 'running' };
      // A lease that ran out belongs to a process that died; an old result is forgotten.
      if (known.expires_at <= now) {
        await change
          .updateTable('idempotency_claims')
          .set(fields)
          .where('tenant_id', '=', tenant_id)
          .where('key', '=', key)
          .execute();
        return { state: 'ours' };
      }
      if (known.fingerprint !== claim.fingerprint) return { state: 'other_request' };
      if (known.is_done === 0) return { state: 'running' };
      return { state: 'done', recording: readRecording(known.recording) };
    });
  }

  async extend(claims: readonly Claim[], until: number): Promise<void> {
    for (const claim of claims) {
      await this.#own(claim).set({ expires_at: until }).where('is_done', '=', 0).execute();
    }
  }

  finish(claim: Claim, recording: Recording | null, expiresAt: number): Promise<boolean> {
    return finishClaim(this.#database.write, claim, recording, expiresAt);
  }

  async release({ tenantId, key, requestId }: Claim, evenDone: boolean): Promise<void> {
    await this.#database.write
      .deleteFrom('idempotency_claims')
      .where('tenant_id', '=', tenantId)
      .where('key', '=', key)
      .where('request_id', '=', requestId)
      .where('is_done', '<=', evenDone ? 1 : 0)
      .execute();
  }

  async removeExpired(now: number): Promise<void> {
    await this.#database.write
      .deleteFrom('idempotency_claims')
      .where('expires_at', '<=', now)
      .execute();
  }

  async keptBytes(): Promise<ReadonlyMap<string, number>> {
    // Neither engine reads a long text to tell its bytes.
    const bytes = sql<number>`
      cast(sum(coalesce(octet_length(recording), 0) + ${bytesPerRow}) as bigint)
    `;
    const rows = await this.#database.read
      .selectFrom('idempotency_claims')
      .select(['tenant_id', bytes.as('bytes')])
      .where('is_done', '=', 1)
      .groupBy('tenant_id')
      .execute();
    return new Map(rows.map((row) => [row.tenant_id, row.bytes]));
  }

  /** Only whoever holds the claim may change it: another process may have taken it over. */
  #own({ tenantId, key, requestId }: Claim) {
    return this.#database.write
      .updateTable('idempotency_claims')
      .where('tenant_id', '=', tenantId)
      .where('key', '=', key)
      .where('request_id', '=', requestId);
  }

  #lock(change: StoreTransaction, { tenantId, key }: Claim) {
    return change
      .selectFrom('idempotency_claims')
      .select(['fingerprint', 'is_done', 'recording', 'expires_at'])
      .where('tenant_id', '=', tenantId)
      .where('key', '=', key)
      .forUpdate()
      .executeTakeFirst();
  }
}

/**
 * False: another has taken it. Puts the row back where it was removed, because a changed clock made
 * its lease look over.
 */
export async function finishClaim(
  store: Database['write'],
  claim: Claim,
  recording: Recording | null,
  expiresAt: number,
): Promise<boolean> {
  const text = recording && JSON.stringify(recording);
  const done = { is_done: 1 as const, recording: text, expires_at: expiresAt };
  const row = await store
    .insertInto('idempotency_claims')
    .values({ ...nameOf(claim), ...done })
    .onConflict((conflict) =>
      conflict
        .columns(['tenant_id', 'key'])
        .doUpdateSet((of) => ({
          is_done: of.ref('excluded.is_done'),
          recording: of.ref('excluded.recording'),
          expires_at: of.ref('excluded.expires_at'),
        }))
        .where('idempotency_claims.request_id', '=', claim.requestId),
    )
    .returning('key')
    .executeTakeFirst();
  return row !== undefined;
}

function nameOf({ tenantId, key, fingerprint, requestId }: Claim) {
  return { tenant_id: tenantId, key, fingerprint, request_id: requestId };
}

function readRecording(text: string | null): Recording | null {
  // Written by finish() above, into a column that nothing else writes.
  return text === null ? null : (JSON.parse(text) as Recording);
}
