import type { AnswerListener, FinishReason } from '../../core/answer.ts';
import type { Dialogue, ToolResultPart, Turn } from '../../core/dialogue.ts';
import { isObject } from '../../core/json.ts';
import { addUsage, type Usage } from '../../core/usage.ts';
import { wordBytes } from '../../core/word-bytes.ts';
import { parseArguments } from '../../dialects/answer/exact-json.ts';
import { pointsIn } from '../../dialects/answer/points.ts';
import { finishWords } from '../../dialects/answer/tally.ts';
import { estimateUsage } from '../../meter/estimate.ts';
import { citationsIn, type FoundPage } from '../../tools/citations.ts';
import type { SearchEngine } from '../../tools/search.ts';
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
export interface SearchSurroundings {
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
  affordRound(promptBytes: number, searches: number): Promise<boolean>;
  /** The same for the fee of one search and what its results add to the prompt. */
  affordSearch(): Promise<boolean>;
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
  readonly #around: SearchSurroundings;
  readonly #to: AnswerListener;
  readonly #toolName: string;
  readonly #pages: FoundPage[];
  #dialogue: Dialogue;
  #round: SearchRound;
  #promptBytes: number;
  /** The bytes of words in this round's prompt, once they were asked for. */
  #wordBytes: number | undefined;
  /** The usage of each round that is over. */
  readonly #used: Usage[] = [];
  #isEstimate = false;
  #calls = 0;
  #said = '';
  /** How many characters of `#said` have had their citations told. */
  #cited = 0;
  #isBroke = false;

  constructor(dialogue: Dialogue, to: AnswerListener, around: SearchSurroundings) {
    this.#around = around;
    this.#to = to;
    this.#pages = [...around.pages];
    this.#promptBytes = around.promptBytes;
    this.#toolName = freeNameIn(dialogue);
    this.#dialogue = withTool(dialogue, this.#toolName);
    this.#round = this.#newRound('');
  }

  /** What the upstream is asked in this round. */
  get dialogue(): Dialogue {
    return this.#dialogue;
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
    const now = this.#roundUsage();
    return now ? [...this.#used, now] : this.#used;
  }

  get isEstimate(): boolean {
    const { usage, isEstimate, outputCharacters } = this.#round.facts;
    return this.#isEstimate || (usage ? isEstimate : outputCharacters > 0);
  }

  /** Whether another round must follow the one that the upstream has ended. */
  get wantsMore(): boolean {
    const { searches, clientCalls } = this.#round;
    return searches.length > 0 && clientCalls.length === 0 && this.#calls <= this.#callsMax;
  }

  get #callsMax(): number {
    return this.#around.limits.callsMax;
  }

