import type { Kysely, Transaction } from 'kysely';
import type { Batch, Booked } from '../ledger/ledger-store.ts';
import type { Schema } from './schema.ts';

export type Engine = 'sqlite' | 'postgres';

/** An open database. On Postgres all doors lead to one pool; on SQLite each has its thread. */
export interface Database {
  readonly engine: Engine;
  /** Plain reads outside of transactions; sees everything that was committed before. */
  readonly read: Kysely<Schema>;
  /** The same for what may take long, lists and sums: no request has to wait behind it. */
  readonly report: Kysely<Schema>;
  /** Changes and transactions. */
  readonly write: Kysely<Schema>;
  /** A batch of settlements in one transaction; on SQLite in the writer's thread. */
  book(batch: Batch): Promise<readonly Booked[]>;
  /** Rejects while the database does not answer. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export type StoreTransaction = Transaction<Schema>;

/** The base of every class of queries. */
export abstract class OnDatabase {
  protected readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }
}

/** All of the work is kept, or none of it. */
export function inTransaction<T>(
  { write }: Database,
  work: (change: StoreTransaction) => Promise<T>,
): Promise<T> {
  return write.transaction().execute(work);
}

/** Calls that may wait for one database at once; more means that it is stuck, not busy. */
export const waitingCallsMax = 1_000;

/** How long a call waits for its turn before the caller hears that the database is too busy. */
export const turnWaitMs = 5_000;
