import type { Caller, LimitReset } from '../core/caller.ts';

/**
 * Whose credits an account counts. A wallet is prepaid; a key's account is its limit, granted anew
 * each period, so that limits are enforced by the very mechanism that guards wallets.
 */
export interface Owner {
  /** `tenant:<id>`, `key:<id>` or `key:<id>:<day the period began>`. */
  readonly name: string;
  readonly tenantId: string;
  /** What a key may spend in this period; null for a wallet, whose grants are booked apart. */
  readonly allowance: number | null;
}

export function walletName(tenantId: string): string {
  return `tenant:${tenantId}`;
}

export function walletOwner(tenantId: string): Owner {
  return { name: walletName(tenantId), tenantId, allowance: null };
}

const wallets = new WeakMap<Caller, Owner>();

/** Whose wallet a caller pays from. Callers stay in memory from request to request. */
export function walletOf(caller: Caller): Owner {
  let wallet = wallets.get(caller);
  if (!wallet) {
    wallet = walletOwner(caller.tenantId);
    wallets.set(caller, wallet);
  }
  return wallet;
}

/** Undefined for a key without a limit. */
export function keyOwner(caller: Caller, now: number): Owner | undefined {
  if (caller.limitCredits === null) return undefined;
  const period = caller.limitReset ? `:${isoDay(periodStart(caller.limitReset, now))}` : '';
  return {
    name: `key:${caller.keyId}${period}`,
    tenantId: caller.tenantId,
    allowance: caller.limitCredits,
  };
}

/** The UTC midnight at which the running period began; weeks begin on Monday. */
export function periodStart(reset: LimitReset, now: number): number {
  const date = new Date(now);
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
  if (reset === 'monthly') return Date.UTC(year, month, 1);
  if (reset === 'weekly') return Date.UTC(year, month, day - ((date.getUTCDay() + 6) % 7));
  return Date.UTC(year, month, day);
}

function isoDay(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}