  /** Ends the answer: citations, the reason, and all that was used. */
  async end(): Promise<void> {
    this.#round.tell();
    // Before the last searches: the model has not read what they find, whatever number it wrote.
    this.#cite();
    const { searches, clientCalls } = this.#round;
    if (clientCalls.length > 0) {
      const results = await this.#answer(searches);
      const note = { toolName: this.#toolName, calls: searches, results, pages: this.#pages };
      if (searches.length + this.#pages.length > 0) this.note = { clientCalls, note };
    }
    const finished = this.#closeRound();
    if (searches.length > 0 && clientCalls.length === 0 && this.#said === '') {
      this.#said = this.#isBroke ? noCreditsLeft : noSearchLeft;
      this.#to.text(this.#said);
    }
    const { usage } = this;
    if (usage) this.#to.usage?.(usage);
    if (!finished) return;
    const reason = this.#reasonOf(finished.reason, clientCalls.length > 0);
    this.finishReason = finishWords[reason];
    this.#to.finish(reason, finished.stopSequence);
  }

  /** Runs the searches and makes the next round ready; false when it cannot be paid for. */
  async next(): Promise<boolean> {
    this.#cite();
    const { searches, parts } = this.#round;
    const promptBytes = this.#promptBytes + bytesOf(parts);
    if (!(await this.#affords(promptBytes, searches.length))) return false;
    const results = await this.#answer(searches);
    this.#promptBytes = promptBytes + bytesOf(results);
    // Only now the length of the prompt is known: it may be more than was set aside for it.
    if (!(await this.#affords(this.#promptBytes, 0))) return false;
    this.#closeRound();
    const turns: Turn[] = [
      ...this.#dialogue.turns,
      { role: 'assistant', parts },
      { role: 'user', parts: results },
    ];
    // Tools stay declared: some upstreams refuse calls in the history of tools they do not know.
    const toolChoice = this.#calls >= this.#callsMax ? 'none' : null;
    this.#dialogue = { ...this.#dialogue, turns, toolChoice };
    this.#wordBytes = undefined;
    if (toolChoice === 'none') this.#calls += 1;
    const gap = this.#said === '' || /\s$/.test(this.#said) ? '' : '\n\n';
    this.#round = this.#newRound(gap);
    return true;
  }

  #newRound(gap: string): SearchRound {
    const isJson = this.#dialogue.json !== null;
    const endWords = () => this.#cite();
    return new SearchRound(this.#toolName, this.#to, { gap, isJson, endWords });
  }

  /** Tells the citations up to here, each once: some clients' texts end with the round. */
  #cite(): void {
    const text = this.#said + this.#round.said;
    for (const citation of citationsIn(text, this.#pages)) {
      if ((citation.range?.start ?? 0) >= this.#cited) this.#to.citation(citation);
    }
    this.#cited = pointsIn(text);
  }

  async #affords(promptBytes: number, searches: number): Promise<boolean> {
    this.#isBroke = !(await this.#around.affordRound(promptBytes, searches));
    return !this.#isBroke;
  }

  /** A client must not be made to wait for a call that it never sees. */
  #reasonOf(reason: FinishReason, hasClientCalls: boolean): FinishReason {
    if (this.#isBroke) return 'length';
    return reason === 'tool_calls' && !hasClientCalls ? 'stop' : reason;
  }

  /** Adds a round that is over to the sums, once. */
  #closeRound(): SearchRound['finished'] {
    const { facts, said, finished } = this.#round;
    if (!facts.usage || facts.isEstimate) this.#isEstimate = true;
    this.#used.push(this.#usedBy(facts));
    this.#said += said;
    this.#round = this.#newRound('');
    return finished;
  }

  /** Undefined for a round that has said nothing: it may never have been sent. */
  #roundUsage(): Usage | undefined {
    const { facts } = this.#round;
    return facts.usage || facts.outputCharacters > 0 ? this.#usedBy(facts) : undefined;
  }

  #usedBy({ usage: counted, isEstimate, outputCharacters }: SearchRound['facts']): Usage {
    if (counted && (!isEstimate || counted.outputTokens > 0)) return counted;
    const estimate = estimateUsage(counted ? 0 : this.#words, outputCharacters);
    // Where only the prompt was counted, the output is a guess.
    return counted ? { ...counted, outputTokens: estimate.outputTokens } : estimate;
  }

  get #words(): number {
    this.#wordBytes ??= wordBytes(this.#dialogue);
    return this.#wordBytes;
  }

  async #answer(calls: readonly SearchCall[]): Promise<ToolResultPart[]> {
    const texts = await Promise.all(calls.map((call) => this.#search(call)));
    return calls.map(({ id }, at) => ({
      kind: 'tool_result',
      callId: id,
      parts: [{ kind: 'text', text: texts[at] ?? '' }],
      isError: false,
    }));
  }

  async #search(call: SearchCall): Promise<string> {
    const { engine, limits, client } = this.#around;
    if (this.#calls >= limits.callsMax) return failed('No more searches are possible. Answer now.');
    this.#calls += 1;
    const query = queryOf(call.arguments);
    if (query === undefined) return failed('The arguments must be a JSON object with a query.');
    if (!(await this.#around.affordSearch())) return failed('There are not enough credits for it.');
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

function failed(message: string): string {
  return searchResultsText({ kind: 'failed', message }, 1).text;
}

function queryOf(json: string): string | undefined {
  const value = parseArguments(json);
  const query = isObject(value) ? value.query : undefined;
  return typeof query === 'string' && query.trim() !== '' ? query : undefined;
}

/** The bytes that parts of a turn add to a prompt, or a little more. */
function bytesOf(parts: readonly object[]): number {
  return Buffer.byteLength(JSON.stringify(parts));
}

/** A name that no tool of the client has: a call of the client's tool is the client's to answer. */
function freeNameIn({ tools }: Dialogue): string {
  const taken = new Set(tools.map((tool) => tool.name));
  let { name }: { name: string } = searchTool.function;
  while (taken.has(name)) name = `gateway_${name}`;
  return name;
}

function withTool(dialogue: Dialogue, name: string): Dialogue {
  const { description, parameters } = searchTool.function;
  return { ...dialogue, tools: [...dialogue.tools, { name, description, parameters }] };
}
