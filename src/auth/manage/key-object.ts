import { limitPeriod } from '../../core/limit-period.ts';
import type { ApiKey } from '../directory.ts';
import { type Spending, spentInPeriod } from './key-spending.ts';

export type KeyObject = Readonly<ReturnType<typeof keyObject>>;

/** A key as its owner reads it, in HTTP answers and in `--json`. Never holds the secret. */
export function keyObject(key: ApiKey, spending: Spending, now: number) {
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
    // Null: as the gateway is configured.
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
