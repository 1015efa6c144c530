/** Token counts in the report of an upstream, none of which is believed without a look. */

/** No single answer reaches this; a larger number is a bug that must not become a bill. */
const tokensMax = 1_000_000_000;

/** A count; 0 when absent, NaN when it is no count, so that one check at the end finds it. */
export function readCount(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const isCount = typeof value === 'number' && Number.isInteger(value);
  return isCount && value >= 0 && value <= tokensMax ? value : Number.NaN;
}

/** What a provider counts of a prompt. Cached tokens are part of it. */
interface PromptCounts {
  readonly prompt: number;
  readonly cacheRead: number;
  /** The part that no cache had to do with. */
  readonly uncached: number;
}

/**
 * The sounds in a prompt that no cache had to do with; those that one had cost what cached input
 * costs. Counts that cannot be true are not believed: then there are none, and all input is words.
 */
export function uncachedAudio(audio: number, cachedAudio: number, counts: PromptCounts): number {
  const { prompt, cacheRead, uncached } = counts;
  // No count is NaN, and not less than anything.
  const isCredible = audio <= prompt && cachedAudio <= Math.min(audio, cacheRead);
  return isCredible ? Math.min(audio - cachedAudio, uncached) : 0;
}
