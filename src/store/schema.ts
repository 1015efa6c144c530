import type { Generated } from 'kysely';
import type { JobStatus } from '../contract/jobs.ts';
import type { ByokMode, CacheMode, KeyKind, LimitReset, TrafficMode } from '../core/caller.ts';
import { type FeeName, feeNames } from '../money/price/fee-kinds.ts';
import type { AuditLogTable, ConfigObjectsTable } from './config-tables.ts';

/**
 * The tables as queries see them, the same on SQLite and Postgres. Times are epoch milliseconds,
 * money is whole credits, booleans are 0 or 1, lists are JSON text, and hashes are 32 bytes.
 */
export interface Schema {
  tenants: TenantsTable;
  api_keys: ApiKeysTable;
  accounts: AccountsTable;
  leases: LeasesTable;
  journals: JournalsTable;
  journaled_charges: JournaledChargesTable;
  ledger_entries: LedgerEntriesTable;
  bookings: BookingsTable;
  request_log: RequestLogTable;
  usage_daily: UsageDailyTable;
  usage_hourly: UsageHourlyTable;
  byok_credentials: ByokCredentialsTable;
  idempotency_claims: IdempotencyClaimsTable;
  idempotency_bytes: IdempotencyBytesTable;
  skills: SkillsTable;
  settings: SettingsTable;
  jobs: JobsTable;
  job_turns: JobTurnsTable;
  job_pieces: JobPiecesTable;
  job_objects: JobObjectsTable;
  webhooks: WebhooksTable;
  running_requests: RunningRequestsTable;
  config_objects: ConfigObjectsTable;
  audit_log: AuditLogTable;
  changes: ChangesTable;
  tenant_changes: TenantChangesTable;
  migrations: MigrationsTable;
}

export type Table = keyof Schema;

/** Every table, in an order that satisfies foreign keys, and whether a move copies its rows. */
const isCopied: Readonly<Record<Table, boolean>> = {
  tenants: true,
  api_keys: true,
  accounts: true,
  // Leases belong to processes that have stopped. Their credits return to the accounts.
  leases: false,
  journals: true,
  journaled_charges: true,
  ledger_entries: true,
  bookings: true,
  request_log: true,
  usage_daily: true,
  usage_hourly: true,
  byok_credentials: true,
  idempotency_claims: true,
  idempotency_bytes: true,
  skills: true,
  settings: true,
  jobs: true,
  job_turns: true,
  job_pieces: true,
  job_objects: true,
  webhooks: true,
  // Of processes that have stopped, like leases.
  running_requests: false,
  config_objects: true,
  audit_log: true,
  // Each database counts its own changes and migrations.
  changes: false,
  tenant_changes: false,
  migrations: false,
};
export const allTables = Object.keys(isCopied) as readonly Table[];
export const copiedTables = allTables.filter((name) => isCopied[name]);

export type Flag = 0 | 1;

export interface TenantsTable {
  id: string;
  name: string;
  disabled: Flag;
  requests_per_minute: number | null;
  concurrent_requests: number | null;
  plan: string | null;
  webhook_rotations: Generated<number>;
  previous_webhook_secret_until: number | null;
  created_at: number;
  updated_at: number;
}

export interface ApiKeysTable {
  id: string;
  tenant_id: string;
  kind: KeyKind;
  label: string;
  name: string;
  /** Null once the key is deleted, so that no secret can match it again. */
  secret_hash: Uint8Array | null;
  previous_hash: Uint8Array | null;
  previous_until: number | null;
  disabled: Flag;
  /** Set together with `disabled`. Only the operator can clear it. */
  disabled_by_operator: Generated<Flag>;
  deleted_at: number | null;
  limit_credits: number | null;
  limit_reset: LimitReset | null;
  models: string | null;
  scopes: string | null;
  requests_per_minute: number | null;
  cache_mode: CacheMode | null;
  created_at: number;
  updated_at: number;
  expires_at: number | null;
  last_used_at: number | null;
}

interface AccountsTable {
  id: Generated<number>;
  tenant_id: string;
  /** `tenant:<id>` for a wallet, `key:<id>` or `key:<id>:<day>` for the limit of a key. */
  owner: string;
  balance: Generated<number>;
  leased: Generated<number>;
  granted: Generated<number>;
  spent: Generated<number>;
  /** How often a process ran short and recalled the credits leased by other processes. */
  recalls: Generated<number>;
}

/** Credits of an account that one process may spend without a query. */
export interface LeasesTable {
  account_id: number;
  process_id: string;
  /** Distinguishes successive leases of the same process on this account. */
  number: number;
  credits: number;
  until: number;
  /** The last recall after which the process returned its unused credits. */
  answered_recall: Generated<number>;
  /** What running requests of the process held when it last reported. */
  held: Generated<number>;
}

/** The requests that ran in each process when it last reported. */
export interface RunningRequestsTable {
  process_id: string;
  /** A JSON list. */
  requests: string;
  reported_at: number;
}

/**
 * The booked charges of each journal. Rows are never deleted, because a journal can return from a
 * backup at any time. A row takes about 100 bytes.
 */
