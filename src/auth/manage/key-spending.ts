import type { LimitReset } from '../../core/caller.ts';

/** Whole credits that a key has spent, ever and in the running UTC day, week and month. */
export interface Spending {
  readonly total: number;
  readonly daily: number;
  readonly weekly: number;
  readonly monthly: number;
}

export const nothingSpent: Spending = { total: 0, daily: 0, weekly: 0, monthly: 0 };

/** The store that the key object needs. A key that never spent anything may be absent. */
export interface KeySpending {
  spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>>;
}

/** What counts against a limit that resets this way. */
export function spentInPeriod(spending: Spending, reset: LimitReset | null): number {
  return reset === null ? spending.total : spending[reset];
}
