/** What one key has used of one minute. */
export interface WindowCount {
  /** Minutes since 1970. */
  readonly window: number;
  readonly requests: number;
  readonly tokens: number;
}

export interface RateLimits {
  readonly requests: number;
  /** `null`: as many as the credits allow. */
  readonly tokens: number | null;
}

export interface SharedTake extends WindowCount {
  /** Whether this request was allowed, and so is counted. */
  readonly allowed: boolean;
  /** By the clock that all processes share; epoch milliseconds. */
  readonly now: number;
}

export interface SlotResult {
  readonly isFree: boolean;
  /** Places taken by all processes together, this one included. */
  readonly running: number;
}

/**
 * Counts that all processes share. Every method may answer `undefined`: the shared memory did not
 * respond in time, and this process counts by itself.
 */
export interface SharedCounts {
  /** While false, asking is a waste of time. */
  readonly isUp: boolean;
  /** `known` is the least that was counted before, in case the shared memory has lost it. */
  take(
    tenantId: string,
    keyId: string,
    limits: RateLimits,
    known: WindowCount,
  ): Promise<SharedTake | undefined>;
  addTokens(tenantId: string, keyId: string, tokens: number): Promise<WindowCount | undefined>;
  /** Gives the places in `left` back, then takes one, which ends by itself unless renewed. */
  enter(
    tenantId: string,
    slot: string,
    limit: number,
    released: readonly string[],
  ): Promise<SlotResult | undefined>;
  leave(tenantId: string, slots: readonly string[]): Promise<void>;
  renew(tenantId: string, slots: readonly string[]): Promise<void>;
}
