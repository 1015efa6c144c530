/** Reads and writes token counts in the format of the Responses endpoint. */
import { isObject, objectsIn } from '../../core/json.ts';
import { promptTokens, totalTokens, type Usage, writtenTokens } from '../../core/usage.ts';
import { readUsage as readChatUsage } from '../openai-chat/usage.ts';

/** The types of calls that a client runs. The provider runs all other calls itself. */
const clientCalls: ReadonlySet<unknown> = new Set([
  ...['function_call', 'custom_tool_call', 'computer_call', 'local_shell_call', 'shell_call'],
  'apply_patch_call',
]);

/**
 * Reads usage. It has the same counts as in chat completions, but with other names. `output` is the
 * output of the same response.
 */
export function readUsage(raw: unknown, output?: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const usage = readChatUsage({
    ...raw,
    prompt_tokens: raw.input_tokens,
    prompt_tokens_details: raw.input_tokens_details,
    completion_tokens: raw.output_tokens,
    completion_tokens_details: raw.output_tokens_details,
    total_tokens: raw.total_tokens,
  });
  if (usage === undefined) return undefined;
  const hasToolCalls = objectsIn(output).some(
    ({ type }) => typeof type === 'string' && type.endsWith('_call') && !clientCalls.has(type),
  );
  return {
    ...usage,
    reasoningTokens: Math.min(usage.reasoningTokens, usage.outputTokens),
    includesToolResults: usage.includesToolResults || hasToolCalls || undefined,
  };
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
