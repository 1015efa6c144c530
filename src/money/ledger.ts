import { type Caller, limitPeriod } from '../core/caller.ts';
import type { IdempotencyClaim, IdempotentAnswer } from '../core/recording.ts';
import { allTime, dayOf, isoDay } from '../records/period.ts';
import type { RequestRecord } from '../records/request-record.ts';
import { totalCharge } from './price/fee-kinds.ts';

/**
 * Whose credits an account counts. A wallet is prepaid; a key's account is its limit, granted anew
 * each period, so that limits are enforced by the very mechanism that guards wallets.
 */
export interface Owner {
  /** `tenant:<id>`, `key:<id>` or `key:<id>:<day the period began>`. */
  readonly name: string;
  readonly tenantId: string;
  /** Null for a wallet, whose grants are booked apart. */
  readonly allowance: Allowance | null;
}

/**
 * What a key may spend in a period. What it spent on those days before it had this limit counts as
 * well, so that a changed limit never begins anew.
 */
export interface Allowance {
  readonly credits: number;
  readonly keyId: string;
  /** Days since 1970; the period is over when `endDay` begins. */
  readonly firstDay: number;
  readonly endDay: number;
}

export function walletName(tenantId: string): string {
  return `tenant:${tenantId}`;
}

/** Every other account is a key's limit. */
export function isWalletName(name: string): boolean {
  return name.startsWith('tenant:');
}

export function walletOwner(tenantId: string): Owner {
  return { name: walletName(tenantId), tenantId, allowance: null };
}

const walletsByCaller = new WeakMap<Caller, Owner>();

/** Whose wallet a caller pays from. Callers stay in memory from request to request. */
export function walletOf(caller: Caller): Owner {
  let wallet = walletsByCaller.get(caller);
  if (!wallet) {
    wallet = walletOwner(caller.tenantId);
    walletsByCaller.set(caller, wallet);
  }
  return wallet;
}

/** Undefined for a key without a limit. */
export function keyOwner(caller: Caller, now: number): Owner | undefined {
  if (caller.limitCredits === null) return undefined;
  const { keyId, tenantId, limitReset, limitCredits: credits } = caller;
  const { from, until } = limitReset ? limitPeriod(limitReset, now) : allTime;
  const [firstDay, endDay] = [dayOf(from), dayOf(until)];
  const name = limitReset ? `key:${keyId}:${isoDay(firstDay)}` : `key:${keyId}`;
  return { name, tenantId, allowance: { credits, keyId, firstDay, endDay } };
}

/** What a process asks of an account. */
export interface LeaseRequest {
  readonly owner: Owner;
  readonly processId: string;
  /**
   * Grows with every order of the process. A lease keeps the number of the order that began it, so
   * that an answer about a lease that was lost meanwhile is not taken for one about its successor.
   */
  readonly number: number;
  /** Begins a new lease; the credits of the old one go back first. Ends any doubt about it. */
  readonly startNew: boolean;
  /** Credits it needs now. It may get more, to save the next trip, or less, when there is less. */
  readonly credits: number;
  /** One request's hold: smaller extras than this would lie about unused. */
  readonly oneHold: number;
  /** Epoch milliseconds until which the lease holds unless renewed. */
  readonly until: number;
  readonly now: number;
}

export interface LeaseResult {
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
export interface CreditReturn {
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
  readonly claim?: IdempotencyClaim;
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
  readonly mayDefer?: boolean | undefined;
  readonly now: number;
}

export interface Batch extends BatchTerms {
  readonly entries: readonly SettlementEntry[];
}

/** A batch whose slips were read. */
export interface ParsedBatch extends BatchTerms {
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
  lease(request: LeaseRequest): Promise<LeaseResult>;
  /** Gives credits back, perhaps none: either way it answers a recall. */
  returnCredits(creditReturn: CreditReturn): Promise<void>;
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
  pendingRecalls(processId: string): Promise<readonly string[]>;
  /**
   * Log rows, ledger entries, balances, leases and roll-ups of a batch: all or nothing. A charge
   * with a claim uses its key up, and is free where another has done so before.
   */
  commit(batch: Batch): Promise<readonly Booked[]>;
  /**
   * The same, each slip together with the answer of its request, which it pays for; neither of the
   * two where another has the claim now.
   */
  commitWithAnswers(batch: Batch, answers: readonly IdempotentAnswer[]): Promise<BookedAnswers>;
}

/**
 * A settlement written out, once, for the journal and for the books. It is all that remains of a
 * request until it is booked: hundreds wait at any time, and what they hold on to survives the next
 * garbage collection.
 */
export interface SettlementEntry {
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly endedAt: number;
  /** The settlement as JSON. */
  readonly text: string;
}

export function toSettlementEntry(settlement: Settlement): SettlementEntry {
  const { requestId, createdAt, durationMs } = settlement.record;
  return { requestId, endedAt: createdAt + durationMs, text: JSON.stringify(settlement) };
}

/** A batch as JSON, for a thread that reads it. */
export function batchJson({ entries, processId, mayRepeat, now }: Batch): string {
  const terms = JSON.stringify({ processId, mayRepeat, now });
  return `${terms.slice(0, -1)},"settlements":[${entries.map(({ text }) => text).join(',')}]}`;
}

export function parseBatch({ entries, ...terms }: Batch): ParsedBatch {
  // Only slipOf() writes these texts.
  const settlements = entries.map(({ text }) => JSON.parse(text) as Settlement);
  return { ...terms, settlements };
}

export type AccountCharge = Pick<Booked, 'account' | 'charge'>;

/** What a settlement takes from which account: the wallet, then the key's limit if it has one. */
export function chargesOf({ record, keyAccount, keyCharge }: Settlement): readonly AccountCharge[] {
  const wallet = {
    account: walletName(record.tenantId),
    charge: totalCharge(record.charges),
  };
  return keyAccount === null ? [wallet] : [wallet, { account: keyAccount, charge: keyCharge }];
}

/**
 * A batch was not booked, because another transaction is writing some of its claims. `requests`
 * has their request ids with their tenants; without them the batch can be booked.
 */
export class ClaimsInUse extends Error {
  readonly requests: ReadonlyMap<string, string>;

  constructor(requests: ReadonlyMap<string, string>) {
    super(`${requests.size} answers under an Idempotency-Key are being written.`);
    this.requests = requests;
  }
}
