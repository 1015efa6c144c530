import { sql } from 'kysely';
import { NumberRanges } from '../../core/number-ranges.ts';
import { type ParsedBatch, type Settlement, walletName } from '../../money/ledger.ts';
import { type Engine, insertRows, type StoreTransaction } from '../database.ts';
import type { JournalsTable } from '../schema.ts';
import type { Account } from './accounts.ts';

export function hasNumber({ journalNumber }: Settlement): boolean {
  return journalNumber !== undefined;
}

/**
 * Reads which charges of a process's journal are booked. Log rows can't tell, because they are
 * removed after `logs.keep_days`, and the journal may return later, for example from a backup.
 */
export async function bookedNumbers(
  trx: StoreTransaction,
  processId: string,
): Promise<NumberRanges> {
  const row = await trx
    .selectFrom('journals')
    .select('booked')
    .where('process_id', '=', processId)
    .executeTakeFirst();
  return NumberRanges.parse(row?.booked ?? '');
}

/**
 * Like `bookedNumbers`, and locks them, because two processes may replay the same journal. Returns
 * an empty set for a batch without numbers.
 */
export async function lockBookedNumbers(
  trx: StoreTransaction,
  { settlements, processId }: ParsedBatch,
): Promise<NumberRanges> {
  if (!settlements.some(hasNumber)) return new NumberRanges();
  // Creates a missing row and locks the row in one statement, because every batch pays for it.
  const { rows } = await sql<Pick<JournalsTable, 'booked'>>`
    insert into journals (process_id, booked, charges) values (${processId}, '', 0)
    on conflict (process_id) do update set charges = journals.charges
    returning booked`.execute(trx);
  return NumberRanges.parse(rows[0]?.booked ?? '');
}

/**
 * Adds the numbers of a batch to those that are booked. Also adds repeats that were recognized by
 * their request IDs, because the log forgets these. Skips charges of unknown wallets.
 */
export async function bookNumbers(
  trx: StoreTransaction,
  engine: Engine,
  { settlements, processId }: ParsedBatch,
  { numbers, accounts }: { numbers: NumberRanges; accounts: readonly Account[] },
): Promise<void> {
  const ids = new Map(accounts.map(({ id, owner }) => [owner, id]));
  const added = addToBooked(numbers, settlements, (wallet) => ids.has(wallet));
  if (added.size === 0) return;
  await sql`
    update journals set booked = ${numbers.toString()}, charges = ${numbers.size}
    where process_id = ${processId}`.execute(trx);
  await insertRows(trx, engine, {
    table: 'journaled_charges',
    columns: ['account_id', 'charges'],
    rows: [...added].map(([owner, charges]) => ({ account_id: ids.get(owner) ?? 0, charges })),
    conflict:
      'on conflict (account_id) do update set charges = journaled_charges.charges + excluded.charges',
  });
}

/** Adds the numbers of charges on known wallets. Returns how many are new, by wallet. */
export function addToBooked(
  numbers: NumberRanges,
  settlements: readonly Settlement[],
  isKnown: (wallet: string) => boolean,
): ReadonlyMap<string, number> {
  const added = new Map<string, number>();
  for (const { journalNumber, record } of settlements) {
    const wallet = walletName(record.tenantId);
    if (journalNumber === undefined || numbers.has(journalNumber) || !isKnown(wallet)) continue;
    numbers.add(journalNumber);
    added.set(wallet, (added.get(wallet) ?? 0) + 1);
  }
  return added;
}
