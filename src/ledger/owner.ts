import type { Caller } from '../core/caller.ts';
import { limitPeriod } from '../core/limit-period.ts';
import { allTime, dayOf, isoDay } from '../record/period.ts';

/**
 * Whose credits an account counts. A wallet is prepaid; a key's account is its limit, granted anew
 * each period, so that limits are enforced by the very mechanism that guards wallets.
 */
export interface Owner {
  /** `tenant:<id>`, `key:<id>` or `key:<id>:<day the period began>`. */
  readonly name: string;
  readonly tenantId: string;
  /** Null for a wallet, whose grants are booked apart. */
  readonly allowance: Allowance | null;
}

/**
 * What a key may spend in a period. What it spent on those days before it had this limit counts as
 * well, so that a changed limit never begins anew.
 */
export interface Allowance {
  readonly credits: number;
  readonly keyId: string;
  /** Days since 1970; the period is over when `endDay` begins. */
  readonly firstDay: number;
  readonly endDay: number;
}

export function walletName(tenantId: string): string {
  return `tenant:${tenantId}`;
}

/** Every other account is a key's limit. */
export function isWalletName(name: string): boolean {
  return name.startsWith('tenant:');
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
  const { keyId, tenantId, limitReset, limitCredits: credits } = caller;
  const { from, until } = limitReset ? limitPeriod(limitReset, now) : allTime;
  const [firstDay, endDay] = [dayOf(from), dayOf(until)];
  const name = limitReset ? `key:${keyId}:${isoDay(firstDay)}` : `key:${keyId}`;
  return { name, tenantId, allowance: { credits, keyId, firstDay, endDay } };
}
