import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import type { AnswerSink } from '../../core/answer.ts';
import { searchTextMax } from '../../core/bounds.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { Prompt } from '../../core/prompt.ts';
import type { Recording } from '../../core/recording.ts';
import type { ChatRequestInfo, SearchOptions } from '../../core/request-info.ts';
import { type Measured, noUsage, type Units, type Usage } from '../../core/usage.ts';
import type {
  AnswerMetrics,
  ClientDialect,
  ClientRequest,
  ReplyIdentity,
  StreamFormat,
  TransformedReply,
} from '../../dialects/dialect.ts';
import { Translation } from '../../dialects/engine.ts';
import { MeteringSink } from '../../dialects/normalize/responses/answer-metrics.ts';
import { upstreamDialect } from '../../dialects/registry.ts';
import {
  ChatBounds,
  firstHoldTokens,
  holdPrices,
  inputBound,
  maxTokensIn,
  textBytes,
} from '../../money/price/bounds.ts';
import {
  chargeAt,
  costOf,
  estimateNote,
  flatRateCost,
  maxCostOverTiers,
} from '../../money/price/cost.ts';
import { type NanoUsd, perUnit, toCredits } from '../../money/price/usd.ts';
import type { Offer } from '../../route/catalog.ts';
import type { FoundPage } from '../../tools/citations.ts';
import type { SearchEngine } from '../../tools/search-engine.ts';
import { readDomain } from '../../tools/search-engine.ts';
import type { SearchNotes } from '../../tools/search-notes.ts';
import { searchTool } from '../../tools/search-tool.ts';
import type { AttemptContext, AttemptResult } from '../../upstream/attempt.ts';
import { attemptWithAdapter } from '../../upstream/chat-attempt.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';
import { ChatOperation } from '../chat/chat-operation.ts';
import {
  CombinedMetrics,
  CombinedTransform,
  readSilentRounds,
  roundWriter,
} from './combined-stream.ts';
import { forwardTo, recordingSink, replayCalls } from './recorded-answer.ts';
import { type SearchContext, type SearchLimits, SearchSession } from './session.ts';

/** What the operator set up for searches. */
export interface WebSearchDeps {
  readonly engine: SearchEngine;
  readonly callsMax: number;
  readonly resultsMax: number;
  readonly usdPerSearch: NanoUsd;
  readonly creditsPerUsd: number;
  readonly notes: SearchNotes;
}

/** A conversation in which the model may search the web; the gateway runs the searches. */
export class SearchOperation implements Operation {
  readonly request: ChatRequestInfo;
  readonly bounds: ChatBounds;
  readonly streamFormat: StreamFormat;
  readonly skills: readonly string[];
  readonly #chat: ChatOperation;
  readonly #clientRequest: ClientRequest;
  readonly #deps: WebSearchDeps;
  readonly #limits: SearchLimits;
  readonly #tenantId: string;
  readonly #prompt: Prompt;
  readonly #pages: readonly FoundPage[];
  #session: SearchSession | undefined;
  /** Whether the offer in use has other prices for long prompts. */
  #hasLongPromptPrices = false;
  /** The output cap of the next round; null leaves the client's own. */
  #outputCap: number | null = null;
  /** Credits set aside for rounds and searches, including those at offers that failed. */
  #extraCredits = 0;

