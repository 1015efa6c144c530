import type { Caller } from '../../core/caller.ts';
import { withTimeout } from '../../core/deadlines.ts';
import type { PeriodicTask } from '../../core/periodic-task.ts';
import type { AccountCharge, Booked, LeaseResult, LedgerStore } from '../ledger.ts';
import { keyLimitAccount, type Owner, walletName, walletOf } from '../ledger.ts';
import { creditStoreUnavailable, type Hold, insufficientCredits, OpenHold } from './hold.ts';
import { HoldReports } from './hold-reports.ts';
import {
  type CreditNeed,
  LeaseBalance,
  type SilentCredits,
  type TakeResult,
} from './lease-balance.ts';
import { LeaseTerm } from './lease-term.ts';

const renewMs = 10_000;
/** How old the holds of this process may be in other processes' reads. */
const reportHoldsMs = 1_000;
/** How often a process checks whether others need credits that it has leased. */
const recallPollMs = 250;
/** How long a process waits for others to return credits. Dead processes never do. */
const recallMs = 2_000;
const recallPauseMs = 200;
const recallTries = recallMs / recallPauseMs;
/** How long a balance read from the store counts as fresh. Other processes spend from it too. */
const balanceFreshMs = 10_000;
/** How long a request waits for a fresh balance before it uses the last known one. */
const balanceWaitMs = 500;
/** Credits unused for this long are returned to the account. */
const idleMs = 5_000;

/** The first hold of a request, and the smallest hold with which the request may start. */
export interface HoldAmounts {
  readonly requested: number;
  readonly minimum: number;
}

interface LeaseTotals {
  readonly leases: number;
  readonly leasedCredits: number;
  readonly heldCredits: number;
  readonly unbookedCredits: number;
}

interface LeasedAccount {
  readonly balance: LeaseBalance;
  usedAt: number;
  /** The account's credits outside our lease, as the store last reported them. */
  outsideLease: number;
  balanceReadAt: number;
  /** Set while the balance is read from the store. */
  balanceRead: Promise<unknown> | undefined;
  /** Calls that return credits to the store. */
  readonly returns: Set<Promise<void>>;
}

/**
 * Holds credits on accounts, in memory. A process leases each account's credits from the store in
 * slices. So it can't overdraw the account, and most holds don't need the store.
 */
export class Wallets {
  readonly #store: LedgerStore;
  readonly #processId: string;
  readonly #now: () => number;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #accounts = new Map<string, LeasedAccount>();
  readonly #term: LeaseTerm;
  readonly #holdReports: HoldReports;
  #lastLeaseRequest = 0;

  constructor(
    store: LedgerStore,
    processId: string,
    now: () => number = Date.now,
    pause: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#store = store;
    this.#processId = processId;
    const balances = () => [...this.#accounts.values()].map(({ balance }) => balance);
    this.#holdReports = new HoldReports(store, processId, balances);
    this.#now = now;
    this.#pause = pause;
    this.#term = new LeaseTerm((until) => this.#renewLeases(until), now);
  }

  periodicTasks(): PeriodicTask[] {
    return [
      { everyMs: renewMs, run: () => this.renew() },
      { everyMs: recallPollMs, run: () => this.answerRecalls() },
      { everyMs: reportHoldsMs, run: () => this.reportHolds() },
    ];
  }

  /**
   * Holds credits. Returns a promise only if it needs the store. A key's limit counts a request in
   * the period in which it arrived, as the log does. Throws 402, 503.
   */
  hold(caller: Caller, amounts: HoldAmounts, arrivedAt = this.#now()): Hold | Promise<Hold> {
    const now = this.#now();
    if (this.#term.isStaleAt(now)) return this.#renewAndHold(caller, amounts, arrivedAt);
    const wallet = walletOf(caller);
    const key = keyLimitAccount(caller, arrivedAt);
    if (key) return this.#holdBoth(wallet, key, amounts);
    const result = this.#balance(wallet, now).take(amounts.requested, amounts.minimum);
    if (result instanceof Promise)
      return result.then((later) => this.#toHold(wallet, later, amounts));
    return this.#toHold(wallet, result, amounts);
  }

  async #renewAndHold(caller: Caller, amounts: HoldAmounts, arrivedAt: number): Promise<Hold> {
    if (!(await this.#term.renewStale())) throw creditStoreUnavailable();
    return this.hold(caller, amounts, arrivedAt);
  }

  #toHold(wallet: Owner, result: TakeResult, amounts: HoldAmounts): Hold {
    if (result.kind !== 'taken') throw insufficientCredits(result, amounts.minimum, 'This account');
    return new OpenHold(this.#source, wallet, undefined, result.credits);
  }

  /** Takes from the key's account first, so that a key over its limit doesn't use the wallet. */
  async #holdBoth(wallet: Owner, key: Owner, amounts: HoldAmounts): Promise<Hold> {
    const keyResult = await this.#balance(key, this.#now()).take(
      amounts.requested,
      amounts.minimum,
    );
    if (keyResult.kind !== 'taken')
      throw insufficientCredits(keyResult, amounts.minimum, 'This key');
    const result = await this.#balance(wallet, this.#now()).take(
      keyResult.credits,
      amounts.minimum,
    );
    const spare = keyResult.credits - (result.kind === 'taken' ? result.credits : 0);
    // The wallet and the key hold the same amount: the smaller of what each could give.
    this.#account(key, this.#now()).balance.release(spare);
    if (result.kind !== 'taken') throw insufficientCredits(result, amounts.minimum, 'This account');
    return new OpenHold(this.#source, wallet, key, result.credits);
  }

  readonly #source = {
    balance: (owner: Owner): LeaseBalance => this.#account(owner, this.#now()).balance,
    mayExtend: () => !this.#term.isStaleAt(this.#now()) || this.#term.renewStale(),
    available: (owner: Owner, needed: number) => this.#available(owner, needed),
  };

  /**
   * Returns the credits that an account can still give: what is free here, plus everything outside
   * our lease, because other processes return what they don't use. Reads the balance from the store
   * if the known one is too small or not fresh.
   */
  #available(owner: Owner, needed: number): number | Promise<number> {
    const now = this.#now();
    const account = this.#account(owner, now);
    const available = () => Math.max(0, account.balance.free) + account.outsideLease;
    const isFresh = Math.abs(now - account.balanceReadAt) < balanceFreshMs;
    if (this.#term.isStoreDown || (isFresh && available() >= needed)) return available();
    return this.#readBalance(account).then(available);
  }

  /**
   * Reads the balance by leasing 0 credits. Bypasses the lease balance's queue, so that requests
   * with enough leased credits don't wait for a slow store.
   */
  #readBalance(account: LeasedAccount): Promise<unknown> {
    if (account.balanceRead !== undefined) return account.balanceRead;
    const leased = this.#lease(account.balance, balanceOnly, false)
      .catch(() => undefined)
      .finally(() => {
        account.balanceRead = undefined;
      });
    account.balanceRead = Promise.race([leased, Bun.sleep(balanceWaitMs)]);
    return account.balanceRead;
  }

