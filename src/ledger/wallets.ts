import type { Caller } from '../core/caller.ts';
import type { Chore } from '../core/chore.ts';
import { counted } from '../core/counted.ts';
import { GatewayError } from '../core/errors.ts';
import { within } from '../core/within.ts';
import type { AccountCharge } from './charges.ts';
import { creditsAway, type Hold, OpenHold } from './hold.ts';
import { LeaseTerm } from './lease-term.ts';
import type { Booked, LedgerStore } from './ledger-store.ts';
import { keyOwner, type Owner, walletName, walletOf } from './owner.ts';
import { type Need, Purse, type Taken } from './purse.ts';

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
export interface HoldOrder {
  readonly wanted: number;
  readonly least: number;
}

interface LeaseTotals {
  readonly leases: number;
  readonly leasedCredits: number;
  readonly heldCredits: number;
  readonly owedCredits: number;
}

interface KnownPurse {
  readonly purse: Purse;
  usedAt: number;
  /** What the account had outside our lease when the store was last asked. */
  outsideLease: number;
  askedAt: number;
  /** Set while the store is being asked. */
  asking: Promise<unknown> | undefined;
  /** Credits on their way back to the store, by trip: where a trip fails, they are still ours. */
  readonly returns: Map<Promise<void>, number>;
}

export class Wallets {
  readonly #store: LedgerStore;
  readonly #processId: string;
  readonly #now: () => number;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #purses = new Map<string, KnownPurse>();
  readonly #term: LeaseTerm;
  #lastOrder = 0;

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

