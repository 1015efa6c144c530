import { charactersPerToken, type Usage } from '../../core/usage.ts';
import type { ReplyFacts, UpstreamFailure } from '../dialect.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class NotedFacts implements ReplyFacts {
  finishReason: string | undefined = undefined;
  /** Whether another choice goes on than the first, whose finish reason that is. */
  isOpen = false;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isGuess = false;
  /** How many of the characters came before the last report, or with it. */
  #covered = 0;

  /** With the words behind the last report: an answer that has not ended may never have another. */
  get usage(): Usage | undefined {
    const uncounted = this.#uncounted;
    return this.#usage && withWords(this.#usage, this.outputCharacters - uncounted, uncounted);
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

  /** The words that came with a report are in it. */
  coverWords(): void {
    this.#covered = this.outputCharacters;
  }

  /** A report of the prompt alone is about none, in whole answers if there are words behind it. */
  get #uncounted(): number {
    const behind = this.outputCharacters - this.#covered;
    const isOfPrompt = this.#usage?.outputTokens === 0;
    const hasEnded = this.finishReason !== undefined && !this.isOpen;
    if (hasEnded && !(isOfPrompt && behind > 0)) return 0;
    return isOfPrompt ? this.outputCharacters : behind;
  }
}

/**
 * A count with words that came behind it, by the estimate. Where it is more than those before it
 * can be, which is a token for each character in some scripts, it may be of all the words, and
 * where they come to less, they are in it: nobody pays for them twice.
 */
function withWords(usage: Usage, counted: number, uncounted: number): Usage {
  const { outputTokens } = usage;
  const left = tokensIn(counted + uncounted) - outputTokens;
  const behind = tokensIn(uncounted);
  const more = outputTokens > counted ? Math.min(behind, left) : behind;
  return more > 0 ? { ...usage, outputTokens: outputTokens + more } : usage;
}

function tokensIn(characters: number): number {
  return Math.ceil(characters / charactersPerToken);
}
