import { GatewayError, unavailable } from '../../core/errors.ts';
import { pluralize } from '../../core/text.ts';
import type { Owner } from '../ledger.ts';
import type { LeaseBalance, SilentCredits, TakeResult } from './lease-balance.ts';

/**
 * Credits held for one running request, on its wallet and on its key's limit. Methods that return a
 * value or a promise are synchronous unless they need the store, because they run on the hot path.
 */
export interface Hold {
  /** The credits held now. */
  readonly credits: number;
  /** The account of the key's limit, or null. */
  readonly keyAccount: string | null;
  /** True once the hold was settled. A request must not be billed twice. */
  readonly settled: boolean;
  /**
   * Returns the credits that the hold could grow to. Reads the balance from the store if they seem
   * too few.
   */
  maxCredits(needed: number): number | Promise<number>;
  /**
   * Holds `requested` more credits, or fewer, but at least `minimum`. Returns null if there are
   * too few. Throws 503.
   */
  extend(requested: number, minimum?: number): Promise<number | null>;
  /**
   * Ends the hold with a charge and returns what the accounts could pay. Later calls return the
   * first result.
   */
  settle(charge: number): Charged | Promise<Charged>;
}

export interface Charged {
  readonly wallet: number;
  /** The amount that counts against the key's limit. */
  readonly key: number;
}

/** Access to the accounts of a hold. */
interface HoldSource {
  /** Returns the current balance object; idle ones are dropped and created again. */
  balance(owner: Owner): LeaseBalance;
  /** Returns false if the lease may have expired. */
  mayExtend(): boolean | Promise<boolean>;
  /**
   * Returns the credits that an account can still give. Reads the balance from the store if they
   * seem too few.
   */
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
    const missing = needed - this.#credits;
    if (missing <= 0) return this.#credits;
    const wallet = this.#source.available(this.#wallet, missing);
    const key = this.#key ? this.#source.available(this.#key, missing) : Number.POSITIVE_INFINITY;
    if (typeof wallet === 'number' && typeof key === 'number') {
      return this.#credits + Math.min(wallet, key);
    }
    return Promise.all([wallet, key]).then((limits) => this.#credits + Math.min(...limits));
  }

  async extend(requested: number, minimum = requested): Promise<number | null> {
    if (this.settled) return null;
    if (!(await this.#source.mayExtend())) throw creditStoreUnavailable();
    // The key's account goes first, because it limits what the wallet must give.
    const keyResult = this.#key
      ? await this.#balance(this.#key).take(requested, minimum)
      : undefined;
    if (keyResult && keyResult.kind !== 'taken') return noneLeft(keyResult);
    const maximum = keyResult?.credits ?? requested;
    const walletResult = await this.#balance(this.#wallet).take(maximum, minimum);
    const granted = walletResult.kind === 'taken' ? walletResult.credits : 0;
    // If the request ended in the meantime, its hold was released already.
    const isGranted = walletResult.kind === 'taken' && !this.settled;
    if (!isGranted) this.#balance(this.#wallet).release(granted);
    // The wallet and the key hold the same amount: the smaller of what each could give.
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

  /** The usual case: the hold covers the charge, so the store isn't needed. */
  #settleWithin(held: number, charge: number): Charged {
    this.#balance(this.#wallet).settle(held, charge);
    if (this.#key) this.#balance(this.#key).settle(held, charge);
    return { wallet: charge, key: this.#key ? charge : 0 };
  }

  async #settleBeyond(held: number, charge: number): Promise<Charged> {
    const wallet = await this.#takeShortfall(this.#wallet, held, charge);
    // Credits that the wallet didn't pay don't count against the key's limit.
    return { wallet, key: this.#key ? await this.#takeShortfall(this.#key, held, wallet) : 0 };
  }

  /**
   * Takes credits for the part of the charge that exceeds the hold, up to what the account has.
   * Returns the amount charged.
   */
  async #takeShortfall(owner: Owner, held: number, charge: number): Promise<number> {
    const shortfall = await this.#balance(owner).take(charge - held, 0);
    const onHold = held + (shortfall.kind === 'taken' ? shortfall.credits : 0);
    // If the store is unreachable, a wallet pays only what is held, because the client is told the
    // charge now, and the rest may turn out to be missing. A key's limit counts the full charge.
    const isUncertain = shortfall.kind === 'unavailable' && owner.allowance !== null;
    const charged = isUncertain ? charge : Math.min(charge, onHold);
    this.#balance(owner).settle(onHold, charged);
    return charged;
  }

  #balance(owner: Owner): LeaseBalance {
    return this.#source.balance(owner);
  }
}

/** Returns null for an empty account. Throws 503 if its credits can't be reached now. */
function noneLeft(result: TakeResult): null {
  if (result.kind === 'unavailable') throw creditStoreUnavailable();
  if (result.kind === 'silent') throw silentProcess(result);
  return null;
}

const remedies = { 'This account': 'Add credits', 'This key': "Raise the key's limit" } as const;

/** Creates the error for a request that an account can't cover, or can't cover now. */
export function insufficientCredits(
  result: Exclude<TakeResult, { kind: 'taken' }>,
  minimum: number,
  subject: keyof typeof remedies,
): GatewayError {
  if (result.kind === 'unavailable') return creditStoreUnavailable();
  if (result.kind === 'silent') return silentProcess(result);
  const left = pluralize(result.available, 'credit');
  const problem = `${subject} has ${left} left; the request needs at least ${minimum}.`;
  const advice = `${remedies[subject]} or send a smaller request.`;
  return new GatewayError('insufficient_credits', `${problem} ${advice}`);
}

/** Creates the error for an account with enough credits, too many of which are out of reach. */
function silentProcess({ credits, returnInSeconds }: SilentCredits): GatewayError {
  const leased = pluralize(credits, 'credit is', 'credits are');
  const problem = `${leased} leased to a gateway process that isn't responding.`;
  const message = `${problem} Try again in ${returnInSeconds} s.`;
  return new GatewayError('service_unavailable', message, { retryAfterSeconds: returnInSeconds });
}

export function creditStoreUnavailable(): GatewayError {
  return unavailable("The credit store can't be reached. Try again shortly.");
}