  chores(): Chore[] {
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
  hold(caller: Caller, order: HoldOrder, arrivedAt = this.#now()): Hold | Promise<Hold> {
    const now = this.#now();
    if (this.#term.isStaleAt(now)) return this.#renewAndHold(caller, order, arrivedAt);
    const wallet = walletOf(caller);
    const key = keyOwner(caller, arrivedAt);
    if (key) return this.#holdBoth(wallet, key, order);
    const taken = this.#purse(wallet, now).take(order.wanted, order.least);
    if (taken instanceof Promise)
      return taken.then((later) => this.#holdTaken(wallet, later, order));
    return this.#holdTaken(wallet, taken, order);
  }

  async #renewAndHold(caller: Caller, order: HoldOrder, arrivedAt: number): Promise<Hold> {
    if (!(await this.#term.renewStale())) throw creditsAway();
    return this.hold(caller, order, arrivedAt);
  }

  #holdTaken(wallet: Owner, taken: Taken, order: HoldOrder): Hold {
    if (taken.kind !== 'taken') throw refusal(taken, order, 'This account');
    return new OpenHold(this.#source, wallet, undefined, taken.credits);
  }

  /** The key's account first: a key over its limit takes nothing from the wallet. */
  async #holdBoth(wallet: Owner, key: Owner, order: HoldOrder): Promise<Hold> {
    const limited = await this.#purse(key, this.#now()).take(order.wanted, order.least);
    if (limited.kind !== 'taken') throw refusal(limited, order, 'This API key');
    const taken = await this.#purse(wallet, this.#now()).take(limited.credits, order.least);
    const spare = limited.credits - (taken.kind === 'taken' ? taken.credits : 0);
    // Wallet and key hold the same amount: the smaller of what each could give.
    this.#known(key, this.#now()).purse.release(spare);
    if (taken.kind !== 'taken') throw refusal(taken, order, 'This account');
    return new OpenHold(this.#source, wallet, key, taken.credits);
  }

  readonly #source = {
    purse: (owner: Owner): Purse => this.#known(owner, this.#now()).purse,
    mayExtend: () => !this.#term.isStaleAt(this.#now()) || this.#term.renewStale(),
    available: (owner: Owner, enough: number) => this.#available(owner, enough),
  };

  /**
   * What an account could still give, as far as is known: what is free here and all that is
   * outside our lease, since others give back what they do not use. Asks the store where that is
   * too little.
   */
  #available(owner: Owner, enough: number): number | Promise<number> {
    const now = this.#now();
    const known = this.#known(owner, now);
    const available = () => Math.max(0, known.purse.free) + known.outsideLease;
    const isFresh = Math.abs(now - known.askedAt) < balanceFreshMs;
    if (this.#term.isAway || (isFresh && available() >= enough)) return available();
    return this.#askBalance(known).then(available);
  }

  /**
   * Asks by a lease of nothing, whose answer tells the balance. Not through the purse's queue: a
   * request whose credits are at hand must not wait for it, least of all for a store that hangs.
   */
  #askBalance(known: KnownPurse): Promise<unknown> {
    if (known.asking !== undefined) return known.asking;
    const asked = this.#lease(known.purse, nothing, false)
      .catch(() => undefined)
      .finally(() => {
        known.asking = undefined;
      });
    known.asking = Promise.race([asked, Bun.sleep(balanceWaitMs)]);
    return known.asking;
  }

  /**
   * Credits that this process has on lease and set aside for nobody, here or on their way back:
   * people see them as available.
   */
  spare(tenantId: string): number {
    const known = this.#purses.get(walletName(tenantId));
    return known ? spareOf(known) : 0;
  }

  /** The same of all wallets together. */
  spareOfAll(): number {
    let spare = 0;
    for (const known of this.#purses.values()) {
      if (known.purse.owner.allowance === null) spare += spareOf(known);
    }
    return spare;
  }

  /** What this process has on lease of all accounts together. */
  totals(): LeaseTotals {
    const purses = [...this.#purses.values()].map(({ purse }) => purse);
    const sum = (pick: (purse: Purse) => number) =>
      purses.reduce((total, purse) => total + pick(purse), 0);
    return {
      leases: purses.filter(({ leased }) => leased > 0).length,
      leasedCredits: sum(({ leased }) => leased),
      heldCredits: sum(({ held }) => held),
      owedCredits: sum(({ owed }) => owed),
    };
  }

  /** The drain has taken these charges out of their accounts. */
  booked(charges: readonly Booked[]): void {
    for (const { account, charge, fromLease } of charges) {
      this.#purses.get(account)?.purse.booked(charge, fromLease);
    }
    void this.#term.heardOfStore();
  }

  /** These charges were given up before the drain had them. */
  forgive(charges: readonly AccountCharge[]): void {
    for (const { account, charge } of charges) this.#purses.get(account)?.purse.forgive(charge);
  }

  /** Keeps the leases alive; and, as the store answers, puts in order what it left in doubt. */
  async renew(): Promise<void> {
    const mayExpire = await this.#term.renew();
    if (mayExpire) await this.#store.expire(this.#now());
    for (const { purse } of [...this.#purses.values()]) await purse.endDoubt();
    await this.returnIdle();
  }

  async #renewLeases(until: number): Promise<void> {
    const before = [...this.#purses].map(([name, { purse }]) => ({ name, lease: purse.lease }));
    const alive = await this.#store.renew(this.#processId, until);
    for (const { name, lease } of before) {
      const purse = this.#purses.get(name)?.purse;
      // A lease that began while we asked may be missing in the answer.
      if (purse && lease > 0 && purse.lease === lease && !alive.has(name)) purse.lose();
    }
  }

  /** Gives back what is free on accounts where another process found nothing left. */
  async answerRecalls(): Promise<void> {
    if (this.#purses.size === 0) return;
    for (const name of await this.#store.recalled(this.#processId)) {
      const known = this.#purses.get(name);
      await known?.purse.endDoubt();
      // Even one with nothing to give says so: the process that starves waits for every answer.
      if (known) await this.#giveBack(known, true);
    }
  }

  async returnIdle(): Promise<void> {
    for (const [name, known] of [...this.#purses]) {
      const { purse } = known;
      if (!purse.idle || Math.abs(this.#now() - known.usedAt) < idleMs) continue;
      await this.#giveBack(known);
      const isEmpty = purse.leased === 0 && known.returns.size === 0 && !purse.inDoubt;
      if (purse.idle && isEmpty) this.#purses.delete(name);
    }
  }

  /** Gives everything back. Called when the last request has ended and the drain is empty. */
  async stop(): Promise<void> {
    for (const known of this.#purses.values()) await this.#giveBack(known);
  }

  /**
   * Where the store does not answer, nobody knows whether it took the credits, and they cannot be
   * used until it answers again. So chores give back only when the store has just answered.
   */
  async #giveBack(known: KnownPurse, evenNothing = false): Promise<void> {
    const { purse } = known;
    const { lease, credits } = purse.surrender();
    if (credits === 0 && !evenNothing) return;
    const owner = purse.owner.name;
    const trip = this.#store.giveBack({ processId: this.#processId, owner, lease, credits });
    known.returns.set(trip, credits);
    try {
      await trip;
    } catch (thrown) {
      purse.doubt(lease);
      throw thrown;
    } finally {
      known.returns.delete(trip);
    }
  }

  /** The purse to take from, under the owner's limit as it is now. */
  #purse(owner: Owner, now: number): Purse {
    const known = this.#known(owner, now);
    const { purse } = known;
    const isChanged = purse.owner.allowance?.credits !== owner.allowance?.credits;
    purse.owner = owner;
    // A lowered limit can only take back what is not on lease.
    if (isChanged) void this.#giveBack(known).catch(() => undefined);
    return purse;
  }

  /** A purse is made when it is first asked for, and kept until it is idle and empty. */
  #known(owner: Owner, now: number): KnownPurse {
    let known = this.#purses.get(owner.name);
    if (!known) {
      const purse = new Purse(owner, (asking, need) => this.#refill(asking, need));
      known = {
        purse,
        usedAt: 0,
        outsideLease: 0,
        askedAt: 0,
        asking: undefined,
        returns: new Map(),
      };
      this.#purses.set(owner.name, known);
    }
    known.usedAt = now;
    return known;
  }

  /** Asks the store; when others have the rest on lease, lets them know and asks again. */
  async #refill(purse: Purse, need: Need): Promise<void> {
    // A bound on time besides the tries: each trip may take long.
    let until = this.#now() + recallMs;
    for (let tried = 0; ; tried++) {
      const answer = await this.#leaseMissing(purse, need);
      if (need.missing() <= 0 || answer.leasedElsewhere === 0) return;
      // All have answered, so there is no more to come.
      if (tried > 0 && answer.unanswered === 0) return;
      if (tried === recallTries || (tried > 0 && this.#now() >= until)) return;
      if (tried === 0) await this.#store.recall(purse.owner.name, this.#processId);
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
  async #leaseMissing(purse: Purse, need: Need) {
    const { returns } = this.#known(purse.owner, this.#now());
    for (let tried = 0; ; tried++) {
      if (returns.size > 0) await within(Promise.allSettled(returns.keys()), recallMs);
      const answer = await this.#lease(purse, need, purse.inDoubt);
      if (answer.isShort || need.missing() <= 0 || tried === recallTries) return answer;
    }
  }

  async #lease(purse: Purse, { order, oneHold }: Need, anew: boolean) {
    const credits = Math.max(0, order());
    if (anew) purse.leaseAnew();
    try {
      const answer = await this.#store.lease({
        owner: purse.owner,
        processId: this.#processId,
        number: ++this.#lastOrder,
        anew,
        credits,
        oneHold,
        until: this.#term.untilFromNow,
        now: this.#now(),
      });
      purse.granted(answer, credits);
      const known = this.#known(purse.owner, this.#now());
      known.outsideLease = answer.outsideLease;
      known.askedAt = this.#now();
      return { ...answer, isShort: answer.granted < credits };
    } catch (thrown) {
      purse.doubt(purse.lease);
      throw thrown;
    }
  }
}

function spareOf({ purse, returns }: KnownPurse): number {
  return returns.values().reduce((sum, credits) => sum + credits, Math.max(0, purse.free));
}

/** The need of a question that is only about the balance. */
const nothing: Need = { order: () => 0, missing: () => 0, oneHold: 0 };

function refusal(
  taken: Exclude<Taken, { kind: 'taken' }>,
  order: HoldOrder,
  who: string,
): GatewayError {
  if (taken.kind === 'unavailable') return creditsAway();
  const left = counted(taken.available, 'credit');
  const message = `${who} has ${left} left and this request needs at least ${order.least}.`;
  return new GatewayError('insufficient_credits', message);
}
