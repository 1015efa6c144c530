import { Type } from 'typebox';
import { nullable } from '../../core/schema-builders.ts';
import { wallet } from './admin.ts';
import { periodSpend } from './analytics.ts';
import { count, credits, part, record, time } from './doc.ts';

/** A wallet as its owner reads it. */
export const creditsRecord = record('Credits', {
  balance: part({ ...wallet.properties, usd: Type.Number() }),
  credits_per_usd: count('How many are a US dollar.'),
  current_period: part({
    start_date: time(),
    end_date: time(),
    requests: count(),
    ...periodSpend,
  }),
  lifetime: part({
    granted: credits(),
    spent: credits(),
    adjusted: credits(),
    requests: count(),
  }),
  quotas: part({
    requests_per_minute: count(),
    concurrent_requests: count(),
    key: part({
      limit: nullable(credits()),
      used: credits(),
      remaining: nullable(credits()),
      resets_at: nullable(time()),
    }),
  }),
});