  constructor(
    clientRequest: ClientRequest,
    options: SearchOptions,
    tenantId: string,
    deps: WebSearchDeps,
  ) {
    this.#chat = new ChatOperation(clientRequest);
    this.#clientRequest = clientRequest;
    this.#deps = deps;
    this.#tenantId = tenantId;
    this.#limits = searchLimits(options, deps);
    const { prompt, pages } = deps.notes.restore(tenantId, clientRequest.toPrompt());
    this.#pages = pages;
    // The tool that stands for the search is not dropped: the gateway runs it.
    const foreign = prompt.foreign.filter((name) => name !== options.param && name !== 'plugins');
    // Several choices would need different searches, so there is only one.
    const unsupported = prompt.choices > 1 ? ['n'] : [];
    this.#prompt = {
      ...prompt,
      choices: 1,
      foreign: [...unsupported, ...options.unmet, ...foreign],
    };
    const { inputBytes } = clientRequest.request;
    const moreBytes = toolBytes + addedBytes(clientRequest.toPrompt(), prompt);
    this.request = { ...clientRequest.request, inputBytes: inputBytes + moreBytes };
    this.bounds = new ChatBounds(this.request);
    this.streamFormat = clientRequest.streamFormat;
    this.skills = this.#chat.skills;
  }

  incompatibility(offer: Offer): string | null {
    return this.#chat.incompatibility(offer);
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    return this.#chat.refine(plan);
  }

  /** Searches that were made for an offer which failed in the end are the operator's loss. */
  tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    return this.request.stream ? this.#stream(offer, context) : this.#reply(offer, context);
  }

  measure(metrics: AnswerMetrics, outcome: StreamOutcome['kind']): Measured {
    const { searches = 0, isEstimate = false } = this.#session ?? {};
    const measured = this.#chat.measure(metrics, outcome);
    const estimated = isEstimate ? { isEstimate, note: estimateNote } : {};
    const units = metrics.usage ? this.#unitsOf(measured) : measured.units;
    return { ...measured, ...estimated, units, searches, toolCredits: this.#feeOf(searches) };
  }

  /**
   * The web changes, so only a client that asks for it gets an earlier answer. The answer is kept
   * in our own words, which fit a stream and a whole reply alike.
   */
  cacheIdentity(): CacheIdentity {
    const clientRequest = this.#clientRequest;
    return {
      cacheKeyInput: () => ['searched', clientRequest.cacheKeyInput()],
      isRepeatable: false,
    };
  }

  replay({ text }: Recording, identity: ReplyIdentity): TransformedReply | undefined {
    const { client } = this.#clientRequest;
    if (this.request.stream) {
      const writer = client.writeStream(identity);
      const metrics = replayInto(text, writer);
      if (!metrics || writer.hasOpenToolCall) return undefined;
      const written = writer.take();
      return { metrics, write: (settled) => written + writer.close(settled) };
    }
    const writer = client.writeReply(identity);
    const metrics = replayInto(text, writer);
    return metrics && { metrics, write: (settled) => writer.write(settled) };
  }

  async #reply(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const writer = this.#clientRequest.client.writeReply(context.identity);
    const session = this.#open(writer, offer, context);
    const metrics = new CombinedMetrics(session);
    // Nothing is written to the client before the last round.
    const client = { writeReply: () => ({ ...forwardTo(session.round), write: () => '' }) };
    for (;;) {
      const result = await this.#tryRound(session, client, offer, context);
      if (result.kind !== 'reply') {
        // The client left, nobody failed: as with a stream, it pays for the searches made so far.
        const wasLeft = context.client.aborted && session.searches > 0;
        return wasLeft
          ? { kind: 'reply', reply: { metrics, isCanceled: wasLeft, write: () => '' } }
          : result;
      }
      metrics.begin(result.reply.metrics);
      if (!session.needsAnotherRound || !(await session.next())) break;
    }
    await session.end();
    this.#storeNote(session);
    return { kind: 'reply', reply: { metrics, write: (settled) => writer.write(settled) } };
  }

  async #stream(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const writer = this.#clientRequest.client.writeStream(context.identity);
    const session = this.#open(writer, offer, context);
    const client = { writeStream: () => roundWriter(session.round, writer) };
    const first = await this.#tryRound(session, client, offer, context);
    if (first.kind !== 'stream') return first;
    const transform = new CombinedTransform(first.transform, session);
    const openContinuation = async (): Promise<AttemptResult | string> => {
      if (!session.needsAnotherRound || !(await session.next())) {
        await session.end();
        this.#storeNote(session);
        return writer.take();
      }
      const round = await this.#tryRound(session, client, offer, context);
      if (round.kind !== 'stream') return round;
      transform.begin(round.transform);
      return { ...round, transform, openContinuation };
    };
    const opened = { ...first, transform, openContinuation };
    return readSilentRounds(opened, () => !session.round.hasOutput, context.client);
  }

  #open(writer: AnswerSink, offer: Offer, context: AttemptContext): SearchSession {
    const { recorder, client } = context;
    this.#hasLongPromptPrices = offer.prices.longPrompts !== undefined;
    this.#outputCap = context.outputTokensMax;
    recorder?.begin(offer, 'whole');
    const sink = recorder ? recordingSink(writer, (line) => recorder.add(line)) : writer;
    this.#session = new SearchSession(this.#prompt, sink, {
      engine: this.#deps.engine,
      limits: this.#limits,
      pages: this.#pages,
      promptBytes: textBytes(this.request),
      ...this.#budgetFor(offer, context),
      client,
    });
    return this.#session;
  }

  /** Sets aside what the next round or search may cost at this offer, beside what is spent. */
  #budgetFor(
    offer: Offer,
    context: AttemptContext,
  ): Pick<SearchContext, 'reserveRound' | 'reserveSearch'> {
    const firstPromptBytes = textBytes(this.request);
    const heldPrices = holdPrices(offer.prices, this.request);
    const outputTokens = firstHoldTokens(this.request, offer);
    /** The prompt of the round that was paid for last, with the results of its searches. */
    let promptTokensMax = inputBound(this.request);
    const chargeMax = (tokens: Pick<Usage, 'inputTokens' | 'outputTokens'>) => {
      // The request's own price is held already.
      const cost = maxCostOverTiers(heldPrices, promptTokensMax, (prices) =>
        flatRateCost({ ...noUsage, ...tokens }, { ...prices, request: 0n }),
      );
      return chargeAt(offer, cost, this.#deps.creditsPerUsd);
    };
    const firstTokens = Math.min(outputTokens, context.outputTokensMax ?? outputTokens);
    const first = chargeMax({ inputTokens: promptTokensMax, outputTokens: firstTokens });
    /**
     * Credits that are spent, or set aside for the next round; not what earlier rounds left over.
     */
    let neededCredits = 0;
    const extend = async (credits: number) => {
      neededCredits += credits;
      const more = Math.max(0, neededCredits - first - this.#extraCredits);
      // Counted before the hold is extended, because the searches of a round run at the same time.
      this.#extraCredits += more;
      if (more === 0 || (await context.extendHold(more))) return true;
      neededCredits -= credits;
      this.#extraCredits -= more;
      context.recorder?.markTruncated();
      return false;
    };
    return {
      reserveRound: async (promptBytes, searches) => {
        neededCredits = this.#spentAt(offer);
        const moreBytes = promptBytes - firstPromptBytes;
        const inputTokens = inputBound(this.request) + maxTokensIn(moreBytes);
        promptTokensMax = inputTokens + searches * maxTokensIn(searchTextMax);
        if (!(await extend(chargeMax({ inputTokens, outputTokens })))) return false;
        this.#outputCap = await this.#outputCapFor(offer, context, moreBytes);
        return true;
      },
      reserveSearch: () => {
        // Where the client has calls to answer, no further round follows that would count this one.
        neededCredits = Math.max(neededCredits, this.#spentAt(offer));
        const results = { inputTokens: maxTokensIn(searchTextMax), outputTokens: 0 };
        return extend(chargeMax(results) + this.#feeOf(1));
      },
    };
  }

  /** The output cap of the next round: it can cost no more than earlier ones have left. */
  async #outputCapFor(
    offer: Offer,
    context: AttemptContext,
    moreBytes: number,
  ): Promise<number | null> {
    const { creditsPerUsd } = this.#deps;
    const bounds = new ChatBounds({
      ...this.request,
      inputBytes: this.request.inputBytes + moreBytes,
    });
    const spent = this.#spentAt(offer);
    const chargeMax = spent + bounds.boundFor([offer], creditsPerUsd).maximum;
    const spendable = await context.spendableCredits(chargeMax);
    // Beside a longer prompt, the operator's cap may not fit any more.
    if (spendable >= chargeMax) return bounds.defaultCapFor(offer);
    context.recorder?.markTruncated();
    const affordable = bounds.capWithin(spendable - spent, offer, creditsPerUsd);
    // The first stretch is set aside: rounding once more could make it seem a credit too dear.
    return Math.max(affordable, firstHoldTokens(this.request, offer));
  }

  /** What rounds and searches cost until now, without the request's own price. */
  #spentAt(offer: Offer): number {
    const { usage = noUsage, usageOfRounds: calls = [], searches = 0 } = this.#session ?? {};
    const cost = costOf(usage, { ...offer.prices, request: 0n }, { calls });
    return chargeAt(offer, cost, this.#deps.creditsPerUsd) + this.#feeOf(searches);
  }

  /** A provider sees each round as a request, so each has a prompt of its own length. */
  #unitsOf({ units }: Measured): Units {
    const calls = this.#session?.usageOfRounds ?? [];
    return this.#hasLongPromptPrices && calls.length > 1 ? { ...units, calls } : units;
  }

  /** The fee for all searches together, rounded once. */
  #feeOf(searches: number): number {
    const { usdPerSearch, creditsPerUsd } = this.#deps;
    return toCredits(perUnit(usdPerSearch, searches), creditsPerUsd);
  }

  #tryRound(
    session: SearchSession,
    client: Partial<ClientDialect>,
    offer: Offer,
    context: AttemptContext,
  ): Promise<AttemptResult> {
    const upstream = upstreamDialect(offer.dialect);
    assert(upstream, `No crossing to ${offer.dialect} was planned.`);
    const adapter = new Translation(session.prompt, client as ClientDialect, upstream);
    // No tape hears this round alone: the session writes down the answer of all rounds.
    return attemptWithAdapter({
      adapter,
      request: this.request,
      offer,
      context,
      outputTokensMax: this.#outputCap,
    });
  }

  #storeNote({ note: searchNote }: SearchSession): void {
    if (!searchNote) return;
    const clientPrompt = this.#clientRequest.toPrompt();
    this.#deps.notes.store(this.#tenantId, clientPrompt, searchNote.clientCalls, searchNote.note);
  }
}

