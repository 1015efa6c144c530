/**
 * What a request used, in classes that never overlap, so that double billing cannot be written.
 * Upstreams disagree on whether `prompt_tokens` includes cached ones; each dialect converts.
 */
export interface Usage {
  /** Input that was neither read from nor written to the provider's prompt cache. */
  readonly inputTokens: number;
  /** The same for sound, where it is counted apart. Usually there is none, and it is left out. */
  readonly inputAudioTokens?: number | undefined;
  readonly cacheReadTokens: number;
  /** Written to the provider's cache for as long as is usual there. */
  readonly cacheWriteTokens: number;
  /** Written for an hour, at OpenAI for twelve. Left out if there are none, and in older books. */
  readonly cacheWrite1hTokens?: number | undefined;
  /** All output, reasoning included. */
  readonly outputTokens: number;
  /** The part of the output that was reasoning; shown, never priced apart. */
  readonly reasoningTokens: number;
}

export const noUsage: Usage = {
  inputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
};

/** All input that no cache had to do with, words and sounds. */
export function uncachedTokens(usage: Usage): number {
  return usage.inputTokens + (usage.inputAudioTokens ?? 0);
}

/** All that was written to the cache, for however long. */
export function writtenTokens(usage: Usage): number {
  return usage.cacheWriteTokens + (usage.cacheWrite1hTokens ?? 0);
}

export function promptTokens(usage: Usage): number {
  return uncachedTokens(usage) + usage.cacheReadTokens + writtenTokens(usage);
}

export function totalTokens(usage: Usage): number {
  return promptTokens(usage) + usage.outputTokens;
}

/** What a picture counts for while nobody has told its tokens: models bill some 1,300 for one. */
export const charactersPerImage = 5_200;

/** What is counted besides tokens, where an operation is priced by it. */
export interface Units {
  readonly inputImages?: number;
  readonly outputImages?: number;
  /** Of the text that is spoken. */
  readonly characters?: number;
  readonly bytes?: number;
  readonly audioMs?: number;
  /** Of a request that took several calls, each by itself: prices may go by a prompt's length. */
  readonly calls?: readonly Usage[];
}

export const noUnits: Units = {};

/** Where nobody counted: the rule of thumb of every major tokenizer for prose. */
export const charactersPerToken = 4;

/** What an answer used, as far as anybody knows. */
export interface Measured {
  readonly usage: Usage;
  readonly units: Units;
  /** True when we counted because the upstream did not. */
  readonly isEstimate: boolean;
  /** The part of an estimate that the upstream did count: no guess, whatever was held for it. */
  readonly reported?: Usage;
  /** A sentence for the bill; null when it speaks for itself. */
  readonly note: string | null;
  /** Nothing is charged for it, not even a request's own price. */
  readonly isFree?: boolean;
  /** Successful searches, and their fee. */
  readonly searches?: number;
  readonly toolCredits?: number;
}

/** For a request that took several calls. */
export function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    inputAudioTokens: (a.inputAudioTokens ?? 0) + (b.inputAudioTokens ?? 0) || undefined,
    cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    cacheWrite1hTokens: (a.cacheWrite1hTokens ?? 0) + (b.cacheWrite1hTokens ?? 0) || undefined,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
  };
}
