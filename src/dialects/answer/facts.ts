import { charactersPerToken, type Usage } from '../../core/usage.ts';
import type { ReplyFacts, UpstreamFailure } from '../dialect.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class NotedFacts implements ReplyFacts {
  finishReason: string | undefined = undefined;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isGuess = false;
  /** How many of the characters the last report is about. */
  #counted = 0;

  /** With the words behind the last report: an answer that has not ended may never have another. */
  get usage(): Usage | undefined {
    return this.#usage && withWords(this.#usage, this.outputCharacters, this.#uncounted);
  }

  set usage(usage: Usage | undefined) {
    this.#usage = usage;
    this.coverWords();
  }

  get isEstimate(): boolean {
    return this.#isGuess || this.usage !== this.#usage;
  }

  set isEstimate(isGuess: boolean) {
    this.#isGuess = isGuess;
  }

  /** The words that came with a report are in it; one of the prompt alone is about none. */
  coverWords(): void {
    this.#counted = this.#usage?.outputTokens ? this.outputCharacters : 0;
  }

  get #uncounted(): number {
    return this.finishReason === undefined ? this.outputCharacters - this.#counted : 0;
  }
}

/**
 * A count with words that came behind it, by the estimate. Where more was counted than all of the
 * words come to, they may be in it: nobody pays for them twice.
 */
export function withWords(usage: Usage, characters: number, uncounted: number): Usage {
  const { outputTokens } = usage;
  const more = Math.min(tokensIn(uncounted), tokensIn(characters) - outputTokens);
  return more > 0 ? { ...usage, outputTokens: outputTokens + more } : usage;
}

function tokensIn(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}
