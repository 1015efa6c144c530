import type { Caller } from '../../core/caller.ts';
import { withTimeout } from '../../core/deadlines.ts';
import { GatewayError } from '../../core/errors.ts';
import type { PeriodicTask } from '../../core/periodic-task.ts';
import { pluralize } from '../../core/text.ts';
import type { AccountCharge, Booked, LedgerStore } from '../ledger.ts';
import { keyOwner, type Owner, walletName, walletOf } from '../ledger.ts';
import { creditStoreUnavailable, type Hold, OpenHold } from './hold.ts';
import { type CreditNeed, LeaseBalance, type TakeResult } from './lease-balance.ts';
import { LeaseTerm } from './lease-term.ts';

const renewMs = 10_000;
/** How often a process looks whether others starve on an account it has credits of. */
const recallPollMs = 250;
/** How long a starving process waits for others to answer: dead ones never will. */
const recallMs = 2_000;
const recallPauseMs = 200;
const recallTries = recallMs / recallPauseMs;
/** How long the store's answer about a balance is relied on: others spend from it, too. */
const balanceFreshMs = 10_000;
/** How long a request waits for a fresh balance; then it goes by the last one known. */
const balanceWaitMs = 500;
/** Credits that nobody has used for this long go back to the account. */
const idleMs = 5_000;

/** What is set aside for a request at first, and the least without which it cannot begin. */
export interface HoldAmounts {
  readonly requested: number;
  readonly minimum: number;
}

interface LeaseTotals {
  readonly leases: number;
  readonly leasedCredits: number;
  readonly heldCredits: number;
  readonly owedCredits: number;
}

interface LeasedAccount {
  readonly balance: LeaseBalance;
  usedAt: number;
  /** What the account had outside our lease when the store was last asked. */
  outsideLease: number;
  balanceReadAt: number;
  /** Set while the store is being asked. */
  balanceRead: Promise<unknown> | undefined;
  /** Credits on their way back to the store, by trip: where a trip fails, they are still ours. */
  readonly returns: Map<Promise<void>, number>;
}

export class Wallets {
  readonly #store: LedgerStore;
  readonly #processId: string;
  readonly #now: () => number;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #accounts = new Map<string, LeasedAccount>();
  readonly #term: LeaseTerm;
  #lastLeaseRequest = 0;

  constructor(
    store: LedgerStore,
    processId: string,
    now: () => number = Date.now,
    pause: (ms: number) => Promise<void> = Bun.sleep,
  ) {
    this.#store = store;
    this.#processId = processId;
    this.#now = now;
    this.#pause = pause;
    this.#term = new LeaseTerm((until) => this.#renewLeases(until), now);
  }

  periodicTasks(): PeriodicTask[] {
    return [
      { everyMs: renewMs, run: () => this.renew() },
      { everyMs: recallPollMs, run: () => this.answerRecalls() },
    ];
  }

  /**
   * Sets credits aside, usually without leaving memory. Throws 402, or 503 without the store. A
   * key's limit counts a request in the period in which it arrived, as the log does, even if the
   * next period has begun since.
   */
  hold(caller: Caller, amounts: HoldAmounts, arrivedAt = this.#now()): Hold | Promise<Hold> {
    const now = this.#now();
    if (this.#term.isStaleAt(now)) return this.#renewAndHold(caller, amounts, arrivedAt);
    const wallet = walletOf(caller);
    const key = keyOwner(caller, arrivedAt);
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
    if (result.kind !== 'taken') throw refusal(result, amounts, 'This account');
    return new OpenHold(this.#source, wallet, undefined, result.credits);
  }

  /** The key's account first: a key over its limit takes nothing from the wallet. */
  async #holdBoth(wallet: Owner, key: Owner, amounts: HoldAmounts): Promise<Hold> {
    const keyResult = await this.#balance(key, this.#now()).take(
      amounts.requested,
      amounts.minimum,
    );
    if (keyResult.kind !== 'taken') throw refusal(keyResult, amounts, 'This API key');
    const result = await this.#balance(wallet, this.#now()).take(
      keyResult.credits,
      amounts.minimum,
    );
    const spare = keyResult.credits - (result.kind === 'taken' ? result.credits : 0);
    // Wallet and key hold the same amount: the smaller of what each could give.
    this.#known(key, this.#now()).balance.release(spare);
    if (result.kind !== 'taken') throw refusal(result, amounts, 'This account');
    return new OpenHold(this.#source, wallet, key, result.credits);
  }

