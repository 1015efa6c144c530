import { isObject, objectsIn } from '../../core/json.ts';
import { noUsage, type Usage } from '../../core/usage.ts';
import { readCount } from '../answer/counts.ts';
import { readUsage as readAnthropicUsage } from '../anthropic/usage.ts';

/** Bedrock counts as Anthropic does, under other names. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const hours = objectsIn(raw.cacheDetails).filter(({ ttl }) => ttl === '1h');
  const forHour = hours.reduce((sum, part) => sum + readCount(part.inputTokens), 0);
  const usage = readAnthropicUsage({
    input_tokens: raw.inputTokens,
    cache_read_input_tokens: raw.cacheReadInputTokens,
    cache_creation_input_tokens: raw.cacheWriteInputTokens,
    cache_creation: { ephemeral_1h_input_tokens: forHour },
    output_tokens: raw.outputTokens,
  });
  if (usage !== undefined) return usage;
  // Bedrock always counts: all zeros mean that a guardrail stopped the prompt before any model.
  const counts = [raw.inputTokens, raw.outputTokens, raw.totalTokens];
  return counts.every((count) => count === 0) ? noUsage : undefined;
}
