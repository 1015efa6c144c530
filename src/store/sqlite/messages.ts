/** What crosses to a SQLite worker and back. Each question has one answer, in order. */

export type SqlValue = null | number | bigint | string | Uint8Array;

export type Question =
  /** One batch of settlements, as JSON: a text crosses faster than the objects it tells of. */
  { readonly kind: 'book'; readonly batch: string } | Step;

/** What a connection does by itself. */
export type Step =
  | { readonly kind: 'open'; readonly path: string; readonly role: 'writer' | 'reader' }
  | {
      readonly kind: 'run';
      readonly sql: string;
      readonly parameters: readonly SqlValue[];
      /** The statement belongs to a transaction and must not run without it. */
      readonly inTransaction: boolean;
    }
  | {
      readonly kind: 'run-many';
      readonly sql: string;
      readonly rows: readonly (readonly SqlValue[])[];
      readonly inTransaction: boolean;
    }
  | { readonly kind: 'rollback' }
  | { readonly kind: 'close' };

export interface Outcome {
  readonly rows: unknown[];
  /** Rows that a statement without a result set touched. */
  readonly changes: number | null;
}

export type SqlAnswer =
  | { readonly ok: true; readonly outcome: Outcome }
  | { readonly ok: false; readonly message: string; readonly code: string | null };
