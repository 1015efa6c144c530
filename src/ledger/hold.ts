import type { Owner } from './owner.ts';
import type { Purse, Taken } from './purse.ts';

/** Credits set aside for one running request, on its wallet and on its key's limit. */
export interface Hold {
  /** What is set aside now. */
  readonly credits: number;
  readonly keyAccount: string | null;
  /** True once the request has ended: a second end must not be billed. */
  readonly settled: boolean;
  /** Sets more aside; false when there is no more. */
  extend(credits: number): Promise<boolean>;
  /** Ends the hold with a charge, once. Answers what could be charged: credits may run out. */
  settle(charge: number): Charged | Promise<Charged>;
}

export interface Charged {
  readonly wallet: number;
  /** What counts against the key's limit. */
  readonly key: number;
}

/** Where a hold takes from. */
export interface HoldSource {
  /** The purse in use now: one that lay idle is forgotten and made again. */
  purse(owner: Owner): Purse;
  /** False when the lease may have ended without our knowing. */
  mayExtend(): boolean | Promise<boolean>;
}

export class OpenHold implements Hold {
  readonly #source: HoldSource;
  readonly #wallet: Owner;
  readonly #key: Owner | undefined;
  #credits: number;
  #charged: Charged | Promise<Charged> | undefined;

  constructor(source: HoldSource, wallet: Owner, key: Owner | undefined, credits: number) {
    this.#source = source;
    this.#wallet = wallet;
    this.#key = key;
    this.#credits = credits;
  }

  get credits(): number {
    return this.#credits;
  }

  get keyAccount(): string | null {
    return this.#key?.name ?? null;
  }

  get settled(): boolean {
    return this.#charged !== undefined;
  }

  async extend(credits: number): Promise<boolean> {
    if (this.settled || !(await this.#source.mayExtend())) return false;
    if (this.#key && (await this.#take(this.#key, credits)).kind !== 'taken') return false;
    const more = await this.#take(this.#wallet, credits);
    // The client may have left while we asked: what its hold had is given back already.
    if (more.kind === 'taken' && !this.settled) {
      this.#credits += credits;
      return true;
    }
    if (more.kind === 'taken') this.#purse(this.#wallet).release(credits);
    if (this.#key) this.#purse(this.#key).release(credits);
    return false;
  }

  settle(charge: number): Charged | Promise<Charged> {
    const held = this.#credits;
    this.#charged ??= charge <= held ? this.#pay(charge, held) : this.#settle(charge, held);
    return this.#charged;
  }

  /** What was set aside is enough, as it nearly always is: nobody has to be asked. */
  #pay(charge: number, held: number): Charged {
    this.#purse(this.#wallet).settle(held, charge);
    if (this.#key) this.#purse(this.#key).settle(held, charge);
    return { wallet: charge, key: this.#key ? charge : 0 };
  }

  async #settle(charge: number, held: number): Promise<Charged> {
    const wallet = await this.#charge(this.#wallet, held, charge);
    // What nobody paid counts against no limit.
    return { wallet, key: this.#key ? await this.#charge(this.#key, held, wallet) : 0 };
  }

  /** What exceeds the hold is taken as far as there is something to take. */
  async #charge(owner: Owner, held: number, charge: number): Promise<number> {
    const more = await this.#purse(owner).take(charge - held, 0);
    const inHand = held + (more.kind === 'taken' ? more.credits : 0);
    // Without the store nobody knows what the account has: the drain will find out.
    const charged = more.kind === 'unavailable' ? charge : Math.min(charge, inHand);
    this.#purse(owner).settle(inHand, charged);
    return charged;
  }

  #take(owner: Owner, credits: number): Taken | Promise<Taken> {
    return this.#purse(owner).take(credits, credits);
  }

  #purse(owner: Owner): Purse {
    return this.#source.purse(owner);
  }
}
