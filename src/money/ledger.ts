import { type Caller, limitPeriod } from '../core/caller.ts';
import type { IdempotencyClaim, IdempotentAnswer } from '../core/recording.ts';
import { allTime, dayOf, isoDay } from '../records/period.ts';
import type { RequestRecord } from '../records/request-record.ts';
import { totalCharge } from './price/fee-kinds.ts';

/**
 * The owner of an account. A wallet is a tenant's prepaid account. A key's limit is an account too,
 * granted again each period, so both are enforced in the same way.
 */
export interface Owner {
  /** `tenant:<id>`, `key:<id>`, or `key:<id>:<first day of the period>`. */
  readonly name: string;
  readonly tenantId: string;
  /** Null for a wallet, whose credits are granted separately. */
  readonly allowance: Allowance | null;
}

/**
 * A key's limit for a period. What the key spent in the period before the limit was set counts too.
 */
export interface Allowance {
  readonly credits: number;
  readonly keyId: string;
  /** Days since 1970. The period ends when `endDay` begins. */
  readonly firstDay: number;
  readonly endDay: number;
}

export function walletName(tenantId: string): string {
  return `tenant:${tenantId}`;
}

/** Returns false for the account of a key's limit. */
export function isWalletName(name: string): boolean {
  return name.startsWith('tenant:');
}

export function walletOwner(tenantId: string): Owner {
  return { name: walletName(tenantId), tenantId, allowance: null };
}

const walletsByCaller = new WeakMap<Caller, Owner>();

/** Returns the wallet a caller pays from. Cached, because callers are cached between requests. */
export function walletOf(caller: Caller): Owner {
  let wallet = walletsByCaller.get(caller);
  if (!wallet) {
    wallet = walletOwner(caller.tenantId);
    walletsByCaller.set(caller, wallet);
  }
  return wallet;
}

/** Returns the account of the key's limit, or undefined for a key without a limit. */
export function keyLimitAccount(caller: Caller, now: number): Owner | undefined {
  if (caller.limitCredits === null) return undefined;
  const { keyId, tenantId, limitReset, limitCredits: credits } = caller;
  const { from, until } = limitReset ? limitPeriod(limitReset, now) : allTime;
  const [firstDay, endDay] = [dayOf(from), dayOf(until)];
  const name = limitReset ? `key:${keyId}:${isoDay(firstDay)}` : `key:${keyId}`;
  return { name, tenantId, allowance: { credits, keyId, firstDay, endDay } };
}

/** A process's request for credits of an account. */
export interface LeaseRequest {
  readonly owner: Owner;
  readonly processId: string;
  /**
   * Increases with every request of the process. A lease has the number of the request that started
   * it, so that results about a lost lease aren't applied to the next lease.
   */
  readonly number: number;
  /**
   * If true, the store returns the old lease's credits and starts a new lease. Set when the state
   * of the old lease is in doubt.
   */
  readonly startNew: boolean;
  /** Credits needed now. The store may grant fewer, or more to save the next call. */
  readonly credits: number;
  /**
   * The size of one request's hold. The store grants extra credits in multiples of this size,
   * because smaller extras would remain unused.
   */
  readonly oneHold: number;
  /** The recall that other processes must have answered. By default, the account's last one. */
  readonly recall?: number | undefined;
  /** When the lease expires unless it is renewed, in epoch milliseconds. */
  readonly until: number;
  readonly now: number;
}

export interface LeaseResult {
  readonly granted: number;
  /** The number of the lease to which the credits were added. */
  readonly lease: number;
  /**
   * The account's credits outside this process's lease, whether free or leased to other processes.
   */
  readonly outsideLease: number;
  /** Credits that other processes have leased and might return; 0 if they aren't needed. */
  readonly leasedElsewhere: number;
  /** The part of `leasedElsewhere` that is leased to processes that haven't answered the recall. */
  readonly unanswered: number;
  /** When the first lease of these processes expires, or null if there is none. */
  readonly unansweredUntil: number | null;
}

/** Credits that a process returns from this lease to the account. */
export interface CreditReturn {
  readonly processId: string;
  readonly owner: string;
  readonly lease: number;
  readonly credits: number;
}

/** The part of a lease that running requests hold. */
export interface LeaseHolds {
  readonly owner: string;
  readonly lease: number;
  readonly held: number;
}

/** The settlement of one request. */
export interface Settlement {
  readonly record: RequestRecord;
  /** Credits that the wallet couldn't pay: the operator's loss, not the tenant's debt. */
  readonly writtenOff: number;
  /** The account of the key's limit, or null, and the charge on it. */
  readonly keyAccount: string | null;
  readonly keyCharge: number;
  /**
   * The number of this charge in the journal of its process, by which a replay recognizes it. Free
   * requests have none, nor do journals of earlier versions.
   */
  readonly journalNumber?: number;
  /** Set if an answer with an `Idempotency-Key` couldn't be stored and is only in memory. */
  readonly claim?: IdempotencyClaim;
}

