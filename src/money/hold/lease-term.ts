/** How long a lease lives without renewal. It isn't used during the margin before its end. */
const leaseMs = 120_000;
const leaseMarginMs = 10_000;
/**
 * After a clock jump, leases of live processes look expired until they are renewed. So this process
 * expires no leases until its fourth renewal after a jump. Another jump doesn't restart the count.
 * Otherwise, a machine that keeps going to sleep would never expire leases.
 */
const renewalsBeforeExpiry = 4;

/** Tracks how long this process may spend leased credits. None of its leases ends earlier. */
export class LeaseTerm {
  readonly #renewUntil: (until: number) => Promise<void>;
  readonly #now: () => number;
  #until: number;
  #renewing: Promise<void> | undefined;
  #isStoreDown = false;
  /**
   * Renewals left before this process may expire other processes' leases again; 0 unless the clock
   * jumped.
   */
  #renewalsToWait = 0;

  /** `renewUntil` renews all leases in the store and rejects if it is unreachable. */
  constructor(renewUntil: (until: number) => Promise<void>, now: () => number) {
    this.#renewUntil = renewUntil;
    this.#now = now;
    this.#until = now() + leaseMs;
  }

  /**
   * The end of a lease that starts now. A renewal in progress may miss the new lease, so the new
   * lease must last as long as the renewed ones, even if the clock was set back.
   */
  get newLeaseEnd(): number {
    return Math.max(this.#until, this.#now() + leaseMs);
  }

  /** Returns the seconds until a lease expires: at least 1, at most the length of a lease. */
  secondsUntil(leaseEnd: number): number {
    const seconds = Math.ceil((leaseEnd - this.#now()) / 1000);
    return Math.min(leaseMs / 1000, Math.max(1, seconds));
  }

  /** True if the last renewal failed. */
  get isStoreDown(): boolean {
    return this.#isStoreDown;
  }

  /**
   * Returns true if the leases have ended or are about to. Once they have ended, other processes
   * may lease the credits.
   */
  isStaleAt(now: number): boolean {
    return now >= this.#until - leaseMarginMs;
  }

  /**
   * Renews the leases. Returns true if this process may now expire the outdated leases of other
   * processes.
   */
  async renew(): Promise<boolean> {
    await this.#renewShared();
    this.#renewalsToWait = Math.max(0, this.#renewalsToWait - 1);
    return this.#renewalsToWait === 0;
  }

  /**
   * Renews leases that look expired after a clock jump or sleep. Returns whether they are valid
   * again.
   */
  async renewStale(): Promise<boolean> {
    if (this.#isStoreDown) return false;
    await this.#renewShared().catch(() => undefined);
    // A renewal corrects our clock. If it was far behind, the leases were renewed until a time in
    // the past, so renew again.
    if (!this.#isStoreDown && this.isStaleAt(this.#now()))
      await this.#renewShared().catch(() => undefined);
    return !this.isStaleAt(this.#now());
  }

  /** Called after another call to the store succeeded. Renews the leases if it had been down. */
  async storeResponded(): Promise<void> {
    if (this.#isStoreDown) await this.#renewShared().catch(() => undefined);
  }

  /** Shares one renewal between concurrent callers. */
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
    // Check afterwards, because the clock may have jumped during the call.
    if (this.#renewalsToWait === 0 && this.isStaleAt(this.#now()))
      this.#renewalsToWait = renewalsBeforeExpiry;
    this.#until = until;
  }
}
