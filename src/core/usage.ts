/**
 * A request's usage in classes that never overlap, so nothing can be billed twice. Providers
 * disagree on whether `prompt_tokens` includes cached tokens; each dialect converts.
 */
export interface Usage {
  /** Input that was neither read from nor written to the provider's prompt cache. */
  readonly inputTokens: number;
  /** Uncached audio input, if the provider counts it separately. Usually absent. */
  readonly inputAudioTokens?: number | undefined;
  readonly cacheReadTokens: number;
  /** Written to the provider's cache with its default lifetime. */
  readonly cacheWriteTokens: number;
  /** Written with a lifetime of 1 hour (OpenAI: 12 hours). Absent if 0 and in older records. */
  readonly cacheWrite1hTokens?: number | undefined;
  /** All output, including reasoning. */
  readonly outputTokens: number;
  /** The part of the output that was reasoning. Displayed, but not priced separately. */
  readonly reasoningTokens: number;
  /** True if the input includes results of the provider's own tools, such as web searches. */
  readonly includesToolResults?: true | undefined;
}

export const noUsage: Usage = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};

/** Returns the input tokens, text and audio, that weren't read from or written to a cache. */
export function uncachedTokens(usage: Usage): number {
  return usage.inputTokens + (usage.inputAudioTokens ?? 0);
}

/** Returns the tokens written to the cache with any lifetime. */
export function writtenTokens(usage: Usage): number {
  return usage.cacheWriteTokens + (usage.cacheWrite1hTokens ?? 0);
}

export function promptTokens(usage: Usage): number {
  return uncachedTokens(usage) + usage.cacheReadTokens + writtenTokens(usage);
}

export function totalTokens(usage: Usage): number {
  return promptTokens(usage) + usage.outputTokens;
}

/** True if both were reported and have the same input and output. */
export function hasSameTotals(a: Usage | undefined, b: Usage | undefined): boolean {
  if (!a || !b) return false;
  return promptTokens(a) === promptTokens(b) && a.outputTokens === b.outputTokens;
}

/**
 * The characters counted for an image until its tokens are known. Models bill about 1,300 tokens.
 */
export const charactersPerImage = 5_200;

/** Units other than tokens that an operation can be priced by. */
export interface Units {
  readonly inputImages?: number;
  readonly outputImages?: number;
  /** Characters of the synthesized text. */
  readonly characters?: number;
  readonly bytes?: number;
  readonly audioMs?: number;
  /** The usage of each call of a request, because prices can depend on one prompt's length. */
  readonly calls?: readonly Usage[];
}

export const noUnits: Units = {};

/**
 * Estimates tokens that no provider reported. A rule of thumb for prose in all major tokenizers.
 */
export const charactersPerToken = 4;

/** The measured or estimated usage of an answer. */
export interface Measured {
  readonly usage: Usage;
  readonly units: Units;
  /** True if the gateway estimated the usage because the provider didn't report it. */
  readonly isEstimate: boolean;
  /** The usage that the provider did report, if only the rest is an estimate. */
  readonly reported?: Usage;
  /** A sentence for the receipt, or null. */
  readonly note: string | null;
  /** True if nothing is charged, not even a fee per request. */
  readonly isFree?: boolean;
  /** Successful searches. `toolCredits` is their fee. */
  readonly searches?: number;
  readonly toolCredits?: number;
}

/** Adds up the usage of a request's calls. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    inputAudioTokens: (a.inputAudioTokens ?? 0) + (b.inputAudioTokens ?? 0) || undefined,
    cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    cacheWrite1hTokens: (a.cacheWrite1hTokens ?? 0) + (b.cacheWrite1hTokens ?? 0) || undefined,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    includesToolResults: a.includesToolResults || b.includesToolResults,
  };
}
