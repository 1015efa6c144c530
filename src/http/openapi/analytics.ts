import { Type } from 'typebox';
import { nullable, oneOf } from '../../core/schema-builders.ts';
import { splits } from '../../record/analytics-split.ts';
import { count, credits, part, record, text, time } from './doc.ts';

/** Sums, as `record/analytics.ts` makes them. */

const spend = {
  shared_model_spend: credits(),
  byok_platform_fees: credits(),
  managed_tool_fees: credits(),
  agent_runtime_fees: credits(),
};

const latency = Type.Number({ description: 'Of a whole answer.' });

const summary = record('UsageSummary', {
  total_requests: count(),
  successful_requests: count(),
  failed_requests: count(),
  error_rate: Type.Number({ description: 'Per cent.' }),
  total_tokens: count(),
  prompt_tokens: count(),
  completion_tokens: count(),
  ...spend,
  search_requests: count(),
  total_spend: credits(),
  avg_latency_ms: latency,
});

const day = record('UsageDay', {
  date: Type.String({ format: 'date' }),
  requests: count(),
  failed_requests: count(),
  prompt_tokens: count(),
  completion_tokens: count(),
  tokens: count(),
  ...spend,
  search_requests: count(),
  spend: credits(),
  avg_latency_ms: latency,
});

const group = record('UsageGroup', {
  value: nullable(text('What its requests share; null for all that are not listed.')),
  summary,
  timeseries: Type.Array(day),
});

export const periodSpend = { ...spend, total_spend: credits() };

export const analytics = record('Analytics', {
  period: part({ start_date: time(), end_date: time() }),
  summary,
  timeseries: Type.Array(day),
  group_by: Type.Optional(oneOf(...splits)),
  groups: Type.Optional(Type.Array(group)),
});
