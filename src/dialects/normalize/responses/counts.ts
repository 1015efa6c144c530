/** Token counts in an upstream's report, each checked before it is believed. */

/** No single answer reaches this; a larger number is a bug that must not become a bill. */
const tokensMax = 1_000_000_000;

/** A count; 0 when absent, NaN when it is no count: one check of a sum then finds any bad count. */
export function readCount(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const isCount = typeof value === 'number' && Number.isInteger(value);
  return isCount && value >= 0 && value <= tokensMax ? value : Number.NaN;
}

/** What a provider counts of a prompt. */
interface PromptCounts {
  readonly prompt: number;
  readonly cacheRead: number;
  /** Tokens that were neither read from a cache nor written to one. */
  readonly uncached: number;
}

/**
 * Audio tokens of a prompt outside of any cache; those from a cache cost what cached input costs.
 * Counts that cannot be true are not believed: then all input counts as text.
 */
export function uncachedAudio(audio: number, cachedAudio: number, counts: PromptCounts): number {
  const { prompt, cacheRead, uncached } = counts;
  // `readCount` gives NaN for what is no count, and every comparison with NaN is false.
  const isCredible = audio <= prompt && cachedAudio <= Math.min(audio, cacheRead);
  return isCredible ? Math.min(audio - cachedAudio, uncached) : 0;
}

/**
 * How many characters (Unicode code points) a text has: positions of citations count in them. A
 * surrogate pair that comes in two pieces counts once.
 */
export function codePointLength(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
}
