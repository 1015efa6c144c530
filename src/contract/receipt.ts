import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { mapFees } from '../money/price/fee-kinds.ts';
import {
  count,
  credits,
  inlineRecord,
  record,
  requestStatus,
  type Shape,
  text,
  time,
  trafficMode,
} from './fields.ts';

// The receipt for one request: every number that its charge was computed from.

export const costBreakdownSchema = record('CostBreakdown', {
  ...mapFees(
    ({ name }) => name,
    (_, { description }) => credits(description),
  ),
  total_charge: credits(),
});
export type CostBreakdownObject = Shape<typeof costBreakdownSchema>;

const receiptTokensSchema = inlineRecord({
  input: count('Without cached and audio tokens.'),
  audio: count('Audio input, if the provider counts it separately.'),
  cache_read: count(),
  cache_write: count(),
  cache_write_1h: count('Written to a cache with a lifetime of 1 hour.'),
  prompt: count('The sum of the above.'),
  completion: count(),
  reasoning: count('Included in `completion`.'),
  total: count(),
});
export type ReceiptTokensObject = Shape<typeof receiptTokensSchema>;

const receiptLineSchema = record('ReceiptLine', {
  price: text('The name of the price in the configuration.'),
  quantity: Type.Number({ description: 'Tokens, characters, bytes, images, or seconds.' }),
  per: count('How many units the price is for.'),
  usd: text('The price, as a decimal number.'),
  credits: text('The exact amount. Only the total of each fee is rounded up to whole credits.'),
});
export type ReceiptLineObject = Shape<typeof receiptLineSchema>;

const attemptFields = {
  provider: text(),
  model: text(),
  own_account: Type.Optional(Type.Boolean({ description: 'Your own provider key was used.' })),
  dropped: Type.Optional(
    Type.Array(text(), { description: "Fields of the request that the provider didn't receive." }),
  ),
  outcome: text(),
  status: nullable(count('The HTTP status, if the provider answered.')),
  message: nullable(text("The provider's error; null if it concerns the operator's account.")),
  ms: Type.Number(),
};
const attemptSchema = record('Attempt', attemptFields);
export type AttemptObject = Shape<typeof attemptSchema>;

const marginSchema = record(
  'Margin',
  {
    plan: text('The name of the plan.'),
    factor_basis_points: count('10000 is the list price.'),
    surcharge: usdByName('Added to each list price after the factor.'),
    list_prices: usdByName('The list prices.'),
    list: text('The exact credits at list prices.'),
    margin: text('The exact credits that the plan adds. Negative for a discount.'),
    charge: text('The sum of both, before it is rounded up.'),
  },
  'What a plan adds to list prices.',
);
export type MarginObject = Shape<typeof marginSchema>;

function usdByName(description: string) {
  return Type.Record(Type.String(), Type.String(), { description: `US dollars. ${description}` });
}

const receiptFields = {
  request_id: text(),
  api_key_id: text(),
  operation: text(),
  job_id: nullable(text('The job that the request belongs to.')),
  model: text('The alias that was requested.'),
  answered_by: inlineRecord({ model: nullable(text()), provider: nullable(text()) }),
  status: requestStatus,
  error: nullable(text()),
  outcome: oneOf('complete', 'interrupted', 'canceled', 'failed'),
  failure: nullable(text('Why the request failed, in one sentence.')),
  traffic_mode: trafficMode,
  tokens: receiptTokensSchema,
  usage_estimated: Type.Boolean({ description: 'The provider reported no usage.' }),
  lines: Type.Array(receiptLineSchema),
  prices: nullable(
    Type.Record(Type.String(), Type.String(), { description: 'US dollars, by name.' }),
  ),
  prices_from: nullable(time('When these prices took effect. Null if they have no start time.')),
  prices_above_tokens: nullable(count('The prompt length above which these prices apply.')),
  cost: credits(),
  usd: Type.Number({ description: 'The cost in US dollars.' }),
  cost_breakdown: costBreakdownSchema,
  not_charged: credits('The credits in these lines that were not charged, such as write-offs.'),
  search_requests: count(),
  skills_used: Type.Array(Type.String()),
  billing_note: nullable(text()),
  finish_reason: nullable(text()),
  streamed: Type.Boolean(),
  cancelled: Type.Boolean(),
  cache_hit: Type.Boolean(),
  first_byte_ms: nullable(Type.Number()),
  latency_ms: count(),
  user: nullable(text('The end user that the request named.')),
  attempts: Type.Array(attemptSchema),
  created_at: time(),
  generation_url: text('The URL of this request at GET /v1/generation.'),
};

export const receiptSchema = record(
  'Receipt',
  receiptFields,
  'Every number that the charge was computed from.',
);
export type ReceiptObject = Shape<typeof receiptSchema>;

export const operatorReceiptSchema = record(
  'OperatorReceipt',
  {
    ...receiptFields,
    attempts: Type.Array(
      record('OperatorAttempt', {
        ...attemptFields,
        key: Type.Optional(text("The name of the provider's key, if it has several.")),
        message: nullable(text("The provider's error.")),
      }),
    ),
    margin: nullable(marginSchema),
    tenant: inlineRecord({ id: text(), name: nullable(text()) }),
    key: inlineRecord({ id: text(), name: nullable(text()), label: nullable(text()) }),
  },
  'The receipt of a tenant, with list prices, the margin, and all messages of providers.',
);
export type OperatorReceiptObject = Shape<typeof operatorReceiptSchema>;
