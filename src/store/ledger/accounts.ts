import { strict as assert } from 'node:assert';
import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  sql,
} from 'kysely';
import type {
  Balance,
  CreditChange,
  CreditEntry,
  CreditEntryKind,
  CreditOutcome,
  CreditStore,
} from '../../auth/management/credits.ts';
import type { Page } from '../../auth/tenant-directory.ts';
import { invalidRequest } from '../../core/errors.ts';
import { type Allowance, walletName } from '../../money/ledger.ts';
import { recordChanges } from '../audit-log.ts';
import { charged, inTransaction, SqlRepository, type StoreTransaction } from '../database.ts';
import type { LeasesTable, LedgerEntriesTable, Schema } from '../schema.ts';

const kinds: readonly CreditEntryKind[] = ['grant', 'correction'];

export class SqlCredits extends SqlRepository implements CreditStore {
  async change(change: CreditChange): Promise<CreditOutcome> {
    assert(
      Number.isSafeInteger(change.amount) && change.amount !== 0,
      'The amount must be a nonzero integer.',
    );
    return inTransaction(this.database, async (trx) => {
      const account = await lockAccount(trx, walletName(change.tenantId));
      if (!account) return { kind: 'unknown-tenant' };
      const first = await findEntry(trx, account.id, change.idempotencyKey);
      if (first) {
        const kind = first.amount === change.amount ? 'repeated' : 'conflict';
        return { kind, entry: entryOf(change.tenantId, first) };
      }
      const unleased = account.balance - account.leased;
      if (change.amount < 0 && unleased + change.amount < 0) return { kind: 'insufficient' };
      if (!Number.isSafeInteger(account.granted + change.amount)) {
        throw invalidRequest(
          'amount would raise the total granted credits above the supported maximum.',
          'amount',
        );
      }
      const kind: CreditEntryKind = change.amount > 0 ? 'grant' : 'correction';
      const entry = await bookGranted(trx, account, { kind, ...change });
      const { tenantId, amount, note } = change;
      const after = { amount, balance: entry.balance_after, note, entry: entry.id };
      const before = { balance: account.balance };
      const audited = { action: 'credits.change', target: tenantId, tenantId, before, after };
      await recordChanges(trx, [audited], change.now);
      return { kind: 'booked', entry: entryOf(tenantId, entry) };
    });
  }

  async balance(tenantId: string, exceptProcess = ''): Promise<Balance | undefined> {
    return this.database.read
      .selectFrom('accounts')
      .select(['balance', 'leased', heldOf(exceptProcess)])
      .where('owner', '=', walletName(tenantId))
      .executeTakeFirst();
  }

  async entries(tenantId: string, page: Page): Promise<readonly CreditEntry[]> {
    const rows = await this.database.read
      .selectFrom('ledger_entries')
      .innerJoin('accounts', 'accounts.id', 'ledger_entries.account_id')
      .selectAll('ledger_entries')
      .where('accounts.owner', '=', walletName(tenantId))
      .where('ledger_entries.kind', 'in', kinds)
      .orderBy('ledger_entries.id', 'desc')
      .limit(page.limit)
      .offset(page.offset)
      .execute();
    return rows.map((row) => entryOf(tenantId, row));
  }
}

/** Sums what running requests hold of an account, without those of one process. */
export function heldOf(exceptProcess: string) {
  return sql<number>`(
    select coalesce(sum(leases.held), 0) from leases
    where leases.account_id = accounts.id and leases.process_id <> ${exceptProcess}
      and leases.until > ${Date.now()}
  )`.as('held');
}

async function findEntry(
  trx: StoreTransaction,
  accountId: number,
  idempotencyKey: string | null,
): Promise<Selectable<LedgerEntriesTable> | undefined> {
  if (idempotencyKey === null) return undefined;
  return trx
    .selectFrom('ledger_entries')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('idempotency_key', '=', idempotencyKey)
    .executeTakeFirst();
}

