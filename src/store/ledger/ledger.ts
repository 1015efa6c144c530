import type { IdempotentAnswer } from '../../core/recording.ts';
import type {
  Batch,
  Booked,
  BookedAnswers,
  CreditReturn,
  LeaseHolds,
  LeaseRequest,
  LeaseResult,
  LedgerStore,
} from '../../money/ledger.ts';
import { parseBatch } from '../../money/ledger.ts';
import { inTransaction, SqlRepository, type StoreTransaction, updateRows } from '../database.ts';
import { finishClaims, finishLost } from '../idempotency-answers.ts';
import {
  type Account,
  bookAllowance,
  type LeaseCondition,
  lockAccount,
  lockAccounts,
  lockLeases,
} from './accounts.ts';
import { commitBatch } from './commit.ts';

/** A process also gets an eighth of the remaining credits, which saves the next round trip. */
const extraCreditsDivisor = 8;

/** Accounts locked per transaction of `expire`. */
const accountsPerTransaction = 200;

export class SqlLedger extends SqlRepository implements LedgerStore {
  lease(request: LeaseRequest): Promise<LeaseResult> {
    return inTransaction(this.database, async (trx) => {
      const account = await this.#openAccount(trx, request);
      if (!account) return { granted: 0, lease: request.number, outsideLease: 0, ...noneElsewhere };
      const returned = request.startNew ? await dropLease(trx, account.id, request.processId) : 0;
      const free = account.balance - account.leased + returned;
      const granted = creditsToGrant(free, request);
      const own = await trx
        .insertInto('leases')
        .values({
          account_id: account.id,
          process_id: request.processId,
          number: request.number,
          credits: granted,
          until: request.until,
        })
        .onConflict((conflict) =>
          conflict
            .columns(['account_id', 'process_id'])
            .doUpdateSet((eb) => ({ credits: eb('leases.credits', '+', granted) })),
        )
        .returning(['number', 'credits'])
        .executeTakeFirstOrThrow();
      // Skipped if nothing changes: each statement prolongs the lock on the account, and processes
      // that return credits wait for it.
      if (granted !== returned) {
        await setLeased(trx, account.id, account.leased - returned + granted);
      }
      const others =
        granted < request.credits ? await leasedByOthers(trx, account, request) : noneElsewhere;
      const outsideLease = account.balance - own.credits;
      return { granted, lease: own.number, outsideLease, ...others };
    });
  }

  async returnCredits({ processId, owner, lease, credits }: CreditReturn): Promise<void> {
    await inTransaction(this.database, async (trx) => {
      const account = await lockAccount(trx, owner);
      if (!account) return;
      const returned = await trx
        .updateTable('leases')
        .set((eb) => ({
          credits: eb('credits', '-', credits),
          answered_recall: account.recalls,
        }))
        .where('account_id', '=', account.id)
        .where('process_id', '=', processId)
        .where('number', '=', lease)
        .returning('credits')
        .executeTakeFirst();
      // If the lease has ended meanwhile, its credits have already been returned.
      if (returned) await setLeased(trx, account.id, account.leased - credits);
    });
  }

  renew(processId: string, until: number): Promise<ReadonlySet<string>> {
    return inTransaction(this.database, async (trx) => {
      await lockLeases(trx, (eb) => eb('process_id', '=', processId));
      // Without this, a long-lived process would keep an empty lease on every account.
      await trx
        .deleteFrom('leases')
        .where('process_id', '=', processId)
        .where('credits', '=', 0)
        .execute();
      await trx.updateTable('leases').set({ until }).where('process_id', '=', processId).execute();
      const rows = await trx
        .selectFrom('leases')
        .innerJoin('accounts', 'accounts.id', 'leases.account_id')
        .select('accounts.owner')
        .where('leases.process_id', '=', processId)
        .execute();
      return new Set(rows.map(({ owner }) => owner));
    });
  }

  reportHolds(processId: string, holds: readonly LeaseHolds[]): Promise<void> {
    return inTransaction(this.database, async (trx) => {
      const byOwner = new Map(holds.map((report) => [report.owner, report]));
      const accounts = await trx
        .selectFrom('accounts')
        .select(['id', 'owner'])
        .where('owner', 'in', [...byOwner.keys()])
        .execute();
      const ids = accounts.map(({ id }) => id);
      if (ids.length === 0) return;
      await lockLeases(trx, (eb) =>
        eb.and([eb('process_id', '=', processId), eb('account_id', 'in', ids)]),
      );
      const rows = accounts.map(({ id, owner }) => {
        const { lease = 0, held = 0 } = byOwner.get(owner) ?? {};
        return { account_id: id, process_id: processId, number: lease, held };
      });
      await updateRows(trx, this.database.engine, {
        table: 'leases',
        keys: ['account_id', 'process_id', 'number'],
        columns: ['held'],
        rows,
      });
    });
  }

  async expire(now: number, deadProcessId?: string): Promise<void> {
    const isExpired: LeaseCondition = (eb) =>
      deadProcessId === undefined ? eb('until', '<', now) : eb('process_id', '=', deadProcessId);
    const ended = await this.database.read
      .selectFrom('leases')
      .select('account_id')
      .where(isExpired)
      .execute();
    if (ended.length === 0) return;
    const ids = [...new Set(ended.map((lease) => lease.account_id))];
    for (let index = 0; index < ids.length; index += accountsPerTransaction) {
      await this.#expireOn(ids.slice(index, index + accountsPerTransaction), isExpired);
    }
  }

