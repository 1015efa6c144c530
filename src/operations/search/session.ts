import type { AnswerSink, FinishReason, WebSearch } from '../../core/answer.ts';
import { isObject } from '../../core/json.ts';
import type { Prompt, ToolResultPart, Turn } from '../../core/prompt.ts';
import { promptTextBytes } from '../../core/prompt.ts';
import { addUsage, type Usage } from '../../core/usage.ts';
import { parseArguments } from '../../dialects/normalize/exact-json.ts';
import { openAiFinishReasons } from '../../dialects/normalize/responses/answer-metrics.ts';
import { codePointLength } from '../../dialects/normalize/responses/counts.ts';
import { estimateUsage } from '../../money/price/cost.ts';
import { billableUsage } from '../../money/price/usage-report.ts';
import { citationsIn, type FoundPage } from '../../tools/citations.ts';
import type { SearchEngine, SearchResult } from '../../tools/search-engine.ts';
import type { SearchNote } from '../../tools/search-notes.ts';
import { searchResultsText, searchTool } from '../../tools/search-tool.ts';
import type { AttemptBudget } from './budget.ts';
import { type SearchCall, SearchRound } from './round.ts';

export interface SearchLimits {
  readonly callsMax: number;
  readonly resultsMax: number;
  readonly allowedDomains: readonly string[];
  readonly excludedDomains: readonly string[];
}

export interface SearchContext {
  readonly engine: SearchEngine;
  readonly limits: SearchLimits;
  /** Pages found in earlier turns. The numbers of new pages continue after these. */
  readonly pages: readonly FoundPage[];
  /** Size of the first round's prompt. */
  readonly promptBytes: number;
  readonly budget: Pick<AttemptBudget, 'reserveRound' | 'reserveSearch'>;
  readonly clientSignal: AbortSignal;
  /** Returns false if a round with a prompt of this size can't have used the tokens. */
  isPlausible(usage: Usage, outputCharacters: number, promptBytes: number): boolean;
}

const noSearchLeft = 'The web search limit was reached before there was an answer.';
const noCreditsLeft = 'The credits ran out before there was an answer.';

/** The rounds of one attempt, which together make up one answer. Searches run between them. */
export class SearchSession {
  /** The number of successful searches. */
  searches = 0;
  /** Set once the answer has ended. */
  finishReason: string | undefined;
  /** Stored for the client's next request. */
  note: { readonly clientCalls: SearchRound['clientCalls']; readonly note: SearchNote } | undefined;
  readonly #context: SearchContext;
  readonly #sink: AnswerSink;
  readonly #toolName: string;
  readonly #pages: FoundPage[];
  #prompt: Prompt;
  #round: SearchRound;
  #promptBytes: number;
  /** Bytes of text in this round's prompt. Computed on first use. */
  #textBytes: number | undefined;
  /** The usage of each round that has ended. */
  readonly #roundUsages: Usage[] = [];
  #isEstimate = false;
  #calls = 0;
  #sentText = '';
  /** Code points of the text whose citations have been sent. */
  #citedUpTo = 0;
  #isOutOfCredits = false;
  #isRoundAbandoned = false;

  constructor(prompt: Prompt, sink: AnswerSink, context: SearchContext) {
    this.#context = context;
    this.#sink = sink;
    this.#pages = [...context.pages];
    this.#promptBytes = context.promptBytes;
    this.#toolName = unusedToolName(prompt);
    this.#prompt = withTool(prompt, this.#toolName);
    this.#round = this.#newRound('');
  }

  /** The prompt of the current round. */
  get prompt(): Prompt {
    return this.#prompt;
  }

  get round(): SearchRound {
    return this.#round;
  }

  /** The usage of all rounds, estimated if not reported. Undefined before there is any output. */
  get usage(): Usage | undefined {
    const [first, ...others] = this.usageOfRounds;
    return first && others.reduce(addUsage, first);
  }

  /** The usage of each round, in order. */
  get usageOfRounds(): readonly Usage[] {
    const current = this.#roundUsage();
    return current ? [...this.#roundUsages, current] : this.#roundUsages;
  }

  get isEstimate(): boolean {
    const { metrics } = this.#round;
    const isBilled = metrics.usage || metrics.outputCharacters > 0 || this.#isRoundAbandoned;
    return this.#isEstimate || (isBilled ? this.#billable(metrics).isEstimate : false);
  }

  /** Counts the input of the current round, whose client disconnected before its output. */
  abandonRound(): void {
    this.#isRoundAbandoned = true;
  }

  /** True if another round must follow the one that ended. */
  get needsAnotherRound(): boolean {
    const { searches, clientCalls } = this.#round;
    return searches.length > 0 && clientCalls.length === 0 && this.#calls <= this.#callsMax;
  }

  get #callsMax(): number {
    return this.#context.limits.callsMax;
  }

