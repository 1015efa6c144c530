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
    return this.#usage && withWords(this.#usage, this.#uncounted);
  }

  set usage(usage: Usage | undefined) {
    this.#usage = usage;
    this.coverWords();
  }

  get isEstimate(): boolean {
    return this.#isGuess || (this.#usage !== undefined && this.#uncounted > 0);
  }

  set isEstimate(isGuess: boolean) {
    this.#isGuess = isGuess;
  }

  /** The words that came with a report are in it. */
  coverWords(): void {
    this.#counted = this.outputCharacters;
  }

  get #uncounted(): number {
    return this.finishReason === undefined ? this.outputCharacters - this.#counted : 0;
  }
}

/** A count with words that came behind it, by the estimate. */
export function withWords(usage: Usage, characters: number): Usage {
  if (characters === 0) return usage;
  const more = Math.ceil(characters / charactersPerToken);
  return { ...usage, outputTokens: usage.outputTokens + more };
}