  /** Returns what running requests of this process hold: of one wallet, or of all wallets. */
  heldCredits(tenantId?: string): number {
    if (tenantId !== undefined) {
      return this.#accounts.get(walletName(tenantId))?.balance.held ?? 0;
    }
    return this.#holdReports.total;
  }

  async reportHolds(): Promise<void> {
    if (!this.#term.isStoreDown) await this.#holdReports.send();
  }

  /** Returns sums over all leases of this process. */
  totals(): LeaseTotals {
    const balances = [...this.#accounts.values()].map(({ balance }) => balance);
    const sum = (pick: (balance: LeaseBalance) => number) =>
      balances.reduce((total, balance) => total + pick(balance), 0);
    return {
      leases: balances.filter(({ leased }) => leased > 0).length,
      leasedCredits: sum(({ leased }) => leased),
      heldCredits: sum(({ held }) => held),
      unbookedCredits: sum(({ owed }) => owed),
    };
  }

  /** Records that a commit took these charges out of their accounts. */
  booked(charges: readonly Booked[]): void {
    for (const { account, charge, fromLease } of charges) {
      this.#accounts.get(account)?.balance.booked(charge, fromLease);
    }
    void this.#term.storeResponded();
  }

  /** Records that these charges won't be committed. */
  cancelCharges(charges: readonly AccountCharge[]): void {
    for (const { account, charge } of charges)
      this.#accounts.get(account)?.balance.cancelCharge(charge);
  }

  /**
   * Renews leases, expires those of dead processes, replaces leases in doubt, and returns idle
   * credits.
   */
  async renew(): Promise<void> {
    const mayExpire = await this.#term.renew();
    if (mayExpire) await this.#store.expire(this.#now());
    for (const { balance } of [...this.#accounts.values()]) await balance.replaceIfInDoubt();
    await this.returnIdle();
  }

  async #renewLeases(until: number): Promise<void> {
    const before = [...this.#accounts].map(([name, { balance }]) => ({
      name,
      lease: balance.lease,
    }));
    const alive = await this.#store.renew(this.#processId, until);
    for (const { name, lease } of before) {
      const balance = this.#accounts.get(name)?.balance;
      // A lease that started during the call may be missing from its result.
      if (balance && lease > 0 && balance.lease === lease && !alive.has(name)) balance.markLost();
    }
  }

  /** Returns free credits of accounts on which another process found too few. */
  async answerRecalls(): Promise<void> {
    if (this.#accounts.size === 0) return;
    for (const name of await this.#store.pendingRecalls(this.#processId)) {
      const account = this.#accounts.get(name);
      await account?.balance.replaceIfInDoubt();
      // Answer even with 0 credits, because the other process waits for every answer.
      if (account) await this.#returnCredits(account, true);
    }
  }

  async returnIdle(): Promise<void> {
    for (const [name, account] of [...this.#accounts]) {
      const { balance } = account;
      if (!balance.idle || Math.abs(this.#now() - account.usedAt) < idleMs) continue;
      await this.#returnCredits(account);
      const isEmpty = balance.leased === 0 && account.returns.size === 0 && !balance.inDoubt;
      const isReported = !this.#holdReports.isOutdated(balance);
      if (balance.idle && isEmpty && isReported) this.#accounts.delete(name);
    }
  }

  /** Returns all credits. Called after the last request has ended and was committed. */
  async returnAll(): Promise<void> {
    await this.reportHolds();
    for (const account of this.#accounts.values()) await this.#returnCredits(account);
  }

  /**
   * Returns free credits to the store. If the call fails, the lease is in doubt and its credits
   * can't be used until it is replaced. So periodic tasks return credits only right after a
   * successful call.
   */
  async #returnCredits(account: LeasedAccount, evenIfZero = false): Promise<void> {
    const { balance } = account;
    const { lease, credits } = balance.returnFree();
    if (credits === 0 && !evenIfZero) return;
    const owner = balance.owner.name;
    const transfer = this.#store.returnCredits({
      processId: this.#processId,
      owner,
      lease,
      credits,
    });
    account.returns.add(transfer);
    try {
      await transfer;
    } catch (error) {
      balance.markInDoubt(lease);
      throw error;
    } finally {
      account.returns.delete(transfer);
    }
  }

  /** Returns the lease balance to take from, with the owner's current limit. */
  #balance(owner: Owner, now: number): LeaseBalance {
    const account = this.#account(owner, now);
    const { balance } = account;
    const isChanged = balance.owner.allowance?.credits !== owner.allowance?.credits;
    balance.owner = owner;
    // A lowered limit applies only to credits that aren't leased.
    if (isChanged) void this.#returnCredits(account).catch(() => undefined);
    return balance;
  }

  /** Returns an account's state, created on first use and dropped once it is idle and empty. */
  #account(owner: Owner, now: number): LeasedAccount {
    let account = this.#accounts.get(owner.name);
    if (!account) {
      const balance = new LeaseBalance(owner, (target, need) => this.#refill(target, need));
      account = {
        balance,
        usedAt: 0,
        outsideLease: 0,
        balanceReadAt: 0,
        balanceRead: undefined,
        returns: new Set(),
      };
      this.#accounts.set(owner.name, account);
    }
    account.usedAt = now;
    return account;
  }

  /**
   * Leases credits. If other processes have leased the missing ones, recalls them and tries again.
   */
  async #refill(balance: LeaseBalance, need: CreditNeed): Promise<void> {
    // Limit both the time and the tries, because each call may take long.
    let until = this.#now() + recallMs;
    let recall: number | undefined;
    for (let tries = 0; ; tries++) {
      const result = await this.#leaseMissing(balance, need, recall);
      if (need.missing() <= 0 || result.leasedElsewhere === 0) return;
      // All processes have answered, so no more credits will come.
      if (tries > 0 && result.unanswered === 0) return;
      if (tries === recallTries || (tries > 0 && this.#now() >= until)) return;
      recall ??= await this.#store.recall(balance.owner.name, this.#processId);
      const pausedAt = this.#now();
      await this.#pause(recallPauseMs);
      // If the machine was suspended, the other processes couldn't answer either.
      until += Math.max(0, this.#now() - pausedAt - recallPauseMs);
    }
  }

  /**
   * Leases the missing credits. Waits for credits that are being returned, because neither side
   * counts them. Tries again if the granted credits don't suffice because the lease ended or more
   * credits were returned in the meantime.
   */
  async #leaseMissing(balance: LeaseBalance, need: CreditNeed, recall: number | undefined) {
    const { returns } = this.#account(balance.owner, this.#now());
    for (let tries = 0; ; tries++) {
      if (returns.size > 0) await withTimeout(Promise.allSettled(returns), recallMs);
      const result = await this.#lease(balance, need, balance.inDoubt, recall);
      if (result.isShort || need.missing() <= 0 || tries === recallTries) return result;
    }
  }

  async #lease(
    balance: LeaseBalance,
    { creditsToRequest, oneHold }: CreditNeed,
    startNew: boolean,
    recall?: number,
  ) {
    const credits = Math.max(0, creditsToRequest());
    if (startNew) balance.startNewLease();
    try {
      const result = await this.#store.lease({
        owner: balance.owner,
        processId: this.#processId,
        number: ++this.#lastLeaseRequest,
        startNew,
        credits,
        oneHold,
        recall,
        until: this.#term.newLeaseEnd,
        now: this.#now(),
      });
      balance.granted(result, credits, this.#silentIn(result));
      const account = this.#account(balance.owner, this.#now());
      account.outsideLease = result.outsideLease;
      account.balanceReadAt = this.#now();
      return { ...result, isShort: result.granted < credits };
    } catch (error) {
      balance.markInDoubt(balance.lease);
      throw error;
    }
  }

  #silentIn({ unanswered: credits, unansweredUntil }: LeaseResult): SilentCredits | undefined {
    if (unansweredUntil === null) return undefined;
    return { credits, returnInSeconds: this.#term.secondsUntil(unansweredUntil) };
  }
}

/** A need of 0 credits, to read only the balance. */
const balanceOnly: CreditNeed = { creditsToRequest: () => 0, missing: () => 0, oneHold: 0 };
