import type { Caller } from '../core/caller.ts';
import type { Chore } from '../core/chore.ts';
import { GatewayError } from '../core/errors.ts';
import type { Booked, LedgerStore } from './ledger-store.ts';
import { keyOwner, type Owner, walletOwner } from './owner.ts';
import { Purse, type Taken } from './purse.ts';

/** A lease lives this long without renewal; nobody uses one that is about to end. */
const leaseMs = 120_000;
const renewMs = 10_000;
const leaseMarginMs = 10_000;
/** How often a process looks whether others starve on an account it has credits of. */
const recallPollMs = 250;
/** How long a starving process waits for others to give back, and in which steps. */
const recallTries = 5;
const recallPauseMs = 200;
/** Credits that nobody has used for this long go back to the account. */
const idleMs = 5_000;

/** How much a request may cost at most, and the least without which it makes no sense. */
export interface HoldOrder {
  readonly wanted: number;
  readonly least: number;
}

/** Credits set aside for one running request, on its wallet and on its key's limit. */
export interface Hold {
  /** What is set aside now. */
  readonly credits: number;
  readonly keyAccount: string | null;
  /** Sets more aside; false when there is no more. */
  extend(credits: number): Promise<boolean>;
  /** Ends the hold with a charge. Answers what could be charged: less when credits ran out. */
  settle(charge: number): Promise<Charged>;
}

export interface Charged {
  readonly wallet: number;
  /** What counts against the key's limit. */
  readonly key: number;
}

export class Wallets {
  readonly #store: LedgerStore;
  readonly #processId: string;
  readonly #now: () => number;
  readonly #purses = new Map<string, { readonly purse: Purse; usedAt: number }>();
  #leaseUntil: number;
  #recallSeen: number;

  constructor(store: LedgerStore, processId: string, now: () => number = Date.now) {
    this.#store = store;
    this.#processId = processId;
    this.#now = now;
    this.#leaseUntil = now() + leaseMs;
    this.#recallSeen = now();
  }

  chores(): Chore[] {
    return [
      { everyMs: renewMs, run: () => this.renew() },
      { everyMs: recallPollMs, run: () => this.answerRecalls() },
      { everyMs: idleMs, run: () => this.returnIdle() },
    ];
  }

  /** Sets credits aside, usually without leaving memory. Throws 402, or 503 without the store. */
  hold(caller: Caller, order: HoldOrder): Hold | Promise<Hold> {
    const wallet = this.#purse(walletOwner(caller.tenantId));
    const limited = keyOwner(caller, this.#now());
    const key = limited && this.#purse(limited);
    this.#refuseStale();
    const taken = wallet.take(order.wanted, order.least);
    if (key === undefined && !(taken instanceof Promise))
      return holdOf(wallet, undefined, taken, order);
    return this.#holdBoth(wallet, key, taken, order);
  }

  async #holdBoth(
    wallet: Purse,
    key: Purse | undefined,
    first: Taken | Promise<Taken>,
    order: HoldOrder,
  ): Promise<Hold> {
    const taken = await first;
    if (!key || taken.kind !== 'taken') return holdOf(wallet, undefined, taken, order);
    const limited = await key.take(taken.credits, order.least);
    if (limited.kind !== 'taken') {
      wallet.release(taken.credits);
      throw refusal(limited, order, 'This API key');
    }
    // The two hold alike: the smaller of what each could give.
    wallet.release(taken.credits - limited.credits);
    return holdOf(wallet, key, limited, order);
  }

  /** The drain has taken these charges out of their accounts. */
  booked(charges: readonly Booked[]): void {
    for (const { account, charge, fromLease } of charges) {
      this.#purses.get(account)?.purse.booked(charge, fromLease);
    }
  }

  async renew(): Promise<void> {
    const until = this.#now() + leaseMs;
    const alive = await this.#store.renew(this.#processId, until);
    this.#leaseUntil = until;
    for (const [name, { purse }] of this.#purses) {
      if (purse.leased > 0 && !alive.has(name)) purse.lose();
    }
    await this.#store.expire(this.#now());
  }

