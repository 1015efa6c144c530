/** Token counts as the Responses endpoint reports them, in and out. */
import { fieldsOf, isObject } from '../../core/json.ts';
import { promptTokens, totalTokens, type Usage, writtenTokens } from '../../core/usage.ts';
import { readCount } from '../answer/read-count.ts';

/** Undefined when the numbers cannot be trusted. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const inputDetails = fieldsOf(raw.input_tokens_details);
  const outputDetails = fieldsOf(raw.output_tokens_details);
  const input = readCount(raw.input_tokens);
  const output = readCount(raw.output_tokens);
  const total = readCount(raw.total_tokens);
  const read = readCount(inputDetails.cached_tokens);
  const written = readCount(inputDetails.cache_write_tokens);
  const reasoning = readCount(outputDetails.reasoning_tokens);
  if (Number.isNaN(input + output + total + read + written + reasoning)) return undefined;
  // No request has an empty prompt: a server that says so has not counted.
  if (input === 0) return undefined;
  // Cached tokens are inside the input's: they cannot be more.
  const cacheReadTokens = Math.min(read, input);
  const cacheWriteTokens = Math.min(written, input - cacheReadTokens);
  const outputTokens = output + Math.max(0, total - input - output);
  return {
    inputTokens: input - cacheReadTokens - cacheWriteTokens,
    cacheReadTokens,
    cacheWriteTokens,
    outputTokens,
    reasoningTokens: Math.min(reasoning, outputTokens),
  };
}

/** The `usage` object our clients see; `cost` is in credits. */
export function writeUsage(usage: Usage, costCredits: number) {
  return {
    input_tokens: promptTokens(usage),
    input_tokens_details: {
      cached_tokens: usage.cacheReadTokens,
      cache_write_tokens: writtenTokens(usage),
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: totalTokens(usage),
    cost: costCredits,
  };
}
