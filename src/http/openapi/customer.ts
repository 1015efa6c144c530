import { Type } from 'typebox';
import { nullable } from '../../core/schema-builders.ts';
import { datesQuery, groupBySchema, keyQuery, logQuery, monthsSchema } from '../customer/query.ts';
import { limitQuery, offsetQuery } from '../query.ts';
import { analytics } from './analytics.ts';
import { creditsRecord } from './credits.ts';
import {
  count,
  credits,
  csv,
  data,
  part,
  type RouteDoc,
  record,
  text,
  time,
  trafficMode,
} from './doc.ts';
import { breakdown, outcome, receipt } from './receipt.ts';

/** What a tenant reads of its own requests and credits. */

const log = record('LogRow', {
  id: text(),
  request_id: text(),
  model: text('As it was asked for.'),
  provider: text('Empty when nobody answered.'),
  status: outcome,
  traffic_mode: trafficMode,
  tokens: part({ prompt: count(), completion: count(), total: count() }),
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

const logPage = part({
  logs: Type.Array(log),
  pagination: part({
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
