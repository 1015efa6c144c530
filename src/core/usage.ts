/**
 * What a request used, in classes that never overlap, so that double billing cannot be written.
 * Upstreams disagree on whether `prompt_tokens` includes cached ones; each dialect converts.
 */
export interface Usage {
  /** Input that was neither read from nor written to the provider's prompt cache. */
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
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

export function promptTokens(usage: Usage): number {
  return usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens;
}

export function totalTokens(usage: Usage): number {
  return promptTokens(usage) + usage.outputTokens;
}
