import type { Caller } from '../core/caller.ts';

/** Whose requests are counted. */
export type CountedKey = Pick<Caller, 'tenantId' | 'keyId'>;

/** One key's usage in one minute. */
export interface WindowCount {
  /** Minutes since 1970. */
  readonly window: number;
  readonly requests: number;
  readonly tokens: number;
  /** The requests of all keys of the tenant. Counted only if the tenant has a limit. */
  readonly tenantRequests: number;
}

export interface RateLimits {
  readonly requests: number;
  /** Null means that only the credits limit the tokens. */
  readonly tokens: number | null;
  /** For all keys of the tenant together. Null means that the tenant has no limit of its own. */
  readonly tenantRequests: number | null;
}

export interface SharedTake extends WindowCount {
  /** True if this request was allowed and counted. */
  readonly allowed: boolean;
  /** The time on the shared clock, in epoch milliseconds. */
  readonly now: number;
}

export interface SlotResult {
  readonly isFree: boolean;
  /** Slots in use by all processes, including this process. */
  readonly running: number;
}

/**
 * Counters shared by all processes. Every method resolves to undefined if Redis didn't respond in
 * time; this process then counts on its own.
 */
export interface SharedCounts {
  /** False while Redis is unreachable and calls are pointless. */
  readonly isUp: boolean;
  /** Counts one request. `known` is the local count, in case Redis has lost its data. */
  take(key: CountedKey, limits: RateLimits, known: WindowCount): Promise<SharedTake | undefined>;
  addTokens(key: CountedKey, tokens: number): Promise<WindowCount | undefined>;
  /** Releases the slots in `released`, then acquires `slot`, which expires unless it is renewed. */
  acquire(
    tenantId: string,
    slot: string,
    limit: number,
    released: readonly string[],
  ): Promise<SlotResult | undefined>;
  release(tenantId: string, slots: readonly string[]): Promise<void>;
  renew(tenantId: string, slots: readonly string[]): Promise<void>;
}
