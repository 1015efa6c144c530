import { isObject } from '../../core/json.ts';
import { promptTokens, totalTokens, type Usage } from '../../core/usage.ts';
import { readCount } from '../answer/read-count.ts';

/** Bedrock's classes do not overlap either. Undefined when the numbers cannot be trusted. */
export function readUsage(raw: unknown): Usage | undefined {
  if (!isObject(raw)) return undefined;
  const written = readCount(raw.cacheWriteInputTokens);
  const writtenForHour = readHourPart(raw.cacheDetails, written);
  const usage = {
    inputTokens: readCount(raw.inputTokens),
    cacheReadTokens: readCount(raw.cacheReadInputTokens),
    cacheWriteTokens: written - writtenForHour,
    cacheWrite1hTokens: writtenForHour || undefined,
    outputTokens: readCount(raw.outputTokens),
    reasoningTokens: 0,
  };
  // No request has an empty prompt: a server that says so has not counted.
  return Number.isNaN(totalTokens(usage)) || promptTokens(usage) === 0 ? undefined : usage;
}

/** How much of the cache writes is kept for an hour; more than the whole is not believed. */
function readHourPart(details: unknown, written: number): number {
  const parts: readonly unknown[] = Array.isArray(details) ? details : [];
  const forHour = parts.reduce<number>((sum, part) => {
    return isObject(part) && part.ttl === '1h' ? sum + readCount(part.inputTokens) : sum;
  }, 0);
  return forHour <= written ? forHour : 0;
}
