import { Type } from 'typebox';
import { count, credits, text, time } from './doc.ts';

/** Sums, as `record/analytics.ts` makes them. */

const spend = {
  shared_model_spend: credits(),
  byok_platform_fees: credits(),
  managed_tool_fees: credits(),
  agent_runtime_fees: credits(),
};

const summary = Type.Object(
  {
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
    avg_latency_ms: Type.Number(),
  },
  { title: 'UsageSummary' },
);

const day = Type.Object(
  {
    date: Type.String({ format: 'date' }),
    requests: count(),
    prompt_tokens: count(),
    completion_tokens: count(),
    tokens: count(),
    ...spend,
    search_requests: count(),
    spend: credits(),
  },
  { title: 'UsageDay' },
);

export const periodSpend = { ...spend, total_spend: credits() };

export const analytics = Type.Object(
  {
    period: Type.Object({ start_date: time(), end_date: time() }),
    summary,
    timeseries: Type.Array(day),
    group_by: Type.Optional(text()),
    groups: Type.Optional(Type.Array(Type.Object({}))),
  },
  { title: 'Analytics' },
);