  readonly #source = {
    balance: (owner: Owner): LeaseBalance => this.#known(owner, this.#now()).balance,
    mayExtend: () => !this.#term.isStaleAt(this.#now()) || this.#term.renewStale(),
    available: (owner: Owner, needed: number) => this.#available(owner, needed),
  };

  /**
   * What an account could still give, as far as is known: what is free here and all that is
   * outside our lease, since others give back what they do not use. Asks the store where that is
   * too little.
   */
  #available(owner: Owner, needed: number): number | Promise<number> {
    const now = this.#now();
    const known = this.#known(owner, now);
    const available = () => Math.max(0, known.balance.free) + known.outsideLease;
    const isFresh = Math.abs(now - known.balanceReadAt) < balanceFreshMs;
    if (this.#term.isStoreDown || (isFresh && available() >= needed)) return available();
    return this.#readBalance(known).then(available);
  }

  /**
   * Asks by a lease of nothing, whose answer tells the balance. Not through the purse's queue: a
   * request whose credits are at hand must not wait for it, least of all for a store that hangs.
   */
  #readBalance(known: LeasedAccount): Promise<unknown> {
    if (known.balanceRead !== undefined) return known.balanceRead;
    const answered = this.#lease(known.balance, balanceOnly, false)
      .catch(() => undefined)
      .finally(() => {
        known.balanceRead = undefined;
      });
    known.balanceRead = Promise.race([answered, Bun.sleep(balanceWaitMs)]);
    return known.balanceRead;
  }

  /**
   * Credits that this process has on lease and set aside for nobody, here or on their way back:
   * people see them as available.
   */
  spare(tenantId: string): number {
    const known = this.#accounts.get(walletName(tenantId));
    return known ? spareOf(known) : 0;
  }

  /** The same of all wallets together. */
  spareOfAll(): number {
    let spare = 0;
    for (const known of this.#accounts.values()) {
      if (known.balance.owner.allowance === null) spare += spareOf(known);
    }
    return spare;
  }

  /** What this process has on lease of all accounts together. */
  totals(): LeaseTotals {
    const balances = [...this.#accounts.values()].map(({ balance }) => balance);
    const sum = (pick: (balance: LeaseBalance) => number) =>
      balances.reduce((total, balance) => total + pick(balance), 0);
    return {
      leases: balances.filter(({ leased }) => leased > 0).length,
      leasedCredits: sum(({ leased }) => leased),
      heldCredits: sum(({ held }) => held),
      owedCredits: sum(({ owed }) => owed),
    };
  }

  /** The drain has taken these charges out of their accounts. */
  booked(charges: readonly Booked[]): void {
    for (const { account, charge, fromLease } of charges) {
      this.#accounts.get(account)?.balance.booked(charge, fromLease);
    }
    void this.#term.storeResponded();
  }

  /** These charges were given up before the drain had them. */
  cancelCharges(charges: readonly AccountCharge[]): void {
    for (const { account, charge } of charges)
      this.#accounts.get(account)?.balance.cancelCharge(charge);
  }

  /** Keeps the leases alive; and, as the store answers, puts in order what it left in doubt. */
  async renew(): Promise<void> {
    const mayExpire = await this.#term.renew();
    if (mayExpire) await this.#store.expire(this.#now());
    for (const { balance } of [...this.#accounts.values()]) await balance.resolveDoubt();
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
      // A lease that began while we asked may be missing in the answer.
      if (balance && lease > 0 && balance.lease === lease && !alive.has(name)) balance.markLost();
    }
  }

  /** Gives back what is free on accounts where another process found nothing left. */
  async answerRecalls(): Promise<void> {
    if (this.#accounts.size === 0) return;
    for (const name of await this.#store.pendingRecalls(this.#processId)) {
      const known = this.#accounts.get(name);
      await known?.balance.resolveDoubt();
      // Even one with nothing to give says so: the process that starves waits for every answer.
      if (known) await this.#returnCredits(known, true);
    }
  }

  async returnIdle(): Promise<void> {
    for (const [name, known] of [...this.#accounts]) {
      const { balance } = known;
      if (!balance.idle || Math.abs(this.#now() - known.usedAt) < idleMs) continue;
      await this.#returnCredits(known);
      const isEmpty = balance.leased === 0 && known.returns.size === 0 && !balance.inDoubt;
      if (balance.idle && isEmpty) this.#accounts.delete(name);
    }
  }

  /** Gives everything back. Called when the last request has ended and the drain is empty. */
  async returnAll(): Promise<void> {
    for (const known of this.#accounts.values()) await this.#returnCredits(known);
  }

  /**
   * Where the store does not answer, nobody knows whether it took the credits, and they cannot be
   * used until it answers again. So chores give back only when the store has just answered.
   */
  async #returnCredits(known: LeasedAccount, evenIfZero = false): Promise<void> {
    const { balance } = known;
    const { lease, credits } = balance.returnFree();
    if (credits === 0 && !evenIfZero) return;
    const owner = balance.owner.name;
    const transfer = this.#store.returnCredits({
      processId: this.#processId,
      owner,
      lease,
      credits,
    });
    known.returns.set(transfer, credits);
    try {
      await transfer;
    } catch (error) {
      balance.markInDoubt(lease);
      throw error;
    } finally {
      known.returns.delete(transfer);
    }
  }

  /** The purse to take from, under the owner's limit as it is now. */
  #balance(owner: Owner, now: number): LeaseBalance {
    const known = this.#known(owner, now);
    const { balance } = known;
    const isChanged = balance.owner.allowance?.credits !== owner.allowance?.credits;
    balance.owner = owner;
    // A lowered limit can only take back what is not on lease.
    if (isChanged) void this.#returnCredits(known).catch(() => undefined);
    return balance;
  }

  /** A purse is made when it is first asked for, and kept until it is idle and empty. */
  #known(owner: Owner, now: number): LeasedAccount {
    let known = this.#accounts.get(owner.name);
    if (!known) {
      const balance = new LeaseBalance(owner, (target, need) => this.#refill(target, need));
      known = {
        balance,
        usedAt: 0,
        outsideLease: 0,
        balanceReadAt: 0,
        balanceRead: undefined,
        returns: new Map(),
      };
      this.#accounts.set(owner.name, known);
    }
    known.usedAt = now;
    return known;
  }

  /** Asks the store; when others have the rest on lease, lets them know and asks again. */
  async #refill(balance: LeaseBalance, need: CreditNeed): Promise<void> {
    // A bound on time besides the tries: each trip may take long.
    let until = this.#now() + recallMs;
    for (let tries = 0; ; tries++) {
      const answer = await this.#leaseMissing(balance, need);
      if (need.missing() <= 0 || answer.leasedElsewhere === 0) return;
      // All have answered, so there is no more to come.
      if (tries > 0 && answer.unanswered === 0) return;
      if (tries === recallTries || (tries > 0 && this.#now() >= until)) return;
      if (tries === 0) await this.#store.recall(balance.owner.name, this.#processId);
      const pausedAt = this.#now();
      await this.#pause(recallPauseMs);
      // A machine that stood still has kept the others from answering, too.
      until += Math.max(0, this.#now() - pausedAt - recallPauseMs);
    }
  }

  /**
   * Credits on their way back are counted neither here nor in the account, so they are waited for.
   * Where all that was asked for came and is not enough, more went back meanwhile, or the lease
   * ended: then it asks again.
   */
  async #leaseMissing(balance: LeaseBalance, need: CreditNeed) {
    const { returns } = this.#known(balance.owner, this.#now());
    for (let tries = 0; ; tries++) {
      if (returns.size > 0) await withTimeout(Promise.allSettled(returns.keys()), recallMs);
      const answer = await this.#lease(balance, need, balance.inDoubt);
      if (answer.isShort || need.missing() <= 0 || tries === recallTries) return answer;
    }
  }

  async #lease(
    balance: LeaseBalance,
    { creditsToRequest, oneHold }: CreditNeed,
    startNew: boolean,
  ) {
    const credits = Math.max(0, creditsToRequest());
    if (startNew) balance.startNewLease();
    try {
      const answer = await this.#store.lease({
        owner: balance.owner,
        processId: this.#processId,
        number: ++this.#lastLeaseRequest,
        startNew,
        credits,
        oneHold,
        until: this.#term.newLeaseEnd,
        now: this.#now(),
      });
      balance.granted(answer, credits);
      const known = this.#known(balance.owner, this.#now());
      known.outsideLease = answer.outsideLease;
      known.balanceReadAt = this.#now();
      return { ...answer, isShort: answer.granted < credits };
    } catch (error) {
      balance.markInDoubt(balance.lease);
      throw error;
    }
  }
}

function spareOf({ balance, returns }: LeasedAccount): number {
  return returns.values().reduce((sum, credits) => sum + credits, Math.max(0, balance.free));
}

/** The need of a question that is only about the balance. */
const balanceOnly: CreditNeed = { creditsToRequest: () => 0, missing: () => 0, oneHold: 0 };

function refusal(
  result: Exclude<TakeResult, { kind: 'taken' }>,
  amounts: HoldAmounts,
  subject: string,
): GatewayError {
  if (result.kind === 'unavailable') return creditStoreUnavailable();
  const left = pluralize(result.available, 'credit');
  const message = `${subject} has ${left} left and this request needs at least ${amounts.minimum}.`;
  return new GatewayError('insufficient_credits', message);
}
