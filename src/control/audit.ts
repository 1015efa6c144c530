import type { Period } from '../records/period.ts';

/** One administrative act. The states are JSON with labels in place of secrets. */
export interface AuditEntry {
  /** Increases with every entry. */
  readonly id: number;
  readonly createdAt: number;
  /** A key ID, `admin`, a user of the machine, or `tollgate` for its own changes. */
  readonly actor: string;
  readonly origin: 'http' | 'cli' | 'start';
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
