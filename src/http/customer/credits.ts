import { walletObject } from '../../auth/manage/credits.ts';
import { type KeySpending, nothingSpent, spentInPeriod } from '../../auth/manage/key-spending.ts';
import type { Caller } from '../../core/caller.ts';
import { limitPeriod } from '../../core/limit-period.ts';
import { type AnalyticsReads, spendOf, sumOf } from '../../record/analytics.ts';
import { daysOf, isoTime, monthAround } from '../../record/period.ts';
import { totalCharge } from '../../record/request-record.ts';
import type { WalletReads } from '../../record/wallet-totals.ts';

export interface CreditsParts {
  readonly wallets: WalletReads;
  readonly analytics: AnalyticsReads;
  readonly spending: KeySpending;
  readonly creditsPerUsd: number;
  /** What holds for keys and tenants without limits of their own. */
  readonly limits: { readonly requestsPerMinute: number; readonly concurrentRequests: number };
  now(): number;
}

/** The wallet of the tenant, its month so far, and what the calling key may still do. */
export async function creditsObject(parts: CreditsParts, caller: Caller) {
  const { tenantId } = caller;
  const wallet = await parts.wallets.totals(tenantId);
  const { balance, granted, spent, adjusted, requests } = wallet;
  return {
    balance: { ...walletObject(wallet), usd: balance / parts.creditsPerUsd },
    credits_per_usd: parts.creditsPerUsd,
    current_period: await currentPeriod(parts, tenantId),
    lifetime: { granted, spent, adjusted, requests },
    quotas: {
      requests_per_minute: caller.requestsPerMinute ?? parts.limits.requestsPerMinute,
      concurrent_requests: caller.concurrentRequests ?? parts.limits.concurrentRequests,
      key: await keyQuota(parts, caller),
    },
  };
}

/** The UTC month, by the days on which requests arrived. */
async function currentPeriod({ analytics, now }: CreditsParts, tenantId: string) {
  const month = monthAround(now());
  const busy = await analytics.days({ tenantId, days: daysOf(month), keyId: null });
  const sums = sumOf(busy);
  return {
    start_date: isoTime(month.from),
    end_date: isoTime(month.until - 1),
    requests: sums.requests,
    ...spendOf(sums),
    total_spend: totalCharge(sums),
  };
}

async function keyQuota({ spending, now }: CreditsParts, caller: Caller) {
  const { tenantId, keyId, limitCredits, limitReset } = caller;
  const time = now();
  const spent = (await spending.spent(tenantId, [keyId], time)).get(keyId) ?? nothingSpent;
  const used = spentInPeriod(spent, limitReset);
  return {
    limit: limitCredits,
    used,
    remaining: limitCredits === null ? null : Math.max(0, limitCredits - used),
    resets_at: limitReset === null ? null : isoTime(limitPeriod(limitReset, time).until),
  };
}
