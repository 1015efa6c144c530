import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { mapFees } from '../money/price/fee-kinds.ts';
import { walletSchema } from './admin.ts';
import {
  count,
  credits,
  data,
  inlineRecord,
  record,
  requestStatus,
  type Shape,
  text,
  time,
  trafficMode,
} from './fields.ts';
import { openRouterDetails, openRouterGeneration } from './openrouter.ts';
import { type Cap, cappedSchema, datesQuery, limitQuery, offsetQuery } from './query.ts';
import { costBreakdownSchema, receiptSchema } from './receipt.ts';
import { csv, type RouteDoc } from './route-doc.ts';

// Query parameters.

/** Ten years. Limited because each month takes the store a few lookups. */
export const monthsCap: Cap = { defaultValue: 12, max: 120 };
export const monthsSchema = cappedSchema(monthsCap);

const groupByProperties = ['model', 'provider', 'api_key_id', 'traffic_mode'] as const;
export type GroupBy = (typeof groupByProperties)[number];

export const statusSchema = Type.Enum(['success', 'error']);
export const groupBySchema = Type.Enum([...groupByProperties], {
  description: 'Also return the sums for each value of this property.',
});

const granularities = ['day', 'hour'] as const;
export type Granularity = (typeof granularities)[number];
export const granularitySchema = Type.Enum([...granularities], {
  description:
    'The length of a bucket of `timeseries`. `hour` covers one day, and returns a day if its ' +
    'hours are incomplete.',
});

const keyQuery = { api_key_id: Type.String({ description: 'Only requests with this key.' }) };
const logQuery = {
  status: statusSchema,
  model: Type.String({ description: 'The alias that was requested.' }),
  ...datesQuery,
  ...keyQuery,
};
const monthQuery = {
  month: Type.String({
    pattern: '^(?:19[7-9]\\d|[2-9]\\d{3})-(?:0[1-9]|1[0-2])$',
    description: 'YYYY-MM in UTC; by default the current month.',
  }),
};

// Analytics.

const spend = mapFees(
  ({ sumName }) => sumName,
  () => credits(),
);

const latency = Type.Number({ description: 'Average time to the end of the answer.' });

const summarySchema = record('UsageSummary', {
  total_requests: count(),
  successful_requests: count(),
  failed_requests: count(),
  error_rate: Type.Number({ description: 'Percent.' }),
  total_tokens: count(),
  prompt_tokens: count(),
  completion_tokens: count(),
  ...spend,
  search_requests: count(),
  total_spend: credits(),
  avg_latency_ms: latency,
});
export type UsageSummaryObject = Shape<typeof summarySchema>;

const bucketSchema = record('UsageBucket', {
  date: Type.String({ format: 'date' }),
  hour: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 23, description: 'UTC, with `granularity=hour`.' }),
  ),
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
export type UsageBucketObject = Shape<typeof bucketSchema>;

const groupSchema = record('UsageGroup', {
  value: nullable(text('The value, or null for the sums of all values that are not listed.')),
  summary: summarySchema,
  timeseries: Type.Array(bucketSchema),
});
export type UsageGroupObject = Shape<typeof groupSchema>;

const analyticsSchema = record('Analytics', {
  period: inlineRecord({ start_date: time(), end_date: time() }),
  granularity: Type.Optional(Type.Literal('hour')),
  summary: summarySchema,
  timeseries: Type.Array(bucketSchema),
  group_by: Type.Optional(oneOf(...groupByProperties)),
  groups: Type.Optional(Type.Array(groupSchema)),
});
export type AnalyticsObject = Shape<typeof analyticsSchema>;

// Credits.

const currentPeriodSchema = inlineRecord({
  start_date: time(),
  end_date: time(),
  requests: count(),
  ...spend,
  total_spend: credits(),
});
export type CurrentPeriodObject = Shape<typeof currentPeriodSchema>;

const keyQuotaSchema = inlineRecord({
  limit: nullable(credits()),
  used: credits(),
  remaining: nullable(credits()),
  resets_at: nullable(time()),
});
export type KeyQuotaObject = Shape<typeof keyQuotaSchema>;

const creditsSchema = record('Credits', {
  balance: inlineRecord({ ...walletSchema.properties, usd: Type.Number() }),
  credits_per_usd: count('How many credits equal 1 US dollar.'),
  current_period: currentPeriodSchema,
  lifetime: inlineRecord({
    granted: credits(),
    spent: credits(),
    adjusted: credits('The sum of corrections.'),
    requests: count(),
  }),
  quotas: inlineRecord({
    requests_per_minute: count(),
    concurrent_requests: count(),
    key: keyQuotaSchema,
  }),
});
export type CreditsObject = Shape<typeof creditsSchema>;

