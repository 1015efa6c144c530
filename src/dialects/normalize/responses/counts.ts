/** Reads and validates the token counts in an upstream's usage report. */
/** No single answer reaches this. A larger number is a bug that must not be billed. */
const tokensMax = 1_000_000_000;

/**
 * Returns a count: 0 if it is absent, or NaN if it is invalid. A sum with an invalid count is NaN
 * too.
 */
export function readCount(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const isCount = typeof value === 'number' && Number.isInteger(value);
  return isCount && value >= 0 && value <= tokensMax ? value : Number.NaN;
}

/** Output that only a total includes is reasoning. A larger difference is an error. */
export const hiddenOutputMax = 4_096;

/** A provider's token counts of a prompt. */
interface PromptCounts {
  readonly prompt: number;
  readonly cacheRead: number;
  /** Tokens that were not read from a cache or written to one. */
  readonly uncached: number;
}

/**
 * Returns the uncached audio tokens of a prompt. Cached audio costs as much as other cached input.
 * If the counts are implausible, returns 0, so that all input is charged as text.
 */
export function uncachedAudio(audio: number, cachedAudio: number, counts: PromptCounts): number {
  const { prompt, cacheRead, uncached } = counts;
  // `readCount` returns NaN for an invalid count, and every comparison with NaN is false.
  const isPlausible = audio <= prompt && cachedAudio <= Math.min(audio, cacheRead);
  return isPlausible ? Math.min(audio - cachedAudio, uncached) : 0;
}

/**
 * Returns the length in Unicode code points, the unit of citation positions. A surrogate pair that
 * is split between two fragments counts once.
 */
export function codePointLength(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff]/g)?.length ?? 0);
}
