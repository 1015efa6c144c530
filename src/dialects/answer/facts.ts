import { charactersPerToken, type Usage } from '../../core/usage.ts';
import type { ReplyFacts, UpstreamFailure } from '../dialect.ts';

/** What the meter and the log need to know about an answer, noted while it comes. */
export class NotedFacts implements ReplyFacts {
  finishReason: string | undefined = undefined;
  /** Whether other choices go on after the first, whose finish reason `finishReason` is. */
  isOpen = false;
  outputCharacters = 0;
  failure: UpstreamFailure | undefined = undefined;
  #usage: Usage | undefined = undefined;
  #isGuess = false;
  /** How many of the characters came before the last usage report, or with it. */
  #covered = 0;

  /** The last report, and estimated words after it: a broken answer gets no further report. */
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

  /** Notes that the last report counts all words so far. */
  coverWords(): void {
    this.#covered = this.outputCharacters;
  }

  /**
   * Characters that no report has counted. A report of no output is about the prompt alone and
   * counts none. After the end, any report counts as complete, unless it has no output and words
   * followed it.
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
 * Adds an estimate of the words that came after a count. Hardly any text takes more than one token
 * per character: a count above that for the words before it may include later words. Then only the
 * excess of an estimate of all words over the count is added, so that nobody pays twice.
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
