import { Type } from 'typebox';
import { nullable, oneOf } from '../core/schema.ts';
import { count, inlineRecord, text } from './fields.ts';

// Fields of responses below `/api/v1`. OpenRouter's SDKs require all of them, even those that are
// always null here, and expect dollars.

export const openRouterDetails =
  'Below `/api/v1`, amounts are dollars instead of credits, and the object has the fields that ' +
  "OpenRouter's clients require.";

const usd = (description = 'Dollars.') => Type.Number({ description });

/** OpenRouter's fields of a generation, in addition to ours. */
export const openRouterGeneration = {
  total_cost: usd(),
  usage: usd('The same as `total_cost`.'),
  request_id: text('The same as `id`.'),
  api_type: nullable(oneOf('completions', 'embeddings', 'tts', 'stt')),
  is_byok: Type.Boolean({ description: "True if the tenant's own provider key was used." }),
  external_user: nullable(text('The end user that the request named.')),
  native_finish_reason: nullable(text()),
  native_tokens_cached: nullable(count()),
  native_tokens_reasoning: nullable(count()),
  provider_responses: Type.Array(
    inlineRecord({
      provider_name: text(),
      status: nullable(Type.Integer()),
      latency: count('Milliseconds.'),
      is_byok: Type.Boolean(),
    }),
    { description: 'The attempts of the request, in order.' },
  ),
  origin: Type.Literal(''),
  app_id: Type.Null(),
  cache_discount: Type.Null(),
  http_referer: Type.Null(),
  moderation_latency: Type.Null(),
  native_tokens_completion_images: Type.Null(),
  num_fetches: Type.Null(),
  num_input_audio_prompt: Type.Null(),
  num_media_completion: Type.Null(),
  num_media_prompt: Type.Null(),
  num_search_results: Type.Null(),
  response_cache_source_id: Type.Null(),
  router: Type.Null(),
  service_tier: Type.Null(),
  session_id: Type.Null(),
  upstream_id: Type.Null(),
  upstream_inference_cost: Type.Null(),
  user_agent: Type.Null(),
  web_search_engine: Type.Null(),
};

/** Not counted: what a tenant pays its own providers. */
const byokUsage = Type.Literal(0);

/** OpenRouter's fields of the calling key, in addition to ours. */
export const openRouterKey = {
  limit: nullable(usd()),
  limit_remaining: nullable(usd()),
  usage: usd(),
  usage_daily: usd(),
  usage_weekly: usd(),
  usage_monthly: usd(),
  byok_usage: byokUsage,
  byok_usage_daily: byokUsage,
  byok_usage_weekly: byokUsage,
  byok_usage_monthly: byokUsage,
  include_byok_in_limit: Type.Literal(false),
  is_free_tier: Type.Literal(false),
  is_management_key: Type.Boolean(),
  is_provisioning_key: Type.Boolean({ description: 'The same as `is_management_key`.' }),
  creator_user_id: Type.Null(),
  rate_limit: inlineRecord({ requests: count(), interval: Type.Literal('1m'), note: text() }),
};
