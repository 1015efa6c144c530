import type {
  Batch,
  Booked,
  LeaseAnswer,
  LeaseOrder,
  LedgerStore,
} from '../ledger/ledger-store.ts';
import { type Account, bookAllowance, findAccount, lockAccounts } from './accounts.ts';
import { commitBatch } from './commit.ts';
import type { Database, StoreTransaction } from './database.ts';

/** Beyond what was asked for, a process gets this part of the rest: the next trip is saved. */
const shareOfRest = 8;

export class SqlLedger implements LedgerStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  lease(order: LeaseOrder): Promise<LeaseAnswer> {
    return this.#change(async (change) => {
      const account = await this.#openAccount(change, order);
      if (!account) return { granted: 0, leasedElsewhere: 0 };
      const granted = shareOf(account.balance - account.leased, order);
      const own = await change
        .insertInto('leases')
        .values({
          account_id: account.id,
          process_id: order.processId,
          credits: granted,
          until: order.until,
        })
        .onConflict((conflict) =>
          conflict
            .columns(['account_id', 'process_id'])
            .doUpdateSet((of) => ({ credits: of('leases.credits', '+', granted) })),
        )
        .returning('credits')
        .executeTakeFirstOrThrow();
      const leased = account.leased + granted;
      await setLeased(change, account.id, leased);
      return { granted, leasedElsewhere: leased - own.credits };
    });
  }

  async giveBack(processId: string, owner: string, credits: number): Promise<void> {
    await this.#change(async (change) => {
      const account = await findAccount(change, this.#database.engine, owner);
      if (!account) return;
      const returned = await change
        .updateTable('leases')
        .set((of) => ({ credits: of('credits', '-', credits) }))
        .where('account_id', '=', account.id)
        .where('process_id', '=', processId)
        .where('credits', '>=', credits)
        .returning('credits')
        .executeTakeFirst();
      // The lease may have ended meanwhile; then its credits are back already.
      if (returned) await setLeased(change, account.id, account.leased - credits);
    });
  }

  async renew(processId: string, until: number): Promise<ReadonlySet<string>> {
    const { write } = this.#database;
    await write.updateTable('leases').set({ until }).where('process_id', '=', processId).execute();
    const rows = await write
      .selectFrom('leases')
      .innerJoin('accounts', 'accounts.id', 'leases.account_id')
      .select('accounts.owner')
      .where('leases.process_id', '=', processId)
      .execute();
    return new Set(rows.map(({ owner }) => owner));
  }

  async expire(now: number, deadProcessId?: string): Promise<void> {
    const dead = deadProcessId ?? '';
    const ended = await this.#database.read
      .selectFrom('leases')
      .select('account_id')
      .where((of) => of.or([of('until', '<', now), of('process_id', '=', dead)]))
      .execute();
    if (ended.length === 0) return;
    const ids = [...new Set(ended.map((lease) => lease.account_id))];
    await this.#change(async (change) => {
      const accounts = await lockAccounts(change, this.#database.engine, 'id', ids);
      // Looked at again under the lock: a process that woke up may just have renewed.
      const freed = await change
        .deleteFrom('leases')
        .where('account_id', 'in', ids)
        .where((of) => of.or([of('until', '<', now), of('process_id', '=', dead)]))
        .returning(['account_id', 'credits'])
        .execute();
      for (const account of accounts) {
        const credits = freed
          .filter((lease) => lease.account_id === account.id)
          .reduce((sum, lease) => sum + lease.credits, 0);
        if (credits > 0) await setLeased(change, account.id, account.leased - credits);
      }
    });
  }

  async recall(owner: string, now: number): Promise<void> {
    await this.#database.write
      .updateTable('accounts')
      .set({ recalled_at: now })
      .where('owner', '=', owner)
      .execute();
  }

  async recalled(processId: string, since: number): Promise<readonly string[]> {
    const rows = await this.#database.read
      .selectFrom('leases')
      .innerJoin('accounts', 'accounts.id', 'leases.account_id')
      .select('accounts.owner')
      .where('leases.process_id', '=', processId)
      .where('accounts.recalled_at', '>', since)
      .execute();
    return rows.map(({ owner }) => owner);
  }

  commit(batch: Batch): Promise<readonly Booked[]> {
    return this.#change((change) => commitBatch(change, this.#database.engine, batch));
  }

  /** The account, with a key's allowance brought up to date. */
  async #openAccount(change: StoreTransaction, order: LeaseOrder): Promise<Account | undefined> {
    const { engine } = this.#database;
    const { owner, now } = order;
    const account = await findAccount(change, engine, owner.name);
    if (owner.allowance === null) return account;
    if (account) return bookAllowance(change, account, owner.allowance, now);
    await change
      .insertInto('accounts')
      .values({ tenant_id: owner.tenantId, owner: owner.name })
      .onConflict((conflict) => conflict.column('owner').doNothing())
      .execute();
    const opened = await findAccount(change, engine, owner.name);
    return opened && bookAllowance(change, opened, owner.allowance, now);
  }

  #change<T>(act: (change: StoreTransaction) => Promise<T>): Promise<T> {
    return this.#database.write.transaction().execute(act);
  }
}

/** What is asked for, plus a share of the rest if that is worth at least one more hold. */
function shareOf(free: number, { credits, oneHold }: LeaseOrder): number {
  if (free <= credits) return Math.max(0, free);
  const extra = Math.floor((free - credits) / shareOfRest);
  return extra >= oneHold ? credits + extra : credits;
}

async function setLeased(change: StoreTransaction, id: number, leased: number): Promise<void> {
  await change.updateTable('accounts').set({ leased }).where('id', '=', id).execute();
}
