import type { RequestRecord } from '../record/request-record.ts';
import type { Owner } from './owner.ts';

/** What a process asks of an account. */
export interface LeaseOrder {
  readonly owner: Owner;
  readonly processId: string;
  /** Credits it needs now. It may get more, to save the next trip, or less, when there is less. */
  readonly credits: number;
  /** One request's hold: smaller extras than this would lie about unused. */
  readonly oneHold: number;
  /** Epoch milliseconds until which the lease holds unless renewed. */
  readonly until: number;
  readonly now: number;
}

export interface LeaseAnswer {
  readonly granted: number;
  /** What other processes have on lease and might give back. */
  readonly leasedElsewhere: number;
}

/** One request's end as the books see it. */
export interface Settlement {
  readonly record: RequestRecord;
  /** Credits that were owed but not there: the operator's loss, never the tenant's debt. */
  readonly writtenOff: number;
  /** The account of the key's limit, if it has one, and what came out of it. */
  readonly keyAccount: string | null;
  readonly keyCharge: number;
}

export interface Batch {
  /** Whose leases the charges come out of; a dead process's when its journal is replayed. */
  readonly processId: string;
  readonly settlements: readonly Settlement[];
  /** Some of these may have been committed before: look first. Set after any doubt. */
  readonly mayRepeat: boolean;
  readonly now: number;
}

/** What a commit took from one account. */
export interface Booked {
  readonly account: string;
  readonly charge: number;
  /** The part that came out of the process's lease; the rest was free in the account. */
  readonly fromLease: number;
}

/** The store behind wallets and drain. Every method is one transaction. */
export interface LedgerStore {
  /** Moves credits from an account's free balance into a process's lease. */
  lease(order: LeaseOrder): Promise<LeaseAnswer>;
  giveBack(processId: string, owner: string, credits: number): Promise<void>;
  /** Prolongs all leases of a process; answers the accounts on which it still has one. */
  renew(processId: string, until: number): Promise<ReadonlySet<string>>;
  /** Frees the leases of processes that stopped renewing, and those of the named dead one. */
  expire(now: number, deadProcessId?: string): Promise<void>;
  /** Says that somebody starves on this account. */
  recall(owner: string, now: number): Promise<void>;
  /** Of the accounts on which the process has a lease: those recalled since. */
  recalled(processId: string, since: number): Promise<readonly string[]>;
  /** Log rows, ledger entries, balances, leases and roll-ups of a batch: all or nothing. */
  commit(batch: Batch): Promise<readonly Booked[]>;
}