/** Everything a commit needs besides the settlements. */
interface BatchTerms {
  /**
   * The process whose leases pay the charges. When a journal is replayed, this is the dead process
   * that wrote it.
   */
  readonly processId: string;
  /** True if some settlements may have been committed before and must be looked up first. */
  readonly mayRepeat: boolean;
  /**
   * Throws `ClaimsInUse` instead of waiting if another transaction is writing a claim of the batch.
   * Never happens with SQLite, which runs one writer at a time.
   */
  readonly mayDefer?: boolean | undefined;
  /** True if the process that wrote the settlements is dead, so nobody has their answers. */
  readonly isReplay?: boolean | undefined;
  readonly now: number;
}

export interface Batch extends BatchTerms {
  readonly entries: readonly SettlementEntry[];
}

/** A batch with parsed settlements. */
export interface ParsedBatch extends BatchTerms {
  readonly settlements: readonly Settlement[];
}

/** A charge that a commit took from one account. */
export interface Booked {
  readonly account: string;
  readonly charge: number;
  /**
   * The part taken from the process's lease. The rest was free in the account. Null if an earlier
   * commit already took the charge from an unknown lease.
   */
  readonly fromLease: { readonly lease: number; readonly credits: number } | null;
}

/** The result of a commit with answers. */
export interface BookedAnswers {
  readonly booked: readonly Booked[];
  /** The requests that still had their claims and were committed. */
  readonly requestIds: ReadonlySet<string>;
}

/** The store of accounts, leases, and the ledger. Every method is one transaction. */
export interface LedgerStore {
  /** Moves credits from an account's free balance into a process's lease. */
  lease(request: LeaseRequest): Promise<LeaseResult>;
  /** Returns credits, possibly 0, and answers a recall. */
  returnCredits(creditReturn: CreditReturn): Promise<void>;
  /** Renews all leases of a process. Returns the accounts on which it still has one. */
  renew(processId: string, until: number): Promise<ReadonlySet<string>>;
  /** Records what running requests hold of these leases, for reads by other processes. */
  reportHolds(processId: string, holds: readonly LeaseHolds[]): Promise<void>;
  /**
   * Frees expired leases, or only those of `deadProcessId` if set. It is set while that process's
   * journal is replayed, because a clock jump may make all other leases look expired.
   */
  expire(now: number, deadProcessId?: string): Promise<void>;
  /**
   * Asks other processes to return free credits of this account. Returns the number of the recall.
   */
  recall(owner: string, processId: string): Promise<number>;
  /** Returns the accounts on which the process has a lease and a recall to answer. */
  pendingRecalls(processId: string): Promise<readonly string[]>;
  /**
   * Commits a batch: log rows, ledger entries, balances, leases, and daily sums. A charge with a
   * claim marks its idempotency key as used, and is free if the key was used before.
   */
  commit(batch: Batch): Promise<readonly Booked[]>;
  /**
   * Like `commit`, with the answer of each settlement. Skips both if another request has the claim.
   */
  commitWithAnswers(batch: Batch, answers: readonly IdempotentAnswer[]): Promise<BookedAnswers>;
}

/**
 * A serialized settlement, written to the journal and committed to the ledger. Until the commit,
 * only this is kept in memory for a request, because hundreds of settlements are pending at any
 * time.
 */
export interface SettlementEntry {
  readonly requestId: string;
  /** Epoch milliseconds. */
  readonly endedAt: number;
  /** The settlement as JSON. */
  readonly text: string;
  /** Undefined if nothing is charged. */
  readonly journalNumber: number | undefined;
}

export function toSettlementEntry(settlement: Settlement): SettlementEntry {
  const { record, journalNumber } = settlement;
  const { requestId, createdAt, durationMs } = record;
  const text = JSON.stringify(settlement);
  return { requestId, endedAt: createdAt + durationMs, text, journalNumber };
}

/** Serializes a batch for a worker thread. */
export function batchJson({ entries, processId, mayRepeat, isReplay, now }: Batch): string {
  const terms = JSON.stringify({ processId, mayRepeat, isReplay, now });
  return `${terms.slice(0, -1)},"settlements":[${entries.map(({ text }) => text).join(',')}]}`;
}

export function parseBatch({ entries, ...terms }: Batch): ParsedBatch {
  // Only toSettlementEntry() writes these texts.
  const settlements = entries.map(({ text }) => JSON.parse(text) as Settlement);
  return { ...terms, settlements };
}

export type AccountCharge = Pick<Booked, 'account' | 'charge'>;

/** Returns the charges of a settlement: on the wallet and on the key's limit, if it has one. */
export function chargesOf({ record, keyAccount, keyCharge }: Settlement): readonly AccountCharge[] {
  const wallet = {
    account: walletName(record.tenantId),
    charge: totalCharge(record.charges),
  };
  return keyAccount === null ? [wallet] : [wallet, { account: keyAccount, charge: keyCharge }];
}

/**
 * Thrown if a batch can't be committed because another transaction is writing some of its claims.
 * `requests` maps the request IDs of those claims to tenant IDs. The other entries of the batch can
 * be committed.
 */
export class ClaimsInUse extends Error {
  readonly requests: ReadonlyMap<string, string>;

  constructor(requests: ReadonlyMap<string, string>) {
    super(`${requests.size} answers with an Idempotency-Key are being written.`);
    this.requests = requests;
  }
}
