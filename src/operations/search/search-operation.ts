import { strict as assert } from 'node:assert';
import type { CacheIdentity, Operation } from '../../call.ts';
import type { AnswerSink } from '../../core/answer.ts';
import { invalidRequest } from '../../core/errors.ts';
import type { Prompt } from '../../core/prompt.ts';
import type { Recording } from '../../core/recording.ts';
import type { ChatRequestInfo, SearchOptions } from '../../core/request-info.ts';
import type { Measured, Units } from '../../core/usage.ts';
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
import { dialects } from '../../dialects/registry.ts';
import { ChatBounds, textBytes } from '../../money/price/bounds.ts';
import { estimateNote, isPlausible } from '../../money/price/usage-report.ts';
import type { UsdPrice } from '../../money/price/usd.ts';
import type { Offer } from '../../route/catalog.ts';
import type { FoundPage } from '../../tools/citations.ts';
import type { SearchEngine } from '../../tools/search-engine.ts';
import { readDomain } from '../../tools/search-engine.ts';
import type { SearchNotes } from '../../tools/search-notes.ts';
import { searchTool } from '../../tools/search-tool.ts';
import type { AttemptContext, AttemptResult, Continuation } from '../../upstream/attempt.ts';
import { attemptWithAdapter } from '../../upstream/chat-attempt.ts';
import type { StreamOutcome } from '../../upstream/stream-answer.ts';
import { ChatOperation, sentTo } from '../chat/chat-operation.ts';
import { AttemptBudget, SearchBudget } from './budget.ts';
import {
  CombinedMetrics,
  CombinedTransform,
  noFraming,
  readSilentRounds,
  roundClient,
} from './combined-stream.ts';
import { recordingSink, replayCalls } from './recorded-answer.ts';
import { type SearchLimits, SearchSession } from './session.ts';

/** The search engine, its limits, and its price, as configured by the operator. */
export interface WebSearchDeps {
  readonly engine: SearchEngine;
  readonly callsMax: number;
  readonly resultsMax: number;
  readonly usdPerSearch: UsdPrice;
  readonly creditsPerUsd: number;
  /** Whether a client that disconnects pays the input of the round that was running. */
  readonly chargesAbandonedInput: boolean;
  readonly notes: SearchNotes;
}

/** One attempt at one offer. */
interface SearchAttempt {
  readonly offer: Offer;
  readonly context: AttemptContext;
  readonly budget: AttemptBudget;
  readonly session: SearchSession;
}

