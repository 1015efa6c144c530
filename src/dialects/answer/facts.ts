import { charactersPerToken, type Usage } from '../../core/usage.ts';
import type { ReplyFacts, UpstreamFailure } from '../dialect.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class NotedFacts implements ReplyFacts {
  finishReason: string | undefined = undefined;
  /** Whether another choice goes on; `finishReason` is that of the first. */
  isOpen = false;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isGuess = false;
  /** How many of the characters came before the last report, or with it. */
  #covered = 0;

  /** With an estimate of words behind the last report: if the answer breaks, there is no other. */
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

  /** The last report counts all words up to here. */
  coverWords(): void {
    this.#covered = this.outputCharacters;
  }

  /**
   * Characters that no report has counted. A report of no output is about the prompt alone and
   * counts none. After the end any report is taken for whole, unless words came behind one of no
   * output.
   */
  get #uncounted(): number {
    const behind = this.outputCharacters - this.#covered;
    const isOfPrompt = this.#usage?.outputTokens === 0;
    const hasEnded = this.finishReason !== undefined && !this.isOpen;
    if (hasEnded && !(isOfPrompt && behind > 0)) return 0;
    return isOfPrompt ? this.outputCharacters : behind;
  }
}

/**
 * Adds an estimate of the words that came behind a count. No script takes more than a token for
 * each character: a count above that for the words before it may include those behind it. Then only
 * what the estimate of all words has beyond the count is added, so that nobody pays twice.
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
