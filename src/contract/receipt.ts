import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { count, credits, inlineRecord, record, text, time, trafficMode } from './route-doc.ts';

/** One request in full, as `record/receipt.ts` writes it. */

export const breakdown = record('CostBreakdown', {
  model_charge: credits('For shared capacity.'),
  byok_platform_fee: credits('On calls with an own account.'),
  managed_tool_fee: credits('Web search and the like.'),
  agent_runtime_fee: credits(),
  total_charge: credits(),
});

export const outcome = oneOf('success', 'error');

export const receipt = record(
  'Receipt',
  {
    request_id: text(),
    api_key_id: text(),
    operation: text(),
    job_id: nullable(text('The job that it was a piece of.')),
    model: text('As it was asked for.'),
    answered_by: inlineRecord({ model: nullable(text()), provider: nullable(text()) }),
    status: outcome,
    error: nullable(text()),
    failure: nullable(text('Why it failed, in a sentence.')),
    traffic_mode: trafficMode,
    tokens: inlineRecord({
      input: count('Without those of the cache, and of sounds.'),
      audio: count('Those of sounds, where the provider counts them apart.'),
      cache_read: count(),
      cache_write: count(),
      cache_write_1h: count('Those to be kept for an hour.'),
      prompt: count('All of the above.'),
      completion: count(),
      reasoning: count('A part of the completion.'),
      total: count(),
    }),
    usage_estimated: Type.Boolean({ description: 'The provider told no usage.' }),
    lines: Type.Array(
      record('ReceiptLine', {
        price: text('The name of the price, as in the configuration.'),
        quantity: Type.Number({ description: 'Tokens, characters, bytes, images or seconds.' }),
        per: count('How many of them one price buys.'),
        usd: text('The price, a decimal number.'),
        credits: text('Exact, with decimals; only the sum of a fee is rounded, up.'),
      }),
    ),
    prices: nullable(
      Type.Record(Type.String(), Type.String(), { description: 'US dollars, by name.' }),
    ),
    prices_above_tokens: nullable(count('The length of a prompt from which they apply.')),
    cost: credits(),
    usd: Type.Number({ description: 'The cost in US dollars.' }),
    cost_breakdown: breakdown,
    not_charged: credits('What the lines come to beyond the fee for them, such as written off.'),
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
    attempts: Type.Array(
      record('Attempt', {
        provider: text(),
        model: text(),
        own_account: Type.Optional(Type.Boolean({ description: 'Your own account was asked.' })),
        outcome: text(),
        status: nullable(count('HTTP, if the provider answered.')),
        message: nullable(text('What the provider said, unless that is about an account of ours.')),
        ms: Type.Number(),
      }),
    ),
    created_at: time(),
    generation_url: text('Where the same request is in the words of GET /v1/generation.'),
  },
  'Every number that the charge was made of.',
);