/** A chat request whose model may search the web. The gateway runs the searches. */
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
  readonly #budget: SearchBudget;
  /** The latest attempt, whose usage is charged. */
  #attempt: SearchAttempt | undefined;

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
    // The gateway runs the search for the client's search tool, so the tool does not count as
    // dropped.
    const stillUnsupported = prompt.unsupported.filter(
      (name) => name !== options.param && name !== 'plugins',
    );
    // Several choices would need different searches, so there is only one.
    const unsupported = prompt.choices > 1 ? ['n'] : [];
    this.#prompt = {
      ...prompt,
      choices: 1,
      unsupported: [...unsupported, ...options.unsupported, ...stillUnsupported],
    };
    const { inputBytes } = clientRequest.request;
    const moreBytes = toolBytes + addedBytes(clientRequest.toPrompt(), prompt);
    this.request = { ...clientRequest.request, inputBytes: inputBytes + moreBytes };
    this.bounds = new ChatBounds(this.request);
    this.#budget = new SearchBudget(this.request, deps);
    this.streamFormat = clientRequest.streamFormat;
    this.skills = this.#chat.skills;
  }

  incompatibility(offer: Offer): string | null {
    return this.#chat.incompatibility(offer);
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    return this.#chat.refine(plan);
  }

  lostFields(offer: Offer): readonly string[] {
    const upstream = dialects[offer.dialect].chat;
    if (!upstream) return [];
    const adapter = new Translation(this.#prompt, this.#clientRequest.client, upstream);
    return this.#chat.lostFieldsWith(adapter, offer);
  }

  promptStart(): string {
    return this.#chat.promptStart();
  }

  /** If the attempt fails, its searches are not charged. */
  tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    return this.request.stream ? this.#stream(offer, context) : this.#reply(offer, context);
  }

  measure(metrics: AnswerMetrics, outcome: StreamOutcome['kind']): Measured {
    const { searches = 0, isEstimate = false } = this.#attempt?.session ?? {};
    const { reported, ...measured } = this.#chat.measure(metrics, outcome);
    const estimated = isEstimate ? { isEstimate, note: estimateNote } : reported && { reported };
    const units = metrics.usage ? this.#unitsOf(measured) : measured.units;
    const toolCredits = this.#budget.feeFor(searches);
    return { ...measured, ...estimated, units, searches, toolCredits };
  }

  measureInput(): Measured {
    assert(this.#attempt, 'A request was abandoned before its first attempt.');
    return this.measure(new CombinedMetrics(this.#attempt.session), 'client_disconnected');
  }

  /**
   * The web changes, so only a client that requests caching gets an earlier answer. The recording
   * is in the neutral format, which can be replayed as a stream and as a complete response.
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
      if (!metrics) return undefined;
      const written = writer.take();
      return { metrics, write: (settled) => written + writer.close(settled) };
    }
    const writer = client.writeReply(identity);
    const metrics = replayInto(text, writer);
    return metrics && { metrics, write: (settled) => writer.write(settled) };
  }

  async #reply(offer: Offer, context: AttemptContext): Promise<AttemptResult> {
    const writer = this.#clientRequest.client.writeReply(context.identity);
    const attempt = this.#begin(writer, offer, context);
    const { session } = attempt;
    const metrics = new CombinedMetrics(session);
    // The response is written after the last round, so single rounds need no framing.
    const client = roundClient(session, noFraming);
    for (let isFirst = true; ; isFirst = false) {
      const result = await this.#tryRound(attempt, client);
      if (result.kind !== 'reply') {
        // A disconnect isn't a failure: the client pays for the rounds so far, as in a stream.
        const isCanceled = context.clientSignal.aborted && !isFirst;
        return isCanceled
          ? { kind: 'reply', reply: { metrics, isCanceled, write: () => '' } }
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
    const attempt = this.#begin(writer, offer, context);
    const { session } = attempt;
    const client = roundClient(session, writer);
    const first = await this.#tryRound(attempt, client);
    if (first.kind !== 'stream') return first;
    const transform = new CombinedTransform(first.transform, session);
    const openContinuation = async (): Promise<Continuation> => {
      if (!session.needsAnotherRound || !(await session.next())) {
        await session.end();
        this.#storeNote(session);
        return { kind: 'closing', text: writer.take() };
      }
      const round = await this.#tryRound(attempt, client);
      if (round.kind !== 'stream') return round;
      transform.begin(round.transform);
      return { ...round, transform, openContinuation };
    };
    const opened = { ...first, transform, openContinuation };
    return readSilentRounds(opened, () => !session.round.hasOutput, context.clientSignal);
  }

  #begin(writer: AnswerSink, offer: Offer, context: AttemptContext): SearchAttempt {
    const { recorder, clientSignal } = context;
    recorder?.begin(offer, 'reply');
    const sink = recorder ? recordingSink(writer, (line) => recorder.add(line)) : writer;
    const budget = new AttemptBudget(this.#budget, offer, context);
    const session = new SearchSession(this.#prompt, sink, {
      engine: this.#deps.engine,
      limits: this.#limits,
      pages: this.#pages,
      promptBytes: textBytes(this.request),
      budget,
      clientSignal,
      isPlausible: (usage, outputCharacters, promptBytes) =>
        isPlausible(usage, outputCharacters, {
          ...sentTo(offer, this.request, context),
          textBytes: promptBytes,
        }),
    });
    const attempt = { offer, context, budget, session };
    this.#attempt = attempt;
    return attempt;
  }

  /** Returns the units with each round's usage, if prices depend on the length of its prompt. */
  #unitsOf({ units }: Measured): Units {
    const { session, offer } = this.#attempt ?? {};
    const calls = session?.usageOfRounds ?? [];
    const isPricedByRound = offer?.prices.longPrompts !== undefined && calls.length > 1;
    return isPricedByRound ? { ...units, calls } : units;
  }

  async #tryRound(
    { session, offer, context, budget }: SearchAttempt,
    client: ClientDialect,
  ): Promise<AttemptResult> {
    const upstream = dialects[offer.dialect].chat;
    assert(upstream, `The plan has an offer whose dialect can't chat: ${offer.dialect}.`);
    // Don't pass a recorder, because the session records the answer of all rounds.
    const result = await attemptWithAdapter({
      adapter: new Translation(session.prompt, client, upstream),
      request: this.request,
      offer,
      context,
      outputTokensMax: budget.outputTokensMax,
    });
    const isAbandoned = result.kind === 'failed' && result.failure.isAbandoned;
    if (isAbandoned && this.#deps.chargesAbandonedInput) session.abandonRound();
    return result;
  }

  #storeNote({ note: searchNote }: SearchSession): void {
    if (!searchNote) return;
    const clientPrompt = this.#clientRequest.toPrompt();
    this.#deps.notes.store(this.#tenantId, clientPrompt, searchNote.clientCalls, searchNote.note);
  }
}

/** The bytes that the search tool adds to every prompt. */
const toolBytes = Buffer.byteLength(JSON.stringify(searchTool));

/** Returns the bytes that restored searches add to a prompt. */
function addedBytes(before: Prompt, after: Prompt): number {
  if (before.turns === after.turns) return 0;
  const bytesOf = ({ turns }: Prompt) => Buffer.byteLength(JSON.stringify(turns));
  return bytesOf(after) - bytesOf(before);
}

/** Returns undefined if the text isn't the recorded answer of a search. */
function replayInto(text: string, writer: AnswerSink): AnswerMetrics | undefined {
  const sink = new MeteringSink(writer);
  return replayCalls(text, sink) ? sink.metrics : undefined;
}

/** The most domains in a list. Each adds a term to every query and a check to every result. */
const domainsMax = 100;

function searchLimits(options: SearchOptions, deps: WebSearchDeps): SearchLimits {
  const { param, callsMax, resultsMax } = options;
  const domains = (names: readonly string[], field: string) => {
    const list = `${param}.${field}`;
    if (names.length > domainsMax) {
      const problem = `has ${names.length} items; at most ${domainsMax} are allowed`;
      throw invalidRequest(`${list} ${problem}.`, list);
    }
    return names.map((name, index) => {
      const domain = readDomain(name);
      if (domain !== undefined) return domain;
      const path = `${list}[${index}]`;
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
