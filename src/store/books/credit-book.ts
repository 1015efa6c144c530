import { strict as assert } from 'node:assert';
import type { Selectable } from 'kysely';
import type { Page } from '../../auth/directory.ts';
import type {
  Balance,
  CreditBook,
  CreditChange,
  CreditEntry,
  CreditEntryKind,
  CreditOutcome,
} from '../../auth/manage/credit-book.ts';
import { invalidRequest } from '../../core/errors.ts';
import { walletName } from '../../ledger/owner.ts';
import { inTransaction, OnDatabase, type StoreTransaction } from '../database.ts';
import type { LedgerEntriesTable } from '../schema.ts';
import { bookGranted, lockAccount } from './accounts.ts';

const kinds: readonly CreditEntryKind[] = ['grant', 'correction'];

export class SqlCreditBook extends OnDatabase implements CreditBook {
  async change(change: CreditChange): Promise<CreditOutcome> {
    assert(Number.isSafeInteger(change.amount) && change.amount !== 0, 'Credits move in wholes.');
    return inTransaction(this.database, async (transaction) => {
      const account = await lockAccount(transaction, walletName(change.tenantId));
      if (!account) return { kind: 'unknown-tenant' };
      const first = await findEntry(transaction, account.id, change.idempotencyKey);
      if (first) {
        const kind = first.amount === change.amount ? 'repeated' : 'conflict';
        return { kind, entry: entryOf(change.tenantId, first) };
      }
      const available = account.balance - account.leased;
      if (change.amount < 0 && available + change.amount < 0) {
        return { kind: 'insufficient', available };
      }
      if (!Number.isSafeInteger(account.granted + change.amount)) {
        throw invalidRequest('That would be more credits than can be counted.', 'amount');
      }
      const kind: CreditEntryKind = change.amount > 0 ? 'grant' : 'correction';
      const entry = await bookGranted(transaction, account, { kind, ...change });
      return { kind: 'booked', entry: entryOf(change.tenantId, entry) };
    });
  }

  async balance(tenantId: string): Promise<Balance | undefined> {
    return this.database.read
      .selectFrom('accounts')
      .select(['balance', 'leased'])
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

async function findEntry(
  transaction: StoreTransaction,
  accountId: number,
  idempotencyKey: string | null,
): Promise<Selectable<LedgerEntriesTable> | undefined> {
  if (idempotencyKey === null) return undefined;
  return transaction
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