  /** Ends the answer: sends citations, usage, and the finish reason. */
  async end(): Promise<void> {
    this.#round.flush();
    // Do this before the last searches run. The model won't read their results, so it can't cite
    // them.
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

  /**
   * Runs the searches and prepares the next round. Returns false if there aren't enough credits.
   */
  async next(): Promise<boolean> {
    this.#emitCitations();
    const { searches, parts } = this.#round;
    const promptBytes = this.#promptBytes + jsonBytes(parts);
    if (!(await this.#tryReserveRound(promptBytes, searches.length))) return false;
    const results = await this.#runSearches(searches);
    this.#promptBytes = promptBytes + jsonBytes(results);
    // The prompt's length is known only now. It may exceed what was reserved for it.
    if (!(await this.#tryReserveRound(this.#promptBytes, 0))) return false;
    this.#closeRound();
    const turns: Turn[] = [
      ...this.#prompt.turns,
      { role: 'assistant', parts },
      { role: 'user', parts: results },
    ];
    // Keep the tools declared, because some upstreams reject earlier calls to undeclared tools.
    const toolChoice = this.#calls >= this.#callsMax ? 'none' : null;
    this.#prompt = { ...this.#prompt, turns, toolChoice };
    this.#textBytes = undefined;
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

  /** Sends the citations in new text. In some client dialects, a text ends with its round. */
  #emitCitations(): void {
    const text = this.#sentText + this.#round.sentText;
    for (const citation of citationsIn(text, this.#pages)) {
      if ((citation.range?.start ?? 0) >= this.#citedUpTo) this.#sink.citation(citation);
    }
    this.#citedUpTo = codePointLength(text);
  }

  async #tryReserveRound(promptBytes: number, searches: number): Promise<boolean> {
    const { budget } = this.#context;
    this.#isOutOfCredits = !(await budget.reserveRound(promptBytes, searches, this));
    return !this.#isOutOfCredits;
  }

  /** Maps `tool_calls` to `stop` if the client gets no call, because it would wait for one. */
  #finishReasonFor(reason: FinishReason, hasClientCalls: boolean): FinishReason {
    if (this.#isOutOfCredits) return 'length';
    return reason === 'tool_calls' && !hasClientCalls ? 'stop' : reason;
  }

  /** Adds a round that has ended to the totals, once. */
  #closeRound(): SearchRound['finished'] {
    const { metrics, sentText, finished } = this.#round;
    const { usage, isEstimate } = this.#billable(metrics);
    if (isEstimate) this.#isEstimate = true;
    this.#roundUsages.push(usage);
    this.#sentText += sentText;
    this.#round = this.#newRound('');
    return finished;
  }

  /** Returns undefined for a round without output, because its request may not have been sent. */
  #roundUsage(): Usage | undefined {
    const { metrics } = this.#round;
    const { usage, outputCharacters } = metrics;
    const isBilled = usage || outputCharacters > 0 || this.#isRoundAbandoned;
    return isBilled ? this.#billable(metrics).usage : undefined;
  }

  #billable(metrics: SearchRound['metrics']) {
    const { outputCharacters, finishReason } = metrics;
    return billableUsage(metrics, {
      isComplete: finishReason !== undefined,
      isPlausible: (usage) => this.#context.isPlausible(usage, outputCharacters, this.#promptBytes),
      estimate: () => estimateUsage(this.#promptTextBytes, outputCharacters),
    });
  }

  get #promptTextBytes(): number {
    this.#textBytes ??= promptTextBytes(this.#prompt);
    return this.#textBytes;
  }

  /** Runs the searches of a round at the same time, and shows them to the client in their order. */
  async #runSearches(calls: readonly SearchCall[]): Promise<ToolResultPart[]> {
    const found = await Promise.all(calls.map((call) => this.#search(call)));
    for (const { shown } of found) if (shown) this.#sink.webSearch?.(shown);
    return found.map(({ text }, index) => ({
      kind: 'tool_result',
      callId: calls[index]?.id ?? '',
      parts: [{ kind: 'text', text }],
      isError: false,
    }));
  }

  async #search(call: SearchCall): Promise<SearchReport> {
    const { engine, limits, clientSignal, budget } = this.#context;
    const query = parseQuery(call.arguments);
    if (this.#calls >= limits.callsMax)
      return failedReport('No more searches are possible. Answer now.', query, 'limit');
    this.#calls += 1;
    if (query === undefined)
      return failedReport('The arguments must be a JSON object with a query.', query);
    if (!(await budget.reserveSearch(this)))
      return failedReport('There are not enough credits for this search.', query);
    const { resultsMax, allowedDomains, excludedDomains } = limits;
    const filters = { allowedDomains, excludedDomains };
    const outcome = await engine.search({
      query,
      resultsMax: resultsMax,
      ...filters,
      signal: clientSignal,
    });
    if (outcome.kind === 'failed') return failedReport(outcome.message, query);
    const { text, shown } = searchResultsText(outcome, this.#pages.length + 1);
    this.searches += 1;
    const pages = outcome.results.slice(0, shown);
    this.#pages.push(...pages.map(({ url, title, snippet }) => ({ url, title, snippet })));
    return { text, shown: { query, pages: pages.map(toWebPage), error: null } };
  }
}

interface SearchReport {
  /** The result for the model. */
  readonly text: string;
  /** The search as clients see it. Undefined if the model's call had no query. */
  readonly shown: WebSearch | undefined;
}

function failedReport(
  message: string,
  query: string | undefined,
  error: WebSearch['error'] = 'failed',
): SearchReport {
  const { text } = searchResultsText({ kind: 'failed', message }, 1);
  return { text, shown: query === undefined ? undefined : { query, pages: [], error } };
}

function toWebPage({ url, title, date }: SearchResult): WebSearch['pages'][number] {
  return { url, title, ...(date === undefined ? {} : { date }) };
}

function parseQuery(json: string): string | undefined {
  const value = parseArguments(json);
  const query = isObject(value) ? value.query : undefined;
  return typeof query === 'string' && query.trim() !== '' ? query : undefined;
}

/** Returns the bytes that parts of a turn add to a prompt, or a little more. */
function jsonBytes(parts: readonly object[]): number {
  return Buffer.byteLength(JSON.stringify(parts));
}

/** Returns a name that none of the client's tools has, because their calls go to the client. */
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
