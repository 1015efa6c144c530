import type { AnswerSink, FinishReason } from '../../core/answer.ts';
import { isObject } from '../../core/json.ts';
import type { Prompt, ToolResultPart, Turn } from '../../core/prompt.ts';
import { promptTextBytes } from '../../core/prompt.ts';
import { addUsage, type Usage } from '../../core/usage.ts';
import { parseArguments } from '../../dialects/normalize/exact-json.ts';
import { openAiFinishReasons } from '../../dialects/normalize/responses/answer-metrics.ts';
import { codePointLength } from '../../dialects/normalize/responses/counts.ts';
import { estimateUsage } from '../../money/price/cost.ts';
import { citationsIn, type FoundPage } from '../../tools/citations.ts';
import type { SearchEngine } from '../../tools/search-engine.ts';
import type { SearchNote } from '../../tools/search-notes.ts';
import { searchResultsText, searchTool } from '../../tools/search-tool.ts';
import { type SearchCall, SearchRound } from './round.ts';

export interface SearchLimits {
  readonly callsMax: number;
  readonly resultsMax: number;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
}

/** What a search of one request needs from outside. */
export interface SearchContext {
  readonly engine: SearchEngine;
  readonly limits: SearchLimits;
  /** Pages found for earlier turns, by number: those of this request are numbered on from there. */
  readonly pages: readonly FoundPage[];
  /** The bytes of the first round's prompt. */
  readonly promptBytes: number;
  /**
   * Sets credits aside for another round, whose prompt has this many bytes and gets the results of
   * this many searches; false when there are too few credits.
   */
  reserveRound(promptBytes: number, searches: number): Promise<boolean>;
  /** The same for the fee of one search and what its results add to the prompt. */
  reserveSearch(): Promise<boolean>;
  readonly client: AbortSignal;
}

const noSearchLeft = 'The limit of web searches was reached before there was an answer.';
const noCreditsLeft = 'The credits ran out before there was an answer.';

/** The rounds of one request at one offer: searches in between, one answer in the end. */
export class SearchSession {
  searches = 0;
  /** Known once the whole answer has ended. */
  finishReason: string | undefined;
  /** What to keep for the client's next request. */
  note: { readonly clientCalls: SearchRound['clientCalls']; readonly note: SearchNote } | undefined;
  readonly #context: SearchContext;
  readonly #sink: AnswerSink;
  readonly #toolName: string;
  readonly #pages: FoundPage[];
  #prompt: Prompt;
  #round: SearchRound;
  #promptBytes: number;
  /** The bytes of words in this round's prompt, once they were asked for. */
  #wordBytes: number | undefined;
  /** The usage of each round that is over. */
  readonly #roundUsages: Usage[] = [];
  #isEstimate = false;
  #calls = 0;
  #sentText = '';
  /** How many characters of `#said` have had their citations told. */
  #citedUpTo = 0;
  #isOutOfCredits = false;

  constructor(prompt: Prompt, sink: AnswerSink, context: SearchContext) {
    this.#context = context;
    this.#sink = sink;
    this.#pages = [...context.pages];
    this.#promptBytes = context.promptBytes;
    this.#toolName = unusedToolName(prompt);
    this.#prompt = withTool(prompt, this.#toolName);
    this.#round = this.#newRound('');
  }

  /** What the upstream is asked in this round. */
  get prompt(): Prompt {
    return this.#prompt;
  }

  get round(): SearchRound {
    return this.#round;
  }

  /**
   * The usage of all rounds; where nobody counted, estimated. Undefined before anything was said.
   */
  get usage(): Usage | undefined {
    const [first, ...others] = this.usageOfRounds;
    return first && others.reduce(addUsage, first);
  }

  /** The same, round by round. */
  get usageOfRounds(): readonly Usage[] {
    const current = this.#roundUsage();
    return current ? [...this.#roundUsages, current] : this.#roundUsages;
  }

  get isEstimate(): boolean {
    const { usage, isEstimate, outputCharacters } = this.#round.metrics;
    return this.#isEstimate || (usage ? isEstimate : outputCharacters > 0);
  }

  /** Whether another round must follow the one that the upstream has ended. */
  get needsAnotherRound(): boolean {
    const { searches, clientCalls } = this.#round;
    return searches.length > 0 && clientCalls.length === 0 && this.#calls <= this.#callsMax;
  }

  get #callsMax(): number {
    return this.#context.limits.callsMax;
  }

