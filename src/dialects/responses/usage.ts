/** Reads and writes token counts in the format of the Responses endpoint. */
import { isObject } from '../../core/json.ts';
import { promptTokens, totalTokens, type Usage, writtenTokens } from '../../core/usage.ts';
import { readUsage as readChatUsage } from '../openai-chat/usage.ts';

/** Reads usage. It has the same counts as in chat completions, but with other names. */
export function readUsage(raw: unknown): Usage | undefined {
  // No request has an empty prompt, so a server that reports 0 input tokens hasn't counted them.
  if (!isObject(raw) || raw.input_tokens === 0) return undefined;
  const usage = readChatUsage({
    prompt_tokens: raw.input_tokens,
    prompt_tokens_details: raw.input_tokens_details,
    completion_tokens: raw.output_tokens,
    completion_tokens_details: raw.output_tokens_details,
    total_tokens: raw.total_tokens,
  });
  if (usage === undefined) return undefined;
  return { ...usage, reasoningTokens: Math.min(usage.reasoningTokens, usage.outputTokens) };
}

/** Returns the `usage` object for clients. */
export function writeUsage(usage: Usage, cost: number) {
  return {
    input_tokens: promptTokens(usage),
    input_tokens_details: {
      cached_tokens: usage.cacheReadTokens,
      cache_write_tokens: writtenTokens(usage),
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: totalTokens(usage),
    cost,
  };
}
