import { type GatewayError, unavailable } from '../../core/errors.ts';
import type { Owner } from '../ledger.ts';
import type { LeaseBalance, TakeResult } from './lease-balance.ts';

/** Credits set aside for one running request, on its wallet and on its key's limit. */
export interface Hold {
  /** What is set aside now. */
  readonly credits: number;
  readonly keyAccount: string | null;
  /** True once the request has ended: a second end must not be billed. */
  readonly settled: boolean;
  /** What the hold could grow to. Asks the store unless at least `enough` is known to be there. */
  maxCredits(needed: number): number | Promise<number>;
  /** Sets `wanted` more aside, or less, but at least `least`. Null when there is no more. 503 */
  extend(requested: number, minimum?: number): Promise<number | null>;
  /** Ends the hold with a charge, once. Answers what could be charged: credits may run out. */
  settle(charge: number): Charged | Promise<Charged>;
}

export interface Charged {
  readonly wallet: number;
  /** What counts against the key's limit. */
  readonly key: number;
}

/** Where a hold takes from. */
interface HoldSource {
  /** The purse in use now: one that lay idle is forgotten and made again. */
  balance(owner: Owner): LeaseBalance;
  /** False when the lease may have ended without our knowing. */
  mayExtend(): boolean | Promise<boolean>;
  /** What an account could still give, as far as is known; asks the store if that is too little. */
  available(owner: Owner, needed: number): number | Promise<number>;
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

  maxCredits(needed: number): number | Promise<number> {
    const more = needed - this.#credits;
    if (more <= 0) return this.#credits;
    const wallet = this.#source.available(this.#wallet, more);
    const key = this.#key ? this.#source.available(this.#key, more) : Number.POSITIVE_INFINITY;
    if (typeof wallet === 'number' && typeof key === 'number') {
      return this.#credits + Math.min(wallet, key);
    }
    return Promise.all([wallet, key]).then((limits) => this.#credits + Math.min(...limits));
  }

  async extend(requested: number, minimum = requested): Promise<number | null> {
    if (this.settled) return null;
    if (!(await this.#source.mayExtend())) throw creditStoreUnavailable();
    // The key's account first, as when the hold was made: it bounds what is asked of the wallet.
    const keyResult = this.#key
      ? await this.#balance(this.#key).take(requested, minimum)
      : undefined;
    if (keyResult && keyResult.kind !== 'taken') return noneLeft(keyResult);
    const maximum = keyResult?.credits ?? requested;
    const walletResult = await this.#balance(this.#wallet).take(maximum, minimum);
    const granted = walletResult.kind === 'taken' ? walletResult.credits : 0;
    // The client may have left while we asked: what its hold had is given back already.
    const isGranted = walletResult.kind === 'taken' && !this.settled;
    if (!isGranted) this.#balance(this.#wallet).release(granted);
    // Wallet and key hold the same amount: the smaller of what each could give.
    if (this.#key) this.#balance(this.#key).release(maximum - (isGranted ? granted : 0));
    if (!isGranted) return noneLeft(walletResult);
    this.#credits += granted;
    return granted;
  }

  settle(charge: number): Charged | Promise<Charged> {
    const held = this.#credits;
    this.#charged ??=
      charge <= held ? this.#settleWithin(held, charge) : this.#settleBeyond(held, charge);
    return this.#charged;
  }

  /** What was set aside is enough, as it nearly always is: the store is not asked. */
  #settleWithin(held: number, charge: number): Charged {
    this.#balance(this.#wallet).settle(held, charge);
    if (this.#key) this.#balance(this.#key).settle(held, charge);
    return { wallet: charge, key: this.#key ? charge : 0 };
  }

  async #settleBeyond(held: number, charge: number): Promise<Charged> {
    const wallet = await this.#takeShortfall(this.#wallet, held, charge);
    // Credits that the wallet did not pay do not count against the key's limit.
    return { wallet, key: this.#key ? await this.#takeShortfall(this.#key, held, wallet) : 0 };
  }

  /** Takes what exceeds the hold, as far as the account has it; answers what is charged. */
  async #takeShortfall(owner: Owner, held: number, charge: number): Promise<number> {
    const more = await this.#balance(owner).take(charge - held, 0);
    const onHold = held + (more.kind === 'taken' ? more.credits : 0);
    // Without the store nobody knows what the account has: the drain will find out.
    const charged = more.kind === 'unavailable' ? charge : Math.min(charge, onHold);
    this.#balance(owner).settle(onHold, charged);
    return charged;
  }

  #balance(owner: Owner): LeaseBalance {
    return this.#source.balance(owner);
  }
}

/** An account is not empty because nobody can ask the store what it has. */
function noneLeft({ kind }: TakeResult): null {
  if (kind === 'unavailable') throw creditStoreUnavailable();
  return null;
}

export function creditStoreUnavailable(): GatewayError {
  return unavailable('The credit store cannot be reached and the credits at hand are used up.');
}