/** The bytes that our tool adds to every prompt. */
const toolBytes = Buffer.byteLength(JSON.stringify(searchTool));

/** The bytes that were put back into a conversation. */
function addedBytes(before: Prompt, after: Prompt): number {
  if (before.turns === after.turns) return 0;
  const bytesOf = ({ turns }: Prompt) => Buffer.byteLength(JSON.stringify(turns));
  return bytesOf(after) - bytesOf(before);
}

/** Undefined when this is no recorded answer of a search. */
function replayInto(text: string, writer: AnswerSink): AnswerMetrics | undefined {
  const tally = new MeteringSink(writer);
  return replayCalls(text, tally) ? tally.metrics : undefined;
}

/** Each is one word more of a query, and one comparison more for each result. */
const domainsMax = 100;

function searchLimits(options: SearchOptions, deps: WebSearchDeps): SearchLimits {
  const { param, callsMax, resultsMax } = options;
  const domains = (names: readonly string[], field: string) => {
    const list = `${param}.${field}`;
    if (names.length > domainsMax) {
      const problem = `has ${names.length} items; at most ${domainsMax} are allowed`;
      throw invalidRequest(`${list} ${problem}.`, list);
    }
    return names.map((name, at) => {
      const domain = readDomain(name);
      if (domain !== undefined) return domain;
      const path = `${list}[${at}]`;
      throw invalidRequest(`${path} must be a domain such as docs.example.com.`, path);
    });
  };
  return {
    callsMax: Math.min(callsMax ?? deps.callsMax, deps.callsMax),
    resultsMax: resultsMax ?? deps.resultsMax,
    allowedDomains: domains(options.allowedDomains, options.allowedName),
    excludedDomains: domains(options.excludedDomains, options.excludedName),
  };
}