  /** Gives back what is free on accounts where another process found nothing left. */
  async answerRecalls(): Promise<void> {
    if (this.#purses.size === 0) return;
    const since = this.#recallSeen;
    this.#recallSeen = this.#now() - recallPauseMs * recallTries;
    for (const name of await this.#store.recalled(this.#processId, since)) {
      const known = this.#purses.get(name);
      if (known) await this.#giveBack(known.purse);
    }
  }

  async returnIdle(): Promise<void> {
    const before = this.#now() - idleMs;
    for (const [name, known] of this.#purses) {
      if (!known.purse.idle || known.usedAt > before) continue;
      await this.#giveBack(known.purse);
      if (known.purse.idle && known.purse.leased === 0) this.#purses.delete(name);
    }
  }

  /** Gives everything back. Called when the last request has ended and the drain is empty. */
  async stop(): Promise<void> {
    for (const { purse } of this.#purses.values()) await this.#giveBack(purse);
  }

  async #giveBack(purse: Purse): Promise<void> {
    const credits = purse.surrender();
    if (credits === 0) return;
    try {
      await this.#store.giveBack(this.#processId, purse.owner.name, credits);
    } catch (thrown) {
      purse.keep(credits);
      throw thrown;
    }
  }

  #purse(owner: Owner): Purse {
    let known = this.#purses.get(owner.name);
    if (!known) {
      const purse = new Purse(owner, (from, credits, oneHold) =>
        this.#refill(from, credits, oneHold),
      );
      known = { purse, usedAt: 0 };
      this.#purses.set(owner.name, known);
    } else if (known.purse.owner.allowance !== owner.allowance) {
      known.purse.owner = owner;
      // A lowered limit can only take back what is not on lease.
      void this.#giveBack(known.purse).catch(() => undefined);
    }
    known.usedAt = this.#now();
    return known.purse;
  }

  /** Asks the store; when others have the rest on lease, lets them know and asks again. */
  async #refill(owner: Owner, credits: number, oneHold: number): Promise<number> {
    let granted = 0;
    for (let tried = 0; ; tried++) {
      const answer = await this.#store.lease({
        owner,
        processId: this.#processId,
        credits: credits - granted,
        oneHold,
        until: this.#leaseUntil,
        now: this.#now(),
      });
      granted += answer.granted;
      if (granted >= credits || answer.leasedElsewhere === 0 || tried === recallTries)
        return granted;
      await this.#store.recall(owner.name, this.#now());
      await Bun.sleep(recallPauseMs);
    }
  }

  /** Without renewal, others may already have our lease; we stop before that, not after. */
  #refuseStale(): void {
    if (this.#now() < this.#leaseUntil - leaseMarginMs) return;
    throw unavailable();
  }
}

function holdOf(wallet: Purse, key: Purse | undefined, taken: Taken, order: HoldOrder): Hold {
  if (taken.kind !== 'taken') throw refusal(taken, order, 'This account');
  let held = taken.credits;
  return {
    get credits() {
      return held;
    },
    keyAccount: key?.owner.name ?? null,
    async extend(credits) {
      const more = await wallet.take(credits, credits);
      if (more.kind !== 'taken') return false;
      const limited = key ? await key.take(credits, credits) : more;
      if (limited.kind !== 'taken') wallet.release(credits);
      else held += credits;
      return limited.kind === 'taken';
    },
    async settle(charge) {
      return {
        wallet: await settlePurse(wallet, held, charge),
        key: key ? await settlePurse(key, held, charge) : 0,
      };
    },
  };
}

/** Charges a purse; what exceeds the hold is taken as far as there is something to take. */
async function settlePurse(purse: Purse, held: number, charge: number): Promise<number> {
  const missing = charge - held;
  const more = missing > 0 ? await purse.take(missing, 0) : undefined;
  const inHand = held + (more?.kind === 'taken' ? more.credits : 0);
  const charged = Math.min(charge, inHand);
  purse.settle(inHand, charged);
  return charged;
}

function refusal(
  taken: Exclude<Taken, { kind: 'taken' }>,
  order: HoldOrder,
  who: string,
): GatewayError {
  if (taken.kind === 'unavailable') return unavailable();
  const has = `${who} has ${taken.available} credits left`;
  const message = `${has} and this request needs at least ${order.least}.`;
  return new GatewayError('insufficient_credits', message);
}

function unavailable(): GatewayError {
  const message = 'The credit store cannot be reached and the credits at hand are used up.';
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: 2 });
}
