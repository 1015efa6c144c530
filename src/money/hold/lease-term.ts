/** A lease lives this long without renewal; nobody uses one that is about to end. */
const leaseMs = 120_000;
const leaseMarginMs = 10_000;
/**
 * After a jump of the clock every lease looks expired, also those of living processes, which need
 * a moment to renew them. So leases are expired again only at the fourth renewal after a jump. If
 * another jump restarted the count, a machine that keeps falling asleep would never expire any.
 */
const renewalsBeforeExpiry = 4;

/** Until when this process may spend what it has on lease: none of its leases ends sooner. */
export class LeaseTerm {
  readonly #renewUntil: (until: number) => Promise<void>;
  readonly #now: () => number;
  #until: number;
  #renewing: Promise<void> | undefined;
  #isStoreDown = false;
  /** Renewals to go until leases are expired again; 0 unless the clock has jumped. */
  #renewalsToWait = 0;

  /** `renewUntil` asks the store, and rejects when it does not answer. */
  constructor(renewUntil: (until: number) => Promise<void>, now: () => number) {
    this.#renewUntil = renewUntil;
    this.#now = now;
    this.#until = now() + leaseMs;
  }

  /**
   * When a lease ends that begins now. A renewal under way may not include it, so it must last as
   * long as the leases that are renewed, even if the clock was set back since.
   */
  get newLeaseEnd(): number {
    return Math.max(this.#until, this.#now() + leaseMs);
  }

  /** The store did not answer the last renewal. */
  get isStoreDown(): boolean {
    return this.#isStoreDown;
  }

  /** Without renewal, others may already have our leases; we stop before that, not after. */
  isStaleAt(now: number): boolean {
    return now >= this.#until - leaseMarginMs;
  }

  /** Answers whether the leases of others may be expired, too. */
  async renew(): Promise<boolean> {
    await this.#renewShared();
    this.#renewalsToWait = Math.max(0, this.#renewalsToWait - 1);
    return this.#renewalsToWait === 0;
  }

  /**
   * For leases that look ended although the store answers: the clock jumped, or the machine slept.
   * Answers whether they are good again.
   */
  async renewStale(): Promise<boolean> {
    if (this.#isStoreDown) return false;
    await this.#renewShared().catch(() => undefined);
    // A renewal sets the clock. When that was far behind, the leases have been renewed until a time
    // that is over, too: once more, by the right time.
    if (!this.#isStoreDown && this.isStaleAt(this.#now()))
      await this.#renewShared().catch(() => undefined);
    return !this.isStaleAt(this.#now());
  }

  /** The store has answered something else: it is back, so leases are renewed at once. */
  async storeResponded(): Promise<void> {
    if (this.#isStoreDown) await this.#renewShared().catch(() => undefined);
  }

  /** One renewal for all who ask at the same time. */
  #renewShared(): Promise<void> {
    this.#renewing ??= this.#renewNow().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #renewNow(): Promise<void> {
    const until = this.#now() + leaseMs;
    await this.#renewUntil(until).catch((error: unknown) => {
      this.#isStoreDown = true;
      throw error;
    });
    this.#isStoreDown = false;
    // Looked at now: the clock may have jumped while we asked.
    if (this.#renewalsToWait === 0 && this.isStaleAt(this.#now()))
      this.#renewalsToWait = renewalsBeforeExpiry;
    this.#until = until;
  }
}
