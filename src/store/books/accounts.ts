import { type Selectable, sql } from 'kysely';
import type { CreditChange } from '../../auth/manage/credit-book.ts';
import type { Allowance } from '../../ledger/owner.ts';
import type { StoreTransaction } from '../database.ts';
import { charged } from '../expressions.ts';
import type { LedgerEntriesTable } from '../schema.ts';

/** One account, locked for the rest of the transaction. */
export interface Account {
  readonly id: number;
  readonly owner: string;
  readonly balance: number;
  readonly leased: number;
  readonly granted: number;
  readonly spent: number;
  readonly recalls: number;
}

/**
 * Locks accounts in the order of their ids: everybody locks in the same order, so nobody waits in
 * a circle.
 */
export function lockAccounts(
  change: StoreTransaction,
  by: 'id' | 'owner',
  values: readonly (string | number)[],
): Promise<Account[]> {
  return change
    .selectFrom('accounts')
    .select(['id', 'owner', 'balance', 'leased', 'granted', 'spent', 'recalls'])
    .where(by, 'in', values)
    .orderBy('id')
    .forUpdate()
    .execute();
}

export async function lockAccount(
  change: StoreTransaction,
  owner: string,
): Promise<Account | undefined> {
  const [account] = await lockAccounts(change, 'owner', [owner]);
  return account;
}

/**
 * Brings a key's account to its limit: at first the whole limit is granted, later a changed limit
 * books the difference, downwards only what is not on lease. What the key spent in the period
 * without this account, under no limit or another one, is not granted again.
 */
export async function bookAllowance(
  change: StoreTransaction,
  account: Account,
  allowance: Allowance,
  now: number,
): Promise<Account> {
  const elsewhere = Math.max(0, (await spentBy(change, allowance)) - account.spent);
  const wished = allowance.credits - elsewhere - account.granted;
  const amount = Math.max(wished, account.leased - account.balance);
  if (amount === 0) return account;
  const entry = { kind: 'allowance', amount, note: 'Key limit', idempotencyKey: null, now };
  const { balance_after: balance } = await bookGranted(change, account, entry);
  return { ...account, balance, granted: account.granted + amount };
}

interface GrantedEntry extends Omit<CreditChange, 'tenantId'> {
  readonly kind: string;
}

/** Raises or lowers what an account was granted; every other loss counts as spent. */
export async function bookGranted(
  change: StoreTransaction,
  account: Account,
  { kind, amount, note, idempotencyKey, now }: GrantedEntry,
): Promise<Selectable<LedgerEntriesTable>> {
  const balance = account.balance + amount;
  await change
    .updateTable('accounts')
    .set({ balance, granted: account.granted + amount })
    .where('id', '=', account.id)
    .execute();
  return change
    .insertInto('ledger_entries')
    .values({
      account_id: account.id,
      kind,
      amount,
      balance_after: balance,
      note,
      idempotency_key: idempotencyKey,
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** What the key spent in the period, by the daily sums, which is what the key object shows. */
async function spentBy(
  change: StoreTransaction,
  { keyId, firstDay, endDay }: Allowance,
): Promise<number> {
  const spent = sql<number>`coalesce(sum(${charged}), 0)`;
  const row = await change
    .selectFrom('usage_daily')
    .select(spent.as('spent'))
    .where('key_id', '=', keyId)
    .where('day', '>=', firstDay)
    .where('day', '<', endDay)
    .executeTakeFirstOrThrow();
  return row.spent;
}