function entryOf(tenantId: string, row: Selectable<LedgerEntriesTable>): CreditEntry {
  const kind = kinds.find((known) => known === row.kind);
  assert(kind, `Entry ${row.id} is neither a grant nor a correction.`);
  return {
    id: row.id,
    tenantId,
    kind,
    amount: row.amount,
    balance: row.balance_after,
    note: row.note,
    createdAt: row.created_at,
  };
}

/** An account, locked for the rest of the transaction. */
export interface Account {
  readonly id: number;
  readonly owner: string;
  readonly balance: number;
  readonly leased: number;
  readonly granted: number;
  readonly spent: number;
  readonly recalls: number;
}

/** Locks accounts by ascending ID. Every transaction uses this order, so they can't deadlock. */
export function lockAccounts(
  trx: StoreTransaction,
  by: 'id' | 'owner',
  values: readonly (string | number)[],
): Promise<Account[]> {
  return trx
    .selectFrom('accounts')
    .select(['id', 'owner', 'balance', 'leased', 'granted', 'spent', 'recalls'])
    .where(by, 'in', values)
    .orderBy('id')
    .forUpdate()
    .execute();
}

export async function lockAccount(
  trx: StoreTransaction,
  owner: string,
): Promise<Account | undefined> {
  const [account] = await lockAccounts(trx, 'owner', [owner]);
  return account;
}

/**
 * Brings a key's account to its limit. The first call grants the entire limit. When the limit
 * changes, a later call books the difference. A decrease never takes credits that are leased.
 * Credits that the key spent earlier in the period outside this account (when it had no limit or a
 * different one) are subtracted from the grant.
 */
export async function bookAllowance(
  trx: StoreTransaction,
  account: Account,
  allowance: Allowance,
  now: number,
): Promise<Account> {
  const spentElsewhere = Math.max(0, (await spentBy(trx, allowance)) - account.spent);
  const target = allowance.credits - spentElsewhere - account.granted;
  const amount = Math.max(target, account.leased - account.balance);
  if (amount === 0) return account;
  const entry = { kind: 'allowance', amount, note: 'Key limit', idempotencyKey: null, now };
  const { balance_after: balance } = await bookGranted(trx, account, entry);
  return { ...account, balance, granted: account.granted + amount };
}

interface GrantedEntry extends Omit<CreditChange, 'tenantId'> {
  readonly kind: string;
}

/** Books a change of the granted credits. Every other decrease counts as spent. */
async function bookGranted(
  trx: StoreTransaction,
  account: Account,
  { kind, amount, note, idempotencyKey, now }: GrantedEntry,
): Promise<Selectable<LedgerEntriesTable>> {
  const balance = account.balance + amount;
  await trx
    .updateTable('accounts')
    .set({ balance, granted: account.granted + amount })
    .where('id', '=', account.id)
    .execute();
  return trx
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

/**
 * Returns what the key spent in the period according to the daily sums, which the key object also
 * shows.
 */
async function spentBy(
  trx: StoreTransaction,
  { keyId, firstDay, endDay }: Allowance,
): Promise<number> {
  const spent = sql<number>`coalesce(sum(${charged}), 0)`;
  const row = await trx
    .selectFrom('usage_daily')
    .select(spent.as('spent'))
    .where('key_id', '=', keyId)
    .where('day', '>=', firstDay)
    .where('day', '<', endDay)
    .executeTakeFirstOrThrow();
  return row.spent;
}

export type LeaseCondition = (eb: ExpressionBuilder<Schema, 'leases'>) => Expression<SqlBool>;

/** Locks leases in a fixed order, as `lockAccounts` does, to avoid deadlocks. */
export function lockLeases(
  trx: StoreTransaction,
  condition: LeaseCondition,
): Promise<Selectable<LeasesTable>[]> {
  return trx
    .selectFrom('leases')
    .selectAll()
    .where(condition)
    .orderBy('account_id')
    .orderBy('process_id')
    .forUpdate()
    .execute();
}