export interface JournalsTable {
  process_id: string;
  /** The numbers of the booked charges as ranges, such as `0-41,43`. */
  booked: string;
  /** How many numbers these are. */
  charges: number;
}

/** How many charges with a number in a journal were booked on each wallet. */
interface JournaledChargesTable {
  account_id: number;
  charges: number;
}

export interface LedgerEntriesTable {
  /** IDs grow in commit order within an account, because every writer locks the account first. */
  id: Generated<number>;
  account_id: number;
  kind: string;
  amount: number;
  balance_after: number;
  note: string;
  idempotency_key: string | null;
  created_at: number;
}

/**
 * Entries whose log rows were written before them, under a number. All other entries have log rows
 * under their ID. Numbers are negative, and IDs are positive.
 */
interface BookingsTable {
  number: number;
  entry_id: number;
  /** When the first and the last of its requests arrived. */
  first_at: number;
  last_at: number;
}

/** One column for each fee kind, in whole credits. */
type FeeColumns = Record<FeeName, number>;

/** One finished request. */
export interface RequestLogTable extends FeeColumns {
  id: Generated<number>;
  /** The UUID's 16 bytes. */
  request_id: Uint8Array;
  tenant_id: string;
  key_id: string;
  requested_model: string;
  provider: string | null;
  status: 'success' | 'error';
  traffic_mode: TrafficMode;
  input_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  written_off: number;
  searches: number;
  duration_ms: number;
  /** JSON with everything that is only displayed with the request. */
  details: string;
  /**
   * The ledger entry that includes this row's charge, or the number of its booking. Null if nothing
   * was charged.
   */
  entry_id: number | null;
  created_at: number;
}

/** The columns of `usage_daily` and `usage_hourly` that are sums. */
export const dailySums = [
  'requests',
  'failed_requests',
  'prompt_tokens',
  'completion_tokens',
  ...feeNames,
  'written_off',
  'searches',
  'duration_ms',
] as const;
export type DailySum = (typeof dailySums)[number];

interface UsageTable extends Record<DailySum, number> {
  tenant_id: string;
  key_id: string;
  model: string;
  provider: string;
  traffic_mode: TrafficMode;
}

/** Daily sums over the request log, updated in the same transaction. */
export interface UsageDailyTable extends UsageTable {
  day: number;
}

/**
 * The same by hour, for charts only. They are deleted with the log's rows, and rows of requests
 * that a process of an older version booked are missing.
 */
export interface UsageHourlyTable extends UsageTable {
  hour: number;
}

/** Idempotency keys in use, with the answer to replay. */
interface IdempotencyClaimsTable {
  tenant_id: string;
  key: string;
  fingerprint: string;
  request_id: string;
  is_done: Flag;
  /**
   * JSON. The text `null` if the answer was too long. SQL null while the request is running, or if
   * its answer was lost.
   */
  recording: string | null;
  expires_at: number;
}

/**
 * The total size of a tenant's answers that expire in the same hour. `hour` counts hours since the
 * Unix epoch.
 */
interface IdempotencyBytesTable {
  tenant_id: string;
  hour: number;
  bytes: number;
}

/** A tenant's own provider keys, encrypted. */
export interface ByokCredentialsTable {
  tenant_id: string;
  provider: string;
  ciphertext: Uint8Array;
  base_url: string | null;
  mode: ByokMode;
  label: string;
  created_at: number;
  updated_at: number;
}

export interface SkillsTable {
  tenant_id: string;
  name: string;
  description: string;
  instructions: string;
  created_at: number;
  updated_at: number;
}

interface SettingsTable {
  name: string;
  value: string;
}

/** One row with the number that `TenantDirectory.version()` returns. */
interface ChangesTable {
  id: Generated<number>;
  version: number;
}

interface TenantChangesTable {
  version: number;
  tenant_id: string | null;
}

interface MigrationsTable {
  number: number;
  name: string;
  applied_at: number;
}

export interface JobsTable {
  id: string;
  tenant_id: string;
  key_id: string;
  model: string;
  request: string;
  input_key: string;
  input_bytes: number;
  metadata: string;
  webhook_url: string | null;
  status: JobStatus;
  attempts: number;
  /** The lease of the worker that runs the job. */
  lease: string | null;
  /** When a worker may claim the job. Null once the job has ended. */
  claimable_at: number | null;
  pieces_done: number;
  pieces_total: number | null;
  cost: number;
  units: number;
  output_key: string | null;
  output_bytes: number | null;
  failure: string | null;
  created_at: number;
  started_at: number | null;
  completed_at: number | null;
  expires_at: number | null;
}

interface JobTurnsTable {
  tenant_id: string;
  served_at: number;
}

export interface JobPiecesTable {
  job_id: string;
  number: number;
  object_key: string;
  cost: number;
  units: number;
  provider: string;
}

interface JobObjectsTable {
  key: string;
  job_id: string;
  /** Null while the object is the input of an unfinished job. */
  delete_at: number | null;
}

export interface WebhooksTable {
  id: string;
  job_id: string;
  tenant_id: string;
  url: string;
  event: string;
  attempts: number;
  due_at: number;
  created_at: number;
}