const creditTotalsSchema = record('CreditTotals', {
  total_credits: credits(),
  total_usage: credits(),
});
export type CreditTotalsObject = Shape<typeof creditTotalsSchema>;

const statementMonthSchema = record('StatementMonth', {
  month: text('YYYY-MM.'),
  opening_balance: credits(),
  granted: credits(),
  corrected: credits('The sum of corrections.'),
  charged: credits(),
  closing_balance: credits(),
});
export type StatementMonthObject = Shape<typeof statementMonthSchema>;

// Requests.

const logSchema = record('LogRow', {
  id: text(),
  request_id: text(),
  model: text('The alias that was requested.'),
  provider: text('Empty if no provider answered.'),
  status: requestStatus,
  traffic_mode: trafficMode,
  tokens: inlineRecord({ prompt: count(), completion: count(), total: count() }),
  cost: credits(),
  cost_breakdown: costBreakdownSchema,
  skills_used: Type.Array(Type.String()),
  billing_note: nullable(text()),
  latency_ms: count(),
  created_at: time(),
  api_key_id: text(),
  error: nullable(text('The error type of a failed request.')),
  job_id: nullable(text('The job that the request belongs to.')),
  user: nullable(text('The end user that the request named.')),
});
export type LogObject = Shape<typeof logSchema>;

const logPageSchema = inlineRecord({
  logs: Type.Array(logSchema),
  pagination: inlineRecord({
    total: count(),
    limit: count(),
    offset: count(),
    has_more: Type.Boolean(),
  }),
});
export type LogPageObject = Shape<typeof logPageSchema>;

const generationFields = {
  id: text(),
  status: oneOf('in_progress', 'success', 'error'),
  model: text(),
  provider_name: text(),
  created_at: time(),
  tokens_prompt: count(),
  tokens_completion: count(),
  latency: count('Milliseconds to the first byte.'),
  generation_time: count('Milliseconds to the end of the answer.'),
  finish_reason: text(),
  total_cost: credits(),
  usage: credits('The same as `total_cost`.'),
  streamed: Type.Boolean(),
  cancelled: Type.Boolean(),
  native_tokens_prompt: nullable(count()),
  native_tokens_completion: nullable(count()),
};
const generationSchema = record('Generation', generationFields);
export type GenerationObject = Shape<typeof generationSchema>;

const openRouterGenerationSchema = record('OpenRouterGeneration', {
  ...generationFields,
  ...openRouterGeneration,
});
export type OpenRouterGenerationObject = Shape<typeof openRouterGenerationSchema>;

export const customerDocs = {
  logs: {
    summary: 'List requests',
    details: 'Newest first.',
    query: { ...limitQuery, ...logQuery, ...offsetQuery },
    responses: { 200: logPageSchema },
  },
  logsCsv: { summary: 'Export requests', query: logQuery, responses: { 200: csv } },
  analytics: {
    summary: 'Get usage and spend by day or hour',
    query: {
      ...datesQuery,
      ...keyQuery,
      group_by: groupBySchema,
      granularity: granularitySchema,
    },
    responses: { 200: analyticsSchema },
  },
  analyticsCsv: {
    summary: 'Export usage by day, model, provider, traffic mode, and key',
    query: { ...datesQuery, ...keyQuery },
    responses: { 200: csv },
  },
  statementCsv: {
    summary: 'Export the statement of a month',
    query: monthQuery,
    responses: { 200: csv },
  },
  credits: {
    summary: 'Get the balance, the current month, and quotas',
    responses: { 200: creditsSchema },
  },
  totals: {
    summary: 'Get the total credits granted and spent',
    responses: { 200: data(creditTotalsSchema) },
  },
  receipt: {
    summary: 'Get the receipt of a request',
    path: { id: 'The `x-request-id` of the request.' },
    responses: { 200: data(receiptSchema) },
  },
  statements: {
    summary: 'List monthly statements',
    query: { months: monthsSchema },
    responses: { 200: data(Type.Array(statementMonthSchema)) },
  },
  generation: {
    summary: 'Get the outcome of a request',
    details: openRouterDetails,
    query: {
      id: Type.String({
        minLength: 1,
        description: 'The `x-request-id`, or the ID of a chat completion.',
      }),
    },
    queryRequired: ['id'],
    responses: { 200: data(Type.Union([generationSchema, openRouterGenerationSchema])) },
  },
} satisfies Record<string, RouteDoc>;
