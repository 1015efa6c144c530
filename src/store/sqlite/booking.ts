/** The booking of batches inside the writer's thread, next to the data. */
import { Kysely } from 'kysely';
import type { Booked, ReadBatch } from '../../ledger/ledger-store.ts';
import { commitBatch } from '../books/commit.ts';
import { turnWaitMs } from '../database.ts';
import type { Schema } from '../schema.ts';
import { Turns } from '../turns.ts';
import { sqliteDialect } from './dialect.ts';
import type { Outcome, Step } from './messages.ts';

/** Books batches by asking a connection of the same thread. */
export function booksOn(
  ask: (question: Step) => Promise<Outcome>,
): (batch: ReadBatch) => Promise<readonly Booked[]> {
  // The sender of a batch has the writer's turn already, so nobody ever waits here.
  const turns = new Turns({ waitersMax: 0, waitMs: turnWaitMs });
  const database = new Kysely<Schema>({ dialect: sqliteDialect({ ask }, turns) });
  return (batch) =>
    database.transaction().execute((change) => commitBatch(change, 'sqlite', batch));
}
