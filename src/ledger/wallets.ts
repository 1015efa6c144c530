import type { Caller } from '../core/caller.ts';
import type { Chore } from '../core/chore.ts';
import { GatewayError } from '../core/errors.ts';
import { type Hold, OpenHold } from './hold.ts';
import type { Booked, LedgerStore } from './ledger-store.ts';
import { keyOwner, type Owner, walletOf, walletOwner } from './owner.ts';
import { type Need, Purse, type Taken } from './purse.ts';

/** A lease lives this long without renewal; nobody uses one that is about to end. */
const leaseMs = 120_000;
const renewMs = 10_000;
const leaseMarginMs = 10_000;
/**
 * After a jump of the clock everybody's lease looks ended, and the fourth renewal is the first to
 * end any. Another jump meanwhile begins nothing anew, or who sleeps again and again never would.
 */
const patientRenewals = 4;
/** How often a process looks whether others starve on an account it has credits of. */
const recallPollMs = 250;
/** How long a starving process waits for others to answer: dead ones never will. */
const recallTries = 10;
const recallPauseMs = 200;
/** What the store says of an account is old news after this long: others spend from it, too. */
const newsMs = 10_000;
/** How long a request waits for such news; without them it goes by those it has. */
const newsWaitMs = 500;
/** Credits that nobody has used for this long go back to the account. */
const idleMs = 5_000;

/** How much a request may cost at most, and the least without which it makes no sense. */
export interface HoldOrder {
  readonly wanted: number;
  readonly least: number;
}

export interface LeaseTotals {
  readonly leases: number;
  readonly leasedCredits: number;
  readonly heldCredits: number;
  readonly owedCredits: number;
}

interface KnownPurse {
  readonly purse: Purse;
  usedAt: number;
  /** What the account has besides our lease, as the store told at that time. */
  besides: number;
  toldAt: number;
  /** The store is being asked for that. */
  looking: Promise<unknown> | undefined;
}

