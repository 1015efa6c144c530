import type { AuditEntry, AuditFilter, AuditReads, AuditWrites } from '../control/audit.ts';
import type { AuditedChange } from '../control/config-store.ts';
import { currentActor } from '../core/actor.ts';
import { parseJson } from '../core/json.ts';
import { inTransaction, SqlRepository, type StoreTransaction } from './database.ts';

/** Records changes in the transaction that makes them, with who makes them. */
export async function recordChanges(
  trx: StoreTransaction,
  changes: readonly AuditedChange[],
  now: number,
): Promise<void> {
  if (changes.length === 0) return;
  const actor = currentActor();
  const rows = changes.map(({ action, target, tenantId, before, after }) => ({
    created_at: now,
    actor: actor?.name ?? 'tollgate',
    origin: actor?.origin ?? ('start' as const),
    address: actor?.address ?? null,
    request_id: actor?.requestId ?? null,
    action,
    tenant_id: tenantId,
    target,
    state_before: jsonOf(before),
    state_after: jsonOf(after),
  }));
  await trx.insertInto('audit_log').values(rows).execute();
}

const notRecorded = new Set(['secret_hash', 'previous_hash', 'ciphertext', 'last_used_at']);

/** Returns a row as a state for the audit log, without hashes and ciphertexts. */
export function stateOf(row: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(row).filter(([column]) => !notRecorded.has(column)));
}

function jsonOf(state: unknown): string | null {
  return state === null || state === undefined ? null : JSON.stringify(state);
}

export class SqlAuditLog extends SqlRepository implements AuditReads, AuditWrites {
  append(changes: readonly AuditedChange[], now: number): Promise<void> {
    return inTransaction(this.database, (trx) => recordChanges(trx, changes, now));
  }

  async list(
    { from, until, action, actor, tenantId, target }: AuditFilter,
    before: number | null,
    limit: number,
  ): Promise<readonly AuditEntry[]> {
    const group = action?.endsWith('.') ? action : null;
    const rows = await this.database.report
      .selectFrom('audit_log')
      .selectAll()
      .where('created_at', '>=', from)
      .where('created_at', '<', until)
      .$if(before !== null, (query) => query.where('id', '<', before ?? 0))
      .$if(action !== null && group === null, (query) => query.where('action', '=', action ?? ''))
      // A group such as `key.` has all actions up to the next character, which is `/`.
      .$if(group !== null, (query) =>
        query
          .where('action', '>=', group ?? '')
          .where('action', '<', (group ?? '').replace(/\.$/, '/')),
      )
      .$if(actor !== null, (query) => query.where('actor', '=', actor ?? ''))
      .$if(tenantId !== null, (query) => query.where('tenant_id', '=', tenantId))
      .$if(target !== null, (query) => query.where('target', '=', target ?? ''))
      .orderBy('id', 'desc')
      .limit(limit)
      .execute();
    return rows.map((row) => ({
      id: row.id,
      createdAt: row.created_at,
      actor: row.actor,
      origin: row.origin,
      address: row.address,
      requestId: row.request_id,
      action: row.action,
      tenantId: row.tenant_id,
      target: row.target,
      before: parseJson(row.state_before ?? 'null'),
      after: parseJson(row.state_after ?? 'null'),
    }));
  }
}
