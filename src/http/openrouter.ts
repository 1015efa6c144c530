import type { GenerationObject, OpenRouterGenerationObject } from '../contract/customer.ts';
import type { KeyObject, OpenRouterKeyObject } from '../contract/keys.ts';
import type { Caller } from '../core/caller.ts';
import type { OperationName } from '../core/request-info.ts';
import type { RequestRecord } from '../records/request-record.ts';

// Objects below `/api/v1`, where clients expect OpenRouter's fields, and dollars.

const apiTypes: Readonly<Record<OperationName, OpenRouterGenerationObject['api_type']>> = {
  chat: 'completions',
  embeddings: 'embeddings',
  speech: 'tts',
  transcription: 'stt',
  images: null,
};

export function openRouterGeneration(
  generation: GenerationObject,
  record: RequestRecord,
  creditsPerUsd: number,
): OpenRouterGenerationObject {
  const { usage, usageEstimated } = record;
  return {
    ...generation,
    total_cost: generation.total_cost / creditsPerUsd,
    usage: generation.usage / creditsPerUsd,
    request_id: generation.id,
    api_type: apiTypes[record.operation],
    is_byok: record.trafficMode === 'byok',
    external_user: record.endUser,
    native_finish_reason: record.finishReason,
    native_tokens_cached: usageEstimated ? null : usage.cacheReadTokens,
    native_tokens_reasoning: usageEstimated ? null : usage.reasoningTokens,
    provider_responses: record.attempts.map(({ provider, status, ms, own_account = false }) => ({
      provider_name: provider,
      status,
      latency: ms,
      is_byok: own_account,
    })),
    origin: '',
    app_id: null,
    cache_discount: null,
    http_referer: null,
    moderation_latency: null,
    native_tokens_completion_images: null,
    num_fetches: null,
    num_input_audio_prompt: null,
    num_media_completion: null,
    num_media_prompt: null,
    num_search_results: null,
    response_cache_source_id: null,
    router: null,
    service_tier: null,
    session_id: null,
    upstream_id: null,
    upstream_inference_cost: null,
    user_agent: null,
    web_search_engine: null,
  };
}

export interface KeyContext {
  readonly creditsPerUsd: number;
  /** The limit of keys and tenants without their own. */
  readonly requestsPerMinute: number;
}

export function openRouterKey(
  key: KeyObject,
  { kind, requestsPerMinute }: Caller,
  { creditsPerUsd, requestsPerMinute: defaultLimit }: KeyContext,
): OpenRouterKeyObject {
  const usd = (credits: number) => credits / creditsPerUsd;
  const isManagementKey = kind === 'management';
  return {
    ...key,
    limit: key.limit === null ? null : usd(key.limit),
    limit_remaining: key.limit_remaining === null ? null : usd(key.limit_remaining),
    usage: usd(key.usage),
    usage_daily: usd(key.usage_daily),
    usage_weekly: usd(key.usage_weekly),
    usage_monthly: usd(key.usage_monthly),
    byok_usage: 0,
    byok_usage_daily: 0,
    byok_usage_weekly: 0,
    byok_usage_monthly: 0,
    include_byok_in_limit: false,
    is_free_tier: false,
    is_management_key: isManagementKey,
    is_provisioning_key: isManagementKey,
    creator_user_id: null,
    rate_limit: {
      requests: requestsPerMinute ?? defaultLimit,
      interval: '1m',
      note: 'Requests per minute of this key.',
    },
  };
}
