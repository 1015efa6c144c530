import type { AuditEntryObject } from '../contract/audit.ts';
import type { Period } from '../records/period.ts';
import type { AuditedChange } from './config-store.ts';

/** One administrative act. The states are JSON with labels in place of secrets. */
export interface AuditEntry {
  /** Increases with every entry. */
  readonly id: number;
  readonly createdAt: number;
  /**
   * A key ID, `admin`, a user of the machine, `operator` for a signal, or `tollgate` for its own
   * changes.
   */
  readonly actor: string;
  readonly origin: 'http' | 'cli' | 'signal' | 'start';
  readonly address: string | null;
  readonly requestId: string | null;
  readonly action: string;
  readonly tenantId: string | null;
  readonly target: string;
  readonly before: unknown;
  readonly after: unknown;
}

export interface AuditFilter extends Period {
  /** An action, or a part of it that ends in a period, such as `provider.`. */
  readonly action: string | null;
  readonly actor: string | null;
  readonly tenantId: string | null;
  readonly target: string | null;
}

/** Reads the audit log, newest first. Nothing in it is ever changed. */
export interface AuditReads {
  /** Returns entries with a lower ID than `before`, which is null for the newest ones. */
  list(filter: AuditFilter, before: number | null, limit: number): Promise<readonly AuditEntry[]>;
}

/** Records changes that aren't made in the store, such as those of a file. */
export interface AuditWrites {
  append(changes: readonly AuditedChange[], now: number): Promise<void>;
}

/** Returns an entry as the API shows it. */
export function auditObject(entry: AuditEntry): AuditEntryObject {
  return {
    id: entry.id,
    created_at: new Date(entry.createdAt).toISOString(),
    actor: entry.actor,
    origin: entry.origin,
    address: entry.address,
    request_id: entry.requestId,
    action: entry.action,
    tenant_id: entry.tenantId,
    target: entry.target,
    before: entry.before,
    after: entry.after,
  };
}

const rowsPerPage = 500;

/** Reads all entries in pages. */
export async function* auditPages(reads: AuditReads, filter: AuditFilter) {
  for (let before: number | null = null; ; ) {
    const page: readonly AuditEntry[] = await reads.list(filter, before, rowsPerPage);
    yield page;
    const last = page.at(-1);
    if (!last || page.length < rowsPerPage) return;
    before = last.id;
  }
}

/** The columns of the log as CSV. */
export const auditColumns = [
  'id',
  'created_at',
  'actor',
  'origin',
  'address',
  'request_id',
  'action',
  'tenant_id',
  'target',
  'before',
  'after',
] as const;

export function auditCells(entry: AuditEntry) {
  const { before, after, ...rest } = auditObject(entry);
  const jsonOf = (state: unknown) => (state === null ? null : JSON.stringify(state));
  const cells = { ...rest, before: jsonOf(before), after: jsonOf(after) };
  return auditColumns.map((column) => cells[column]);
}
