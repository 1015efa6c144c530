import type { Claim, NamedAnswer } from '../core/claim.ts';
import type { RequestRecord } from '../record/request-record.ts';
import type { Owner } from './owner.ts';
import type { Slip } from './slip.ts';

/** What a process asks of an account. */
export interface LeaseOrder {
  readonly owner: Owner;
  readonly processId: string;
  /**
   * Grows with every order of the process. A lease keeps the number of the order that began it, so
   * that an answer about a lease that was lost meanwhile is not taken for one about its successor.
   */
  readonly number: number;
  /** Begins a new lease; the credits of the old one go back first. Ends any doubt about it. */
  readonly anew: boolean;
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
  /** The number of the lease that the credits belong to. */
  readonly lease: number;
  /** What the account has outside this process's lease: on lease to others, or to nobody. */
  readonly outsideLease: number;
  /** What other processes have on lease and might give back; 0 when it was not needed. */
  readonly leasedElsewhere: number;
  /** The part of it whose processes have not answered the last recall. */
  readonly unanswered: number;
}

/** Credits that go back to their account, out of one lease and no other. */
export interface Return {
  readonly processId: string;
  readonly owner: string;
  readonly lease: number;
  readonly credits: number;
}

/** One request's end as the books see it. */
export interface Settlement {
  readonly record: RequestRecord;
  /** Credits that were owed but not there: the operator's loss, never the tenant's debt. */
  readonly writtenOff: number;
  /** The account of the key's limit, if it has one, and what came out of it. */
  readonly keyAccount: string | null;
  readonly keyCharge: number;
  /** Set where an answer under an `Idempotency-Key` could not be stored: it is only in memory. */
  readonly claim?: Claim;
}

/** What a commit has to know besides the settlements. */
interface BatchTerms {
  /** Whose leases the charges come out of; a dead process's when its journal is replayed. */
  readonly processId: string;
  /** Some of these may have been committed before: look first. Set after any doubt. */
  readonly mayRepeat: boolean;
  /**
   * Fails with `ClaimsInUse` instead of waiting where another transaction is writing a claim of the
   * batch. SQLite never does: its writers take turns.
   */
  readonly mayPutOff?: boolean | undefined;
  readonly now: number;
}

export interface Batch extends BatchTerms {
  readonly slips: readonly Slip[];
}

/** A batch whose slips were read. */
export interface ReadBatch extends BatchTerms {
  readonly settlements: readonly Settlement[];
}

/** What a commit took from one account. */
export interface Booked {
  readonly account: string;
  readonly charge: number;
  /**
   * The part that came out of the process's lease; the rest was free in the account. Null for what
   * an earlier commit had booked already: nobody knows any more where it took it from.
   */
  readonly fromLease: { readonly lease: number; readonly credits: number } | null;
}

/** What a commit with answers took, and what it booked: requests that still had their claims. */
export interface BookedAnswers {
  readonly booked: readonly Booked[];
  readonly requestIds: ReadonlySet<string>;
}

/** The store behind wallets and drain. Every method is one transaction. */
export interface LedgerStore {
  /** Moves credits from an account's free balance into a process's lease. */
  lease(order: LeaseOrder): Promise<LeaseAnswer>;
  /** Gives credits back, perhaps none: either way it answers a recall. */
  giveBack(back: Return): Promise<void>;
  /** Prolongs all leases of a process; answers the accounts on which it still has one. */
  renew(processId: string, until: number): Promise<ReadonlySet<string>>;
  /**
   * Frees the leases of processes that stopped renewing; or, where one is named, those of that dead
   * process alone: when a journal is found, the clock may have jumped, and all leases look ended.
   */
  expire(now: number, deadProcessId?: string): Promise<void>;
  /** Says that a process starves on this account. */
  recall(owner: string, processId: string): Promise<void>;
  /** The accounts on which the process has a lease and a recall to answer. */
  recalled(processId: string): Promise<readonly string[]>;
  /**
   * Log rows, ledger entries, balances, leases and roll-ups of a batch: all or nothing. A charge
   * with a claim uses its key up, and is free where another has done so before.
   */
  commit(batch: Batch): Promise<readonly Booked[]>;
  /**
   * The same, each slip together with the answer of its request, which it pays for; neither of the
   * two where another has the claim now.
   */
  commitWith(batch: Batch, answers: readonly NamedAnswer[]): Promise<BookedAnswers>;
}
