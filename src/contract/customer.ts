import { Type } from 'typebox';
import { isKeyId } from '../auth/api-key.ts';
import { skillDescriptionMax, skillInstructionsMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { invalidRequest, notFound } from '../core/errors.ts';
import { nullable, oneOf } from '../core/schema.ts';
import { type Split, splitProperties } from '../records/analytics.ts';
import { type PeriodQuery, readPeriod } from '../records/period.ts';
import type { LogFilter, LogReads } from '../records/request-log.ts';
import { wallet } from './admin.ts';
import { cappedSchema, limitQuery, offsetQuery, readCapped, readParameter } from './query.ts';
import { breakdown, outcome, receipt } from './receipt.ts';
import {
  count,
  credits,
  csv,
  data,
  deleted,
  inlineRecord,
  type RouteDoc,
  record,
  text,
  time,
  trafficMode,
} from './route-doc.ts';

/** The query parameters of customers' reads. */

/** Ten years: each month costs the store a few lookups. */
const months = { defaultValue: 12, max: 120 };
const monthsSchema = cappedSchema(months);

const statusSchema = Type.Enum(['success', 'error']);
const groupBySchema = Type.Enum([...splitProperties], { description: 'Divide the sums by this.' });

const keyQuery = { api_key_id: Type.String({ description: 'Of one key only.' }) };
const datesQuery = {
  start_date: Type.String({ description: 'YYYY-MM-DD or ISO 8601, UTC, inclusive.' }),
  end_date: Type.String({ description: 'YYYY-MM-DD or ISO 8601, UTC, inclusive.' }),
};
const logQuery = {
  status: statusSchema,
  model: Type.String({ description: 'The alias that was asked for.' }),
  ...datesQuery,
  ...keyQuery,
};

type KeyLookup = Pick<LogReads, 'ownsKey'>;

export async function readLogFilter(
  query: URLSearchParams,
  { tenantId }: Caller,
  keys: KeyLookup,
): Promise<LogFilter> {
  return {
    tenantId,
    ...readPeriod(datesOf(query)),
    status: readParameter(query, 'status', statusSchema) ?? null,
    model: readModel(query),
    keyId: await readKeyId(query, tenantId, keys),
  };
}

export function datesOf(query: URLSearchParams): PeriodQuery {
  return { start: query.get('start_date'), end: query.get('end_date') };
}

export function readMonths(query: URLSearchParams): number {
  return readCapped(query, 'months', monthsSchema, months);
}

/** A key of another tenant is treated like one that does not exist. */
export async function readKeyId(
  query: URLSearchParams,
  tenantId: string,
  keys: KeyLookup,
): Promise<string | null> {
  const id = query.get('api_key_id');
  if (id === null) return null;
  const isKnown = isKeyId(id) && (await keys.ownsKey(tenantId, id));
  if (!isKnown) throw notFound('There is no key with this id.', 'api_key_id');
  return id;
}

export function readSplit(query: URLSearchParams): Split | null {
  return readParameter(query, 'group_by', groupBySchema) ?? null;
}

function readModel(query: URLSearchParams): string | null {
  const model = query.get('model');
  // Postgres refuses texts with this character; no alias has it.
  if (model?.includes('\0')) throw invalidRequest('model must not contain NUL.', 'model');
  return model;
}

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

const periodSpend = { ...spend, total_spend: credits() };

const analytics = record('Analytics', {
  period: inlineRecord({ start_date: time(), end_date: time() }),
  summary,
  timeseries: Type.Array(day),
  group_by: Type.Optional(oneOf(...splitProperties)),
  groups: Type.Optional(Type.Array(group)),
});

/** A wallet as its owner reads it. */
const creditsRecord = record('Credits', {
  balance: inlineRecord({ ...wallet.properties, usd: Type.Number() }),
  credits_per_usd: count('How many are a US dollar.'),
  current_period: inlineRecord({
    start_date: time(),
    end_date: time(),
    requests: count(),
    ...periodSpend,
  }),
  lifetime: inlineRecord({
    granted: credits(),
    spent: credits(),
    adjusted: credits(),
    requests: count(),
  }),
  quotas: inlineRecord({
    requests_per_minute: count(),
    concurrent_requests: count(),
    key: inlineRecord({
      limit: nullable(credits()),
      used: credits(),
      remaining: nullable(credits()),
      resets_at: nullable(time()),
    }),
  }),
});

/** What a tenant reads of its own requests and credits. */

const log = record('LogRow', {
  id: text(),
  request_id: text(),
  model: text('As it was asked for.'),
  provider: text('Empty when nobody answered.'),
  status: outcome,
  traffic_mode: trafficMode,
  tokens: inlineRecord({ prompt: count(), completion: count(), total: count() }),
  cost: credits(),
  cost_breakdown: breakdown,
  skills_used: Type.Array(Type.String()),
  billing_note: nullable(text()),
  latency_ms: count(),
  created_at: time(),
  api_key_id: text('Of the key that made it.'),
  error: nullable(text('Why it failed, as one of the symbols of errors.')),
  job_id: nullable(text('The job that it was a piece of.')),
  user: nullable(text('The end user that the request named.')),
});

const logPage = inlineRecord({
  logs: Type.Array(log),
  pagination: inlineRecord({
    total: count(),
    limit: count(),
    offset: count(),
    has_more: Type.Boolean(),
  }),
});

const month = record('StatementMonth', {
  month: text('YYYY-MM.'),
  opening_balance: credits(),
  granted: credits(),
  corrected: credits(),
  charged: credits(),
  closing_balance: credits(),
});

const generation = record('Generation', {
  id: text(),
  model: text(),
  provider_name: text(),
  created_at: time(),
  tokens_prompt: count(),
  tokens_completion: count(),
  latency: count('Milliseconds to the first byte.'),
  generation_time: count('Milliseconds.'),
  finish_reason: text(),
  total_cost: credits(),
  usage: credits('The same.'),
  streamed: Type.Boolean(),
  cancelled: Type.Boolean(),
  native_tokens_prompt: nullable(count()),
  native_tokens_completion: nullable(count()),
});

const monthQuery = {
  month: Type.String({
    pattern: '^\\d{4}-\\d{2}$',
    description: 'YYYY-MM in UTC; the running month unless given.',
  }),
};

export const customerDocs = {
  logs: {
    summary: 'List requests',
    details: 'Newest first.',
    query: { ...limitQuery, ...logQuery, ...offsetQuery },
    answers: { 200: logPage },
  },
  logsCsv: { summary: 'Export requests', query: logQuery, answers: { 200: csv } },
  analytics: {
    summary: 'Sum up requests and spending',
    query: { ...datesQuery, ...keyQuery, group_by: groupBySchema },
    answers: { 200: analytics },
  },
  analyticsCsv: {
    summary: 'Export sums by day, model, provider, mode and key',
    query: { ...datesQuery, ...keyQuery },
    answers: { 200: csv },
  },
  statementCsv: {
    summary: 'Export the statement of a month',
    query: monthQuery,
    answers: { 200: csv },
  },
  credits: { summary: 'Look at balance, month and quotas', answers: { 200: creditsRecord } },
  totals: {
    summary: 'Everything granted and everything spent',
    answers: {
      200: data(record('CreditTotals', { total_credits: credits(), total_usage: credits() })),
    },
  },
  receipt: {
    summary: 'Look at one request in full',
    path: { id: 'The `x-request-id` of the request.' },
    answers: { 200: data(receipt) },
  },
  statements: {
    summary: 'List the statement month by month',
    query: { months: monthsSchema },
    answers: { 200: data(Type.Array(month)) },
  },
  generation: {
    summary: 'What became of a request',
    query: { id: text('The `x-request-id`, or the id inside a chat completion.') },
    queryRequired: ['id'],
    answers: { 200: data(generation) },
  },
} satisfies Record<string, RouteDoc>;

const skillFields = {
  name: text(),
  description: text(),
  source: oneOf('built_in', 'customer'),
  created_at: nullable(time()),
  updated_at: nullable(time()),
};
const skill = record('Skill', { ...skillFields, instructions: text() });
const skillPath = { name: '1 to 64 lower-case letters, digits and hyphens.' };

export const skillDocs = {
  list: {
    summary: 'List skills',
    details: 'Instructions that a chat request can name in `skills`.',
    answers: { 200: data(Type.Array(record('SkillSummary', skillFields))) },
  },
  show: { summary: 'Look at a skill', path: skillPath, answers: { 200: data(skill) } },
  put: {
    summary: 'Save a skill',
    path: skillPath,
    body: record('NewSkill', {
      description: Type.String({ minLength: 1, maxLength: skillDescriptionMax }),
      instructions: Type.String({ minLength: 1, maxLength: skillInstructionsMax }),
    }),
    example: { description: 'Our tone', instructions: 'Write short sentences.' },
    answers: { 200: data(skill) },
  },
  delete: { summary: 'Delete a skill', path: skillPath, answers: { 200: deleted } },
} satisfies Record<string, RouteDoc>;
