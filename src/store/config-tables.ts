import type { Generated } from 'kysely';

/** An object of the configuration that was created over the API or by a command. */
export interface ConfigObjectsTable {
  kind: string;
  name: string;
  /** JSON, in which each secret is replaced by its label. */
  document: string;
  /** The secrets, encrypted. Null if there are none. */
  sealed: Uint8Array | null;
  version: number;
  created_at: number;
  created_by: string;
  updated_at: number;
  updated_by: string;
}

/** Rows are only added, and deleted once they are too old. */
export interface AuditLogTable {
  id: Generated<number>;
  created_at: number;
  actor: string;
  origin: 'http' | 'cli' | 'signal' | 'start';
  address: string | null;
  request_id: string | null;
  action: string;
  tenant_id: string | null;
  target: string;
  state_before: string | null;
  state_after: string | null;
}
