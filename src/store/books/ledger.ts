import type { NamedAnswer } from '../../core/claim.ts';
import type {
  Batch,
  Booked,
  BookedAnswers,
  LeaseAnswer,
  LeaseOrder,
  LedgerStore,
  Return,
} from '../../ledger/ledger-store.ts';
import { readBatch } from '../../ledger/slip.ts';
import { finishClaims } from '../claims.ts';
import { inTransaction, OnDatabase, type StoreTransaction } from '../database.ts';
import { type Account, bookAllowance, lockAccount, lockAccounts } from './accounts.ts';
import { commitBatch } from './commit.ts';
import { type LeaseCondition, lockLeases } from './leases.ts';

/** A process also gets an eighth of what is left, which saves the next trip. */
const shareOfRest = 8;

/** Accounts that one transaction of `expire` keeps locked. */
const accountsAtOnce = 200;

export class SqlLedger extends OnDatabase implements LedgerStore {
  lease(order: LeaseOrder): Promise<LeaseAnswer> {
    return inTransaction(this.database, async (change) => {
      const account = await this.#openAccount(change, order);
      if (!account) return { granted: 0, lease: order.number, outsideLease: 0, ...none };
      const returned = order.anew ? await dropLease(change, account.id, order.processId) : 0;
      const free = account.balance - account.leased + returned;
      const granted = shareOf(free, order);
      const own = await change
        .insertInto('leases')
        .values({
          account_id: account.id,
          process_id: order.processId,
          number: order.number,
          credits: granted,
          until: order.until,
        })
        .onConflict((conflict) =>
          conflict
            .columns(['account_id', 'process_id'])
            .doUpdateSet((of) => ({ credits: of('leases.credits', '+', granted) })),
        )
        .returning(['number', 'credits'])
        .executeTakeFirstOrThrow();
      // Skipped where nothing changes: each statement prolongs the lock on the account, for which
      // processes wait that give credits back.
      if (granted !== returned) {
        await setLeased(change, account.id, account.leased - returned + granted);
      }
      const others = granted < order.credits ? await leasedByOthers(change, account, order) : none;
      const outsideLease = account.balance - own.credits;
      return { granted, lease: own.number, outsideLease, ...others };
    });
  }

  async giveBack({ processId, owner, lease, credits }: Return): Promise<void> {
    await inTransaction(this.database, async (change) => {
      const account = await lockAccount(change, owner);
      if (!account) return;
      const returned = await change
        .updateTable('leases')
        .set((of) => ({
          credits: of('credits', '-', credits),
          answered_recall: account.recalls,
        }))
        .where('account_id', '=', account.id)
        .where('process_id', '=', processId)
        .where('number', '=', lease)
        .returning('credits')
        .executeTakeFirst();
      // The lease may have ended meanwhile; then its credits are back already.
      if (returned) await setLeased(change, account.id, account.leased - credits);
    });
  }

  renew(processId: string, until: number): Promise<ReadonlySet<string>> {
    return inTransaction(this.database, async (change) => {
      await lockLeases(change, (of) => of('process_id', '=', processId));
      // Without this a long-lived process would keep an empty lease on every account.
      await change
        .deleteFrom('leases')
        .where('process_id', '=', processId)
        .where('credits', '=', 0)
        .execute();
      await change
        .updateTable('leases')
        .set({ until })
        .where('process_id', '=', processId)
        .execute();
      const rows = await change
        .selectFrom('leases')
        .innerJoin('accounts', 'accounts.id', 'leases.account_id')
        .select('accounts.owner')
        .where('leases.process_id', '=', processId)
        .execute();
      return new Set(rows.map(({ owner }) => owner));
    });
  }

  async expire(now: number, deadProcessId?: string): Promise<void> {
    const isOver: LeaseCondition = (of) =>
      deadProcessId === undefined ? of('until', '<', now) : of('process_id', '=', deadProcessId);
    const ended = await this.database.read
      .selectFrom('leases')
      .select('account_id')
      .where(isOver)
      .execute();
    if (ended.length === 0) return;
    const ids = [...new Set(ended.map((lease) => lease.account_id))];
    for (let at = 0; at < ids.length; at += accountsAtOnce) {
      await this.#expireOn(ids.slice(at, at + accountsAtOnce), isOver);
    }
  }