  /** Ends the answer: citations, the reason, and all that was used. */
  async end(): Promise<void> {
    this.#round.flush();
    // Before the last searches: the model has not read what they find, whatever number it wrote.
    this.#emitCitations();
    const { searches, clientCalls } = this.#round;
    if (clientCalls.length > 0) {
      const results = await this.#runSearches(searches);
      const note = { toolName: this.#toolName, calls: searches, results, pages: this.#pages };
      if (searches.length + this.#pages.length > 0) this.note = { clientCalls, note };
    }
    const finished = this.#closeRound();
    if (searches.length > 0 && clientCalls.length === 0 && this.#sentText === '') {
      this.#sentText = this.#isOutOfCredits ? noCreditsLeft : noSearchLeft;
      this.#sink.text(this.#sentText);
    }
    const { usage } = this;
    if (usage) this.#sink.usage?.(usage);
    if (!finished) return;
    const reason = this.#finishReasonFor(finished.reason, clientCalls.length > 0);
    this.finishReason = openAiFinishReasons[reason];
    this.#sink.finish(reason, finished.stopSequence);
  }

  /** Runs the searches and makes the next round ready; false when it cannot be paid for. */
  async next(): Promise<boolean> {
    this.#emitCitations();
    const { searches, parts } = this.#round;
    const promptBytes = this.#promptBytes + jsonBytes(parts);
    if (!(await this.#tryReserveRound(promptBytes, searches.length))) return false;
    const results = await this.#runSearches(searches);
    this.#promptBytes = promptBytes + jsonBytes(results);
    // Only now the length of the prompt is known: it may be more than was set aside for it.
    if (!(await this.#tryReserveRound(this.#promptBytes, 0))) return false;
    this.#closeRound();
    const turns: Turn[] = [
      ...this.#prompt.turns,
      { role: 'assistant', parts },
      { role: 'user', parts: results },
    ];
    // Tools stay declared: some upstreams refuse calls in the history of tools they do not know.
    const toolChoice = this.#calls >= this.#callsMax ? 'none' : null;
    this.#prompt = { ...this.#prompt, turns, toolChoice };
    this.#wordBytes = undefined;
    if (toolChoice === 'none') this.#calls += 1;
    const separator = this.#sentText === '' || /\s$/.test(this.#sentText) ? '' : '\n\n';
    this.#round = this.#newRound(separator);
    return true;
  }

  #newRound(separator: string): SearchRound {
    const isJson = this.#prompt.json !== null;
    const onTextEnd = () => this.#emitCitations();
    return new SearchRound(this.#toolName, this.#sink, { separator, isJson, onTextEnd });
  }

  /** Tells the citations up to here, each once: some clients' texts end with the round. */
  #emitCitations(): void {
    const text = this.#sentText + this.#round.sentText;
    for (const citation of citationsIn(text, this.#pages)) {
      if ((citation.range?.start ?? 0) >= this.#citedUpTo) this.#sink.citation(citation);
    }
    this.#citedUpTo = codePointLength(text);
  }

  async #tryReserveRound(promptBytes: number, searches: number): Promise<boolean> {
    this.#isOutOfCredits = !(await this.#context.reserveRound(promptBytes, searches));
    return !this.#isOutOfCredits;
  }

  /** A client must not be made to wait for a call that it never sees. */
  #finishReasonFor(reason: FinishReason, hasClientCalls: boolean): FinishReason {
    if (this.#isOutOfCredits) return 'length';
    return reason === 'tool_calls' && !hasClientCalls ? 'stop' : reason;
  }

  /** Adds a round that is over to the sums, once. */
  #closeRound(): SearchRound['finished'] {
    const { metrics, sentText, finished } = this.#round;
    if (!metrics.usage || metrics.isEstimate) this.#isEstimate = true;
    this.#roundUsages.push(this.#usageFor(metrics));
    this.#sentText += sentText;
    this.#round = this.#newRound('');
    return finished;
  }

  /** Undefined for a round that has said nothing: it may never have been sent. */
  #roundUsage(): Usage | undefined {
    const { metrics } = this.#round;
    return metrics.usage || metrics.outputCharacters > 0 ? this.#usageFor(metrics) : undefined;
  }

  #usageFor({ usage: reported, isEstimate, outputCharacters }: SearchRound['metrics']): Usage {
    if (reported && (!isEstimate || reported.outputTokens > 0)) return reported;
    const estimate = estimateUsage(reported ? 0 : this.#promptWordBytes, outputCharacters);
    // Where only the prompt was counted, the output is a guess.
    return reported ? { ...reported, outputTokens: estimate.outputTokens } : estimate;
  }

  get #promptWordBytes(): number {
    this.#wordBytes ??= promptTextBytes(this.#prompt);
    return this.#wordBytes;
  }

  async #runSearches(calls: readonly SearchCall[]): Promise<ToolResultPart[]> {
    const texts = await Promise.all(calls.map((call) => this.#search(call)));
    return calls.map(({ id }, at) => ({
      kind: 'tool_result',
      callId: id,
      parts: [{ kind: 'text', text: texts[at] ?? '' }],
      isError: false,
    }));
  }

  async #search(call: SearchCall): Promise<string> {
    const { engine, limits, client } = this.#context;
    if (this.#calls >= limits.callsMax)
      return failedText('No more searches are possible. Answer now.');
    this.#calls += 1;
    const query = parseQuery(call.arguments);
    if (query === undefined) return failedText('The arguments must be a JSON object with a query.');
    if (!(await this.#context.reserveSearch()))
      return failedText('There are not enough credits for it.');
    const { resultsMax, allowedDomains, excludedDomains } = limits;
    const filters = { allowedDomains, excludedDomains };
    const outcome = await engine.search({ query, resultsMax, ...filters, signal: client });
    const { text, shown } = searchResultsText(outcome, this.#pages.length + 1);
    if (outcome.kind === 'found') {
      this.searches += 1;
      const pages = outcome.results.slice(0, shown);
      this.#pages.push(...pages.map(({ url, title }) => ({ url, title })));
    }
    return text;
  }
}

function failedText(message: string): string {
  return searchResultsText({ kind: 'failed', message }, 1).text;
}

function parseQuery(json: string): string | undefined {
  const value = parseArguments(json);
  const query = isObject(value) ? value.query : undefined;
  return typeof query === 'string' && query.trim() !== '' ? query : undefined;
}

/** The bytes that parts of a turn add to a prompt, or a little more. */
function jsonBytes(parts: readonly object[]): number {
  return Buffer.byteLength(JSON.stringify(parts));
}

/** A name that no tool of the client has: a call of the client's tool is the client's to answer. */
function unusedToolName({ tools }: Prompt): string {
  const usedNames = new Set(tools.map((tool) => tool.name));
  let { name }: { name: string } = searchTool.function;
  while (usedNames.has(name)) name = `gateway_${name}`;
  return name;
}

function withTool(prompt: Prompt, name: string): Prompt {
  const { description, parameters } = searchTool.function;
  return { ...prompt, tools: [...prompt.tools, { name, description, parameters }] };
}
