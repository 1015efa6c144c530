import type { Period } from './period.ts';
import type { RequestRecord } from './request-record.ts';

/** Which rows of the request log somebody wants to see. */
export interface LogFilter extends Period {
  readonly tenantId: string;
  readonly status: 'success' | 'error' | null;
  /** The alias that was asked for. */
  readonly model: string | null;
  readonly keyId: string | null;
}

/** The part of a record that its tenant reads. */
export type LogRow = Pick<
  RequestRecord,
  | 'requestId'
  | 'keyId'
  | 'jobId'
  | 'endUser'
  | 'requestedModel'
  | 'provider'
  | 'status'
  | 'error'
  | 'trafficMode'
  | 'usage'
  | 'charges'
  | 'skills'
  | 'note'
  | 'durationMs'
  | 'createdAt'
>;

export interface LogPage {
  readonly rows: readonly LogRow[];
  /** All rows that match, on whatever page. */
  readonly total: number;
}

/** The store behind the request log that customers read. Newest first, by time of arrival. */
export interface LogReads {
  /** Whether a key is, or was before it was deleted, one of the tenant's. */
  ownsKey(tenantId: string, keyId: string): Promise<boolean>;
  /** Costs the same for the first page and for the last of millions. */
  page(filter: LogFilter, limit: number, offset: number): Promise<LogPage>;
  /** All matching rows in pages; rows written after the first page are not among them. */
  all(filter: LogFilter): AsyncIterable<readonly LogRow[]>;
}
