import { charactersPerToken, noUsage, type Usage } from '../core/usage.ts';

/**
 * Tokens when the upstream said nothing; the bill says that it is an estimate. Counting characters
 * costs nothing, so no text is ever tokenised on the event loop.
 */
export function estimateUsage(inputBytes: number, outputCharacters: number): Usage {
  return {
    ...noUsage,
    inputTokens: Math.ceil(inputBytes / charactersPerToken),
    outputTokens: Math.ceil(outputCharacters / charactersPerToken),
  };
}

export const unfinishedNote =
  'The provider did not count its whole answer; the tokens out are an estimate.';
/** Fits both cases: the provider reported nothing, or something that cannot be true. */
export const estimateNote =
  'The provider reported no usage that can be billed; the tokens are an estimate.';