export class Wallets {
  readonly #store: LedgerStore;
  readonly #processId: string;
  readonly #now: () => number;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #purses = new Map<string, KnownPurse>();
  #orders = 0;
  #leaseUntil: number;
  #prolonging: Promise<void> | undefined;
  /** The store did not answer the last renewal. */
  #isAway = false;
  /** Renewals until leases that look ended are. */
  #patience = 0;

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
    this.#leaseUntil = now() + leaseMs;
  }

  chores(): Chore[] {
    return [
      { everyMs: renewMs, run: () => this.renew() },
      { everyMs: recallPollMs, run: () => this.answerRecalls() },
    ];
  }

  /**
   * Sets credits aside, usually without leaving memory. Throws 402, or 503 without the store. A
   * limit counts what arrives in its period, however late that gets here: so does the log.
   */
  hold(caller: Caller, order: HoldOrder, arrivedAt = this.#now()): Hold | Promise<Hold> {
    const now = this.#now();
    if (this.#isStaleAt(now)) return this.#holdLate(caller, order, arrivedAt);
    const wallet = walletOf(caller);
    const key = keyOwner(caller, arrivedAt);
    if (key) return this.#holdBoth(wallet, key, order);
    const taken = this.#purse(wallet, now).take(order.wanted, order.least);
    if (taken instanceof Promise) return taken.then((later) => this.#hold(wallet, later, order));
    return this.#hold(wallet, taken, order);
  }

  async #holdLate(caller: Caller, order: HoldOrder, arrivedAt: number): Promise<Hold> {
    if (!(await this.#isRenewed())) throw unavailable();
    return this.hold(caller, order, arrivedAt);
  }

  #hold(wallet: Owner, taken: Taken, order: HoldOrder): Hold {
    if (taken.kind !== 'taken') throw refusal(taken, order, 'This account');
    return new OpenHold(this.#source, wallet, undefined, taken.credits);
  }

  /** The key's own first: who is over its limit takes nothing from the keys beside it. */
  async #holdBoth(wallet: Owner, key: Owner, order: HoldOrder): Promise<Hold> {
    const limited = await this.#purse(key, this.#now()).take(order.wanted, order.least);
    if (limited.kind !== 'taken') throw refusal(limited, order, 'This API key');
    const taken = await this.#purse(wallet, this.#now()).take(limited.credits, order.least);
    const spare = limited.credits - (taken.kind === 'taken' ? taken.credits : 0);
    // The two hold alike: the smaller of what each could give.
    this.#known(key, this.#now()).purse.release(spare);
    if (taken.kind !== 'taken') throw refusal(taken, order, 'This account');
    return new OpenHold(this.#source, wallet, key, taken.credits);
  }

  readonly #source = {
    purse: (owner: Owner): Purse => this.#known(owner, this.#now()).purse,
    mayExtend: () => !this.#isStaleAt(this.#now()) || this.#isRenewed(),
    spare: (owner: Owner, enough: number) => this.#spare(owner, enough),
  };

  /** What nobody holds, as far as is known; the store is asked only where that is too little. */
  #spare(owner: Owner, enough: number): number | Promise<number> {
    const now = this.#now();
    const known = this.#known(owner, now);
    const told = () => Math.max(0, known.purse.free) + known.besides;
    const isNews = Math.abs(now - known.toldAt) < newsMs;
    if (this.#isAway || (isNews && told() >= enough)) return told();
    return this.#look(known).then(told);
  }

  /** Beside the queue: nobody whose credits are at hand waits for this, or for a frozen store. */
  #look(known: KnownPurse): Promise<unknown> {
    if (known.looking !== undefined) return known.looking;
    const asked = this.#lease(known.purse, { missing: () => 0, oneHold: 0 }, false)
      .catch(() => undefined)
      .finally(() => {
        known.looking = undefined;
      });
    known.looking = Promise.race([asked, Bun.sleep(newsWaitMs)]);
    return known.looking;
  }

  /** Leased by this process and set aside for nobody: to a person, that is available. */
  spare(tenantId: string): number {
    return Math.max(0, this.#purses.get(walletOwner(tenantId).name)?.purse.free ?? 0);
  }

  /** The same of all wallets together. */
  spareOfAll(): number {
    let spare = 0;
    for (const { purse } of this.#purses.values()) {
      if (purse.owner.allowance === null) spare += Math.max(0, purse.free);
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
  }

  /** These charges were given up before the drain had them. */
  forgive(charges: readonly { readonly account: string; readonly charge: number }[]): void {
    for (const { account, charge } of charges) this.#purses.get(account)?.purse.forgive(charge);
  }

  /** Keeps the leases alive; and, as the store answers, puts in order what it left in doubt. */
  async renew(): Promise<void> {
    await this.#prolong();
    this.#patience = Math.max(0, this.#patience - 1);
    if (this.#patience === 0) await this.#store.expire(this.#now());
    for (const { purse } of [...this.#purses.values()]) await purse.endDoubt();
    await this.returnIdle();
  }

  /** Once for all who ask at the same time. */
  #prolong(): Promise<void> {
    this.#prolonging ??= this.#prolongLeases().finally(() => {
      this.#prolonging = undefined;
    });
    return this.#prolonging;
  }

  async #prolongLeases(): Promise<void> {
    const until = this.#now() + leaseMs;
    const before = [...this.#purses].map(([name, { purse }]) => ({ name, lease: purse.lease }));
    const alive = await this.#store.renew(this.#processId, until).catch((thrown: unknown) => {
      this.#isAway = true;
      throw thrown;
    });
    this.#isAway = false;
    // Looked at now: the clock may have jumped while we asked.
    if (this.#patience === 0 && this.#isStaleAt(this.#now())) this.#patience = patientRenewals;
    this.#leaseUntil = until;
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
      if (known) await this.#giveBack(known.purse, 'answer');
    }
  }

  async returnIdle(): Promise<void> {
    const before = this.#now() - idleMs;
    for (const [name, known] of [...this.#purses]) {
      const { purse } = known;
      if (!purse.idle || known.usedAt > before) continue;
      await this.#giveBack(purse);
      if (purse.idle && purse.leased === 0 && !purse.inDoubt) this.#purses.delete(name);
    }
  }

  /** Gives everything back. Called when the last request has ended and the drain is empty. */
  async stop(): Promise<void> {
    for (const { purse } of this.#purses.values()) await this.#giveBack(purse);
  }

  /**
   * Only asked for when the store has just been heard of: credits whose return is in doubt cannot
   * be used until it answers again.
   */
  async #giveBack(purse: Purse, why?: 'answer'): Promise<void> {
    const { lease, credits } = purse.surrender();
    if (credits === 0 && why !== 'answer') return;
    const owner = purse.owner.name;
    try {
      await this.#store.giveBack({ processId: this.#processId, owner, lease, credits });
    } catch (thrown) {
      purse.doubt(lease);
      throw thrown;
    }
  }

  #purse(owner: Owner, now: number): Purse {
    const { purse } = this.#known(owner, now);
    const isChanged = purse.owner.allowance?.credits !== owner.allowance?.credits;
    purse.owner = owner;
    // A lowered limit can only take back what is not on lease.
    if (isChanged) void this.#giveBack(purse).catch(() => undefined);
    return purse;
  }

  #known(owner: Owner, now: number): KnownPurse {
    let known = this.#purses.get(owner.name);
    if (!known) {
      const purse = new Purse(owner, (asking, need) => this.#refill(asking, need));
      known = { purse, usedAt: 0, besides: 0, toldAt: 0, looking: undefined };
      this.#purses.set(owner.name, known);
    }
    known.usedAt = now;
    return known;
  }

  /** Asks the store; when others have the rest on lease, lets them know and asks again. */
  async #refill(purse: Purse, need: Need): Promise<void> {
    for (let tried = 0; ; tried++) {
      const answer = await this.#lease(purse, need, purse.inDoubt);
      if (need.missing() <= 0 || answer.leasedElsewhere === 0) return;
      if (tried > 0 && answer.unanswered === 0) return;
      if (tried === recallTries) return;
      if (tried === 0) await this.#store.recall(purse.owner.name, this.#processId);
      await this.#pause(recallPauseMs);
    }
  }

  async #lease(purse: Purse, { missing, oneHold }: Need, anew: boolean) {
    try {
      const answer = await this.#store.lease({
        owner: purse.owner,
        processId: this.#processId,
        number: ++this.#orders,
        anew,
        credits: Math.max(0, missing() + (anew ? purse.leased : 0)),
        oneHold,
        until: this.#leaseUntil,
        now: this.#now(),
      });
      purse.granted(answer, anew);
      const known = this.#known(purse.owner, this.#now());
      known.besides = answer.besides;
      known.toldAt = this.#now();
      return answer;
    } catch (thrown) {
      purse.doubt(purse.lease);
      throw thrown;
    }
  }

  /** A lease that ended although the store answers: the clock jumped, or the machine slept. */
  async #isRenewed(): Promise<boolean> {
    if (this.#isAway) return false;
    await this.#prolong().catch(() => undefined);
    return !this.#isStaleAt(this.#now());
  }

  /** Without renewal, others may already have our lease; we stop before that, not after. */
  #isStaleAt(now: number): boolean {
    return now >= this.#leaseUntil - leaseMarginMs;
  }
}

function refusal(
  taken: Exclude<Taken, { kind: 'taken' }>,
  order: HoldOrder,
  who: string,
): GatewayError {
  if (taken.kind === 'unavailable') return unavailable();
  const left = `${taken.available} credits left`;
  const message = `${who} has ${left} and this request needs at least ${order.least}.`;
  return new GatewayError('insufficient_credits', message);
}

function unavailable(): GatewayError {
  const message = 'The credit store cannot be reached and the credits at hand are used up.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 2 });
}