  async #expireOn(ids: readonly number[], isOver: LeaseCondition): Promise<void> {
    await inTransaction(this.database, async (change) => {
      const accounts = await lockAccounts(change, 'id', ids);
      // Looked at again under the lock: a process that woke up may just have renewed.
      const which: LeaseCondition = (of) => of.and([of('account_id', 'in', ids), isOver(of)]);
      const freed = await lockLeases(change, which);
      await change.deleteFrom('leases').where(which).execute();
      for (const account of accounts) {
        const credits = freed
          .filter((lease) => lease.account_id === account.id)
          .reduce((sum, lease) => sum + lease.credits, 0);
        if (credits > 0) await setLeased(change, account.id, account.leased - credits);
      }
    });
  }

  async recall(owner: string, processId: string): Promise<void> {
    await inTransaction(this.database, async (change) => {
      const account = await lockAccount(change, owner);
      if (!account) return;
      const recalls = account.recalls + 1;
      await change.updateTable('accounts').set({ recalls }).where('id', '=', account.id).execute();
      // The process that asks has nothing to give back.
      await change
        .updateTable('leases')
        .set({ answered_recall: recalls })
        .where('account_id', '=', account.id)
        .where('process_id', '=', processId)
        .execute();
    });
  }

  async recalled(processId: string): Promise<readonly string[]> {
    const rows = await this.database.read
      .selectFrom('leases')
      .innerJoin('accounts', 'accounts.id', 'leases.account_id')
      .select('accounts.owner')
      .where('leases.process_id', '=', processId)
      .where('leases.credits', '>', 0)
      .whereRef('leases.answered_recall', '<', 'accounts.recalls')
      .execute();
    return rows.map(({ owner }) => owner);
  }

  commit(batch: Batch): Promise<readonly Booked[]> {
    return this.database.book(batch);
  }

  commitWith(batch: Batch, answers: readonly NamedAnswer[]): Promise<BookedAnswers> {
    return inTransaction(this.database, async (change) => {
      const requestIds = await finishClaims(change, answers);
      const slips = batch.slips.filter(({ requestId }) => requestIds.has(requestId));
      if (slips.length === 0) return { booked: [], requestIds };
      const paid = readBatch({ ...batch, slips });
      return { booked: await commitBatch(change, this.database.engine, paid), requestIds };
    });
  }

  /** The account, with a key's allowance brought up to date. */
  async #openAccount(change: StoreTransaction, order: LeaseOrder): Promise<Account | undefined> {
    const { owner, now } = order;
    const account = await lockAccount(change, owner.name);
    if (owner.allowance === null) return account;
    if (account) return bookAllowance(change, account, owner.allowance, now);
    await change
      .insertInto('accounts')
      .values({ tenant_id: owner.tenantId, owner: owner.name })
      .onConflict((conflict) => conflict.column('owner').doNothing())
      .execute();
    const opened = await lockAccount(change, owner.name);
    return opened && bookAllowance(change, opened, owner.allowance, now);
  }
}

/**
 * What is asked for, plus a share of the rest, in whole holds: if several processes each had a part
 * of one hold, none could serve the last request that the account can pay for.
 */
function shareOf(free: number, { credits, oneHold }: LeaseOrder): number {
  if (free <= credits) return Math.max(0, free);
  const extra = Math.floor((free - credits) / shareOfRest);
  return oneHold > 0 ? credits + extra - (extra % oneHold) : credits;
}

const none = { leasedElsewhere: 0, unanswered: 0 };

async function leasedByOthers(
  change: StoreTransaction,
  account: Account,
  { processId }: LeaseOrder,
): Promise<{ leasedElsewhere: number; unanswered: number }> {
  const leases = await change
    .selectFrom('leases')
    .select(['credits', 'answered_recall'])
    .where('account_id', '=', account.id)
    .where('process_id', '<>', processId)
    .where('credits', '>', 0)
    .execute();
  const sum = (of: typeof leases) => of.reduce((credits, lease) => credits + lease.credits, 0);
  return {
    leasedElsewhere: sum(leases),
    unanswered: sum(leases.filter((lease) => lease.answered_recall < account.recalls)),
  };
}

/** Answers the credits that the lease had. */
async function dropLease(
  change: StoreTransaction,
  accountId: number,
  processId: string,
): Promise<number> {
  const dropped = await change
    .deleteFrom('leases')
    .where('account_id', '=', accountId)
    .where('process_id', '=', processId)
    .returning('credits')
    .executeTakeFirst();
  return dropped?.credits ?? 0;
}

async function setLeased(change: StoreTransaction, id: number, leased: number): Promise<void> {
  await change.updateTable('accounts').set({ leased }).where('id', '=', id).execute();
}