  async #expireOn(ids: readonly number[], isExpired: LeaseCondition): Promise<void> {
    await inTransaction(this.database, async (trx) => {
      const accounts = await lockAccounts(trx, 'id', ids);
      // Checked again under the lock, because a process that woke up may just have renewed its
      // leases.
      const condition: LeaseCondition = (eb) =>
        eb.and([eb('account_id', 'in', ids), isExpired(eb)]);
      const freed = await lockLeases(trx, condition);
      await trx.deleteFrom('leases').where(condition).execute();
      for (const account of accounts) {
        const credits = freed
          .filter((lease) => lease.account_id === account.id)
          .reduce((sum, lease) => sum + lease.credits, 0);
        if (credits > 0) await setLeased(trx, account.id, account.leased - credits);
      }
    });
  }

  recall(owner: string, processId: string): Promise<number> {
    return inTransaction(this.database, async (trx) => {
      const account = await lockAccount(trx, owner);
      if (!account) return 0;
      const recalls = account.recalls + 1;
      await trx.updateTable('accounts').set({ recalls }).where('id', '=', account.id).execute();
      // The requesting process has nothing to return.
      await trx
        .updateTable('leases')
        .set({ answered_recall: recalls })
        .where('account_id', '=', account.id)
        .where('process_id', '=', processId)
        .execute();
      return recalls;
    });
  }

  async pendingRecalls(processId: string): Promise<readonly string[]> {
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
    return this.database.commitBatch(batch);
  }

  commitWithAnswers(batch: Batch, answers: readonly IdempotentAnswer[]): Promise<BookedAnswers> {
    return inTransaction(this.database, async (trx) => {
      const own = await finishClaims(trx, answers);
      const others = answers.filter(({ claim }) => !own.has(claim.requestId));
      const free = await finishLost(trx, others);
      const requestIds = new Set([...own, ...free]);
      const entries = batch.entries.filter(({ requestId }) => requestIds.has(requestId));
      if (entries.length === 0) return { booked: [], requestIds };
      const paid = parseBatch({ ...batch, entries });
      return { booked: await commitBatch(trx, this.database.engine, paid, free), requestIds };
    });
  }

  /**
   * Locks and returns the account. For a key's limit, first creates the account if necessary and
   * updates its allowance.
   */
  async #openAccount(trx: StoreTransaction, request: LeaseRequest): Promise<Account | undefined> {
    const { owner, now } = request;
    const account = await lockAccount(trx, owner.name);
    if (owner.allowance === null) return account;
    if (account) return bookAllowance(trx, account, owner.allowance, now);
    await trx
      .insertInto('accounts')
      .values({ tenant_id: owner.tenantId, owner: owner.name })
      .onConflict((conflict) => conflict.column('owner').doNothing())
      .execute();
    const opened = await lockAccount(trx, owner.name);
    return opened && bookAllowance(trx, opened, owner.allowance, now);
  }
}

/**
 * Returns the requested credits plus a share of the remaining ones, in multiples of one hold. If
 * several processes each had only part of a hold, none of them could serve the last request that
 * the account can pay for.
 */
function creditsToGrant(free: number, { credits, oneHold }: LeaseRequest): number {
  if (free <= credits) return Math.max(0, free);
  const extra = Math.floor((free - credits) / extraCreditsDivisor);
  return oneHold > 0 ? credits + extra - (extra % oneHold) : credits;
}

const noneElsewhere = { leasedElsewhere: 0, unanswered: 0, unansweredUntil: null };

async function leasedByOthers(
  trx: StoreTransaction,
  account: Account,
  { processId, recall = account.recalls }: LeaseRequest,
): Promise<Pick<LeaseResult, 'leasedElsewhere' | 'unanswered' | 'unansweredUntil'>> {
  const leases = await trx
    .selectFrom('leases')
    .select(['credits', 'answered_recall', 'until'])
    .where('account_id', '=', account.id)
    .where('process_id', '<>', processId)
    .where('credits', '>', 0)
    .execute();
  const sum = (of: typeof leases) => of.reduce((credits, lease) => credits + lease.credits, 0);
  const unanswered = leases.filter((lease) => lease.answered_recall < recall);
  return {
    leasedElsewhere: sum(leases),
    unanswered: sum(unanswered),
    unansweredUntil:
      unanswered.length > 0 ? Math.min(...unanswered.map(({ until }) => until)) : null,
  };
}

/** Deletes the lease and returns its credits. */
async function dropLease(
  trx: StoreTransaction,
  accountId: number,
  processId: string,
): Promise<number> {
  const dropped = await trx
    .deleteFrom('leases')
    .where('account_id', '=', accountId)
    .where('process_id', '=', processId)
    .returning('credits')
    .executeTakeFirst();
  return dropped?.credits ?? 0;
}

async function setLeased(trx: StoreTransaction, id: number, leased: number): Promise<void> {
  await trx.updateTable('accounts').set({ leased }).where('id', '=', id).execute();
}
