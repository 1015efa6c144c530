import type { CacheMode, LimitReset, Scope } from '../../core/caller.ts';
import { limitPeriod } from '../../core/limit-period.ts';
import type { ApiKey } from '../directory.ts';
import { type Spending, spentInPeriod } from './key-spending.ts';

/** A key as its owner reads it, in HTTP answers and in `--json`. Never holds the secret. */
export interface KeyObject {
  readonly id: string;
  readonly label: string;
  readonly name: string;
  readonly disabled: boolean;
  readonly limit: number | null;
  readonly limit_remaining: number | null;
  readonly limit_reset: LimitReset | null;
  readonly limit_resets_at: string | null;
  readonly usage: number;
  readonly usage_daily: number;
  readonly usage_weekly: number;
  readonly usage_monthly: number;
  readonly models: readonly string[] | null;
  readonly scopes: readonly Scope[] | null;
  readonly requests_per_minute: number | null;
  /** Null: as the gateway is configured. */
  readonly cache: CacheMode | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
}

export function keyObject(key: ApiKey, spending: Spending, now: number): KeyObject {
  const { limitCredits, limitReset } = key;
  const remaining =
    limitCredits === null ? null : Math.max(0, limitCredits - spentInPeriod(spending, limitReset));
  return {
    id: key.id,
    label: key.label,
    name: key.name,
    disabled: key.disabled,
    limit: limitCredits,
    limit_remaining: remaining,
    limit_reset: limitReset,
    limit_resets_at: limitReset === null ? null : isoTime(limitPeriod(limitReset, now).until),
    usage: spending.total,
    usage_daily: spending.daily,
    usage_weekly: spending.weekly,
    usage_monthly: spending.monthly,
    models: key.models,
    scopes: key.scopes,
    requests_per_minute: key.requestsPerMinute,
    cache: key.cacheMode,
    created_at: isoTime(key.createdAt),
    updated_at: isoTime(key.updatedAt),
    expires_at: key.expiresAt === null ? null : isoTime(key.expiresAt),
    last_used_at: key.lastUsedAt === null ? null : isoTime(key.lastUsedAt),
  };
}

function isoTime(time: number): string {
  return new Date(time).toISOString();
}
