import { strict as assert } from 'node:assert';
import type { Errand, Sameness } from '../call.ts';
import type { AnswerListener } from '../core/answer.ts';
import type { ChatAsk, SearchWish } from '../core/ask.ts';
import { searchTextMax } from '../core/bounds.ts';
import type { Dialogue } from '../core/dialogue.ts';
import { invalidRequest } from '../core/errors.ts';
import { type NanoUsd, perUnit, toCredits } from '../core/money.ts';
import type { Recording } from '../core/recording.ts';
import { type Measured, noUsage, type Units, type Usage } from '../core/usage.ts';
import { Tally } from '../dialects/answer/tally.ts';
import type {
  ClientDialect,
  ClientWords,
  Conversation,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
} from '../dialects/dialect.ts';
import { Translation } from '../dialects/translation.ts';
import { upstreamDialect } from '../dialects/upstreams.ts';
import { ChatBounds, inputBound, outputBound, textBytes, tokensWithin } from '../meter/bound.ts';
import { estimateNote } from '../meter/estimate.ts';
import { holdPrices } from '../meter/hold-prices.ts';
import { chargeAt, costAt, costOf, mostCost } from '../meter/price.ts';
import type { Offer } from '../route/catalogue.ts';
import type { FoundPage } from '../tools/citations.ts';
import { readDomain } from '../tools/domains.ts';
import type { SearchEngine } from '../tools/search.ts';
import type { SearchNotes } from '../tools/search-notes.ts';
import { searchTool } from '../tools/search-tool.ts';
import type { AttemptResult } from '../upstream/attempt.ts';
import type { Link } from '../upstream/link.ts';
import type { StreamEnd } from '../upstream/stream-answer.ts';
import { tryCrossing } from '../upstream/try-offer.ts';
import { ChatErrand } from './chat.ts';
import { RoundsFacts, RoundsRelay, roundWriter } from './search/relay.ts';
import { type SearchLimits, SearchSession, type SearchSurroundings } from './search/session.ts';
import { passOn, tellAgain, writingDown } from './search/told-answer.ts';
import { hearUnheard } from './search/unheard.ts';

/** What the operator set up for searches. */
export interface WebSearchParts {
  readonly engine: SearchEngine;
  readonly callsMax: number;
  readonly resultsMax: number;
  readonly usdPerSearch: NanoUsd;
  readonly creditsPerUsd: number;
  readonly notes: SearchNotes;
}

/** A conversation in which the model may search the web; the gateway runs the searches. */
export class SearchingErrand implements Errand {
  readonly ask: ChatAsk;
  readonly bounds: ChatBounds;
  readonly words: ClientWords;
  readonly skills: readonly string[];
  readonly #chat: ChatErrand;
  readonly #conversation: Conversation;
  readonly #parts: WebSearchParts;
  readonly #limits: SearchLimits;
  readonly #tenantId: string;
  readonly #dialogue: Dialogue;
  readonly #pages: readonly FoundPage[];
  #session: SearchSession | undefined;
  /** Whether the offer in use has other prices for long prompts. */
  #pricesLongPrompts = false;
  /** The output cap of the next round; null leaves the client's own. */
  #cap: number | null = null;
  /** Credits set aside for rounds and searches, including those at offers that failed. */
  #moreCredits = 0;

  constructor(
    conversation: Conversation,
    wish: SearchWish,
    tenantId: string,
    parts: WebSearchParts,
  ) {
    this.#chat = new ChatErrand(conversation);
    this.#conversation = conversation;
    this.#parts = parts;
    this.#tenantId = tenantId;
    this.#limits = limitsOf(wish, parts);
    const { dialogue, pages } = parts.notes.restore(tenantId, conversation.dialogue());
    this.#pages = pages;
    // The tool that stands for the search is not dropped: the gateway runs it.
    const foreign = dialogue.foreign.filter((name) => name !== wish.param && name !== 'plugins');
    // Several choices would need different searches, so there is only one.
    const lost = dialogue.choices > 1 ? ['n'] : [];
    this.#dialogue = { ...dialogue, choices: 1, foreign: [...lost, ...wish.unmet, ...foreign] };
    const { inputBytes } = conversation.ask;
    const moreBytes = toolBytes + addedBytes(conversation.dialogue(), dialogue);
    this.ask = { ...conversation.ask, inputBytes: inputBytes + moreBytes };
    this.bounds = new ChatBounds(this.ask);
    this.words = conversation.words;
    this.skills = this.#chat.skills;
  }

  misfit(offer: Offer): string | null {
    return this.#chat.misfit(offer);
  }

  refine(plan: readonly Offer[]): readonly Offer[] {
    return this.#chat.refine(plan);
  }

  /** Searches that were made for an offer which failed in the end are the operator's loss. */
  tryAt(offer: Offer, link: Link): Promise<AttemptResult> {
    return this.ask.stream ? this.#stream(offer, link) : this.#reply(offer, link);
  }

  measure(facts: ReplyFacts, how: StreamEnd['how']): Measured {
    const { searches = 0, isEstimate = false } = this.#session ?? {};
    const measured = this.#chat.measure(facts, how);
    const guessed = isEstimate ? { isEstimate, note: estimateNote } : {};
    const units = facts.usage ? this.#unitsOf(measured) : measured.units;
    return { ...measured, ...guessed, units, searches, toolCredits: this.#feeOf(searches) };
  }

  /**
   * The web changes, so only a client that asks for it gets an earlier answer. The answer is kept
   * in our own words, which fit a stream and a whole reply alike.
   */
  sameness(): Sameness {
    const conversation = this.#conversation;
    return { wording: () => ['searched', conversation.wording()], isRepeatable: false };
  }

  replay({ text }: Recording, identity: ReplyIdentity): ReplyRelay | undefined {
    const { client } = this.#conversation;
    if (this.ask.stream) {
      const writer = client.writeStream(identity);
      const facts = replayInto(text, writer);
      if (!facts || writer.isHalf) return undefined;
      const said = writer.take();
      return { facts, write: (closing) => said + writer.close(closing) };
    }
    const writer = client.writeReply(identity);
    const facts = replayInto(text, writer);
    return facts && { facts, write: (closing) => writer.write(closing) };
  }

  async #reply(offer: Offer, link: Link): Promise<AttemptResult> {
    const writer = this.#conversation.client.writeReply(link.identity);
    const session = this.#open(writer, offer, link);
    const facts = new RoundsFacts(session);
    // Nothing is written to the client before the last round.
    const client = { writeReply: () => ({ ...passOn(session.round), write: () => '' }) };
    for (;;) {
      const result = await this.#tryRound(session, client, offer, link);
      if (result.kind !== 'reply') {
        // The client left, nobody failed: as with a stream, it pays for the searches made so far.
        const wasLeft = link.client.aborted && session.searches > 0;
        return wasLeft ? { kind: 'reply', relay: { facts, wasLeft, write: () => '' } } : result;
      }
      facts.begin(result.relay.facts);
      if (!session.wantsMore || !(await session.next())) break;
    }
    await session.end();
    this.#note(session);
    return { kind: 'reply', relay: { facts, write: (closing) => writer.write(closing) } };
  }

  async #stream(offer: Offer, link: Link): Promise<AttemptResult> {
    const writer = this.#conversation.client.writeStream(link.identity);
    const session = this.#open(writer, offer, link);
    const client = { writeStream: () => roundWriter(session.round, writer) };
    const first = await this.#tryRound(session, client, offer, link);
    if (first.kind !== 'stream') return first;
    const relay = new RoundsRelay(first.relay, session);
    const openSequel = async (): Promise<AttemptResult | string> => {
      if (!session.wantsMore || !(await session.next())) {
        await session.end();
        this.#note(session);
        return writer.take();
      }
      const round = await this.#tryRound(session, client, offer, link);
      if (round.kind !== 'stream') return round;
      relay.begin(round.relay);
      return { ...round, relay, openSequel };
    };
    const opened = { ...first, relay, openSequel };
    return hearUnheard(opened, () => !session.round.hasSpoken, link.client);
  }

  #open(writer: AnswerListener, offer: Offer, link: Link): SearchSession {
    const { tape, client } = link;
    this.#pricesLongPrompts = offer.prices.longPrompts !== undefined;
    this.#cap = link.outputTokensMax;
    tape?.begin(offer, 'whole');
    const to = tape ? writingDown(writer, (line) => tape.add(line)) : writer;
    this.#session = new SearchSession(this.#dialogue, to, {
      engine: this.#parts.engine,
      limits: this.#limits,
      pages: this.#pages,
      promptBytes: textBytes(this.ask),
      ...this.#payingAt(offer, link),
      client,
    });
    return this.#session;
  }

  /** Sets aside what the next round or search may cost at this offer, beside what is spent. */
  #payingAt(offer: Offer, link: Link): Pick<SearchSurroundings, 'affordRound' | 'affordSearch'> {
    const firstPromptBytes = textBytes(this.ask);
    const held = holdPrices(offer.prices, this.ask);
    const outputTokens = outputBound(this.ask, offer);
    /** The prompt of the round that was paid for last, with the results of its searches. */
    let promptTokensMax = inputBound(this.ask);
    const most = (tokens: Pick<Usage, 'inputTokens' | 'outputTokens'>) => {
      // The request's own price is held already.
      const cost = mostCost(held, promptTokensMax, (prices) =>
        costAt({ ...noUsage, ...tokens }, { ...prices, request: 0n }),
      );
      return chargeAt(offer, cost, this.#parts.creditsPerUsd);
    };
    const firstTokens = Math.min(outputTokens, link.outputTokensMax ?? outputTokens);
    const first = most({ inputTokens: promptTokensMax, outputTokens: firstTokens });
    /**
     * Credits that are spent, or set aside for the next round; not what earlier rounds left over.
     */
    let needed = 0;
    const extend = async (credits: number) => {
      needed += credits;
      const more = Math.max(0, needed - first - this.#moreCredits);
      // Counted before the hold is extended, because the searches of a round run at the same time.
      this.#moreCredits += more;
      if (more === 0 || (await link.extendHold(more))) return true;
      needed -= credits;
      this.#moreCredits -= more;
      link.tape?.fallsShort();
      return false;
    };
    return {
      affordRound: async (promptBytes, searches) => {
        needed = this.#spentAt(offer);
        const moreBytes = promptBytes - firstPromptBytes;
        const inputTokens = inputBound(this.ask) + tokensWithin(moreBytes);
        promptTokensMax = inputTokens + searches * tokensWithin(searchTextMax);
        if (!(await extend(most({ inputTokens, outputTokens })))) return false;
        this.#cap = await this.#capAt(offer, link, moreBytes);
        return true;
      },
      affordSearch: () => {
        // Where the client has calls to answer, no further round follows that would count this one.
        needed = Math.max(needed, this.#spentAt(offer));
        const results = { inputTokens: tokensWithin(searchTextMax), outputTokens: 0 };
        return extend(most(results) + this.#feeOf(1));
      },
    };
  }

  /** The output cap of the next round: it can cost no more than earlier ones have left. */
  async #capAt(offer: Offer, link: Link, moreBytes: number): Promise<number | null> {
    const { creditsPerUsd } = this.#parts;
    const bounds = new ChatBounds({ ...this.ask, inputBytes: this.ask.inputBytes + moreBytes });
    const spent = this.#spentAt(offer);
    const most = spent + bounds.over([offer], creditsPerUsd).most;
    const reach = await link.reach(most);
    // Beside a longer prompt, the operator's cap may not fit any more.
    if (reach >= most) return bounds.usualCapAt(offer);
    link.tape?.fallsShort();
    const affordable = bounds.capWithin(reach - spent, offer, creditsPerUsd);
    // The first stretch is set aside: rounding once more could make it seem a credit too dear.
    return Math.max(affordable, outputBound(this.ask, offer));
  }

  /** What rounds and searches cost until now, without the request's own price. */
  #spentAt(offer: Offer): number {
    const { usage = noUsage, usageOfRounds: calls = [], searches = 0 } = this.#session ?? {};
    const cost = costOf(usage, { ...offer.prices, request: 0n }, { calls });
    return chargeAt(offer, cost, this.#parts.creditsPerUsd) + this.#feeOf(searches);
  }

  /** A provider sees each round as a request, so each has a prompt of its own length. */
  #unitsOf({ units }: Measured): Units {
    const calls = this.#session?.usageOfRounds ?? [];
    return this.#pricesLongPrompts && calls.length > 1 ? { ...units, calls } : units;
  }

  /** The fee for all searches together, rounded once. */
  #feeOf(searches: number): number {
    const { usdPerSearch, creditsPerUsd } = this.#parts;
    return toCredits(perUnit(usdPerSearch, searches), creditsPerUsd);
  }

  #tryRound(
    session: SearchSession,
    client: Partial<ClientDialect>,
    offer: Offer,
    link: Link,
  ): Promise<AttemptResult> {
    const upstream = upstreamDialect(offer.dialect);
    assert(upstream, `No crossing to ${offer.dialect} was planned.`);
    const crossing = new Translation(session.dialogue, client as ClientDialect, upstream);
    // No tape hears this round alone: the session writes down the answer of all rounds.
    return tryCrossing({ crossing, ask: this.ask, offer, link, outputTokensMax: this.#cap });
  }

  #note({ note: found }: SearchSession): void {
    if (!found) return;
    const asked = this.#conversation.dialogue();
    this.#parts.notes.keep(this.#tenantId, asked, found.clientCalls, found.note);
  }
}

/** The bytes that our tool adds to every prompt. */
const toolBytes = Buffer.byteLength(JSON.stringify(searchTool));

/** The bytes that were put back into a conversation. */
function addedBytes(before: Dialogue, after: Dialogue): number {
  if (before.turns === after.turns) return 0;
  const bytesOf = ({ turns }: Dialogue) => Buffer.byteLength(JSON.stringify(turns));
  return bytesOf(after) - bytesOf(before);
}

/** Undefined when this is no recorded answer of a search. */
function replayInto(text: string, writer: AnswerListener): ReplyFacts | undefined {
  const tally = new Tally(writer);
  return tellAgain(text, tally) ? tally.facts : undefined;
}

/** Each is one word more of a query, and one comparison more for each result. */
const domainsMax = 100;

function limitsOf(wish: SearchWish, parts: WebSearchParts): SearchLimits {
  const { param, callsMax, resultsMax } = wish;
  const domains = (names: readonly string[], field: string) => {
    const list = `${param}.${field}`;
    if (names.length > domainsMax) {
      const fault = `has ${names.length} items; at most ${domainsMax} are allowed`;
      throw invalidRequest(`${list} ${fault}.`, list);
    }
    return names.map((name, at) => {
      const domain = readDomain(name);
      if (domain !== undefined) return domain;
      const path = `${list}[${at}]`;
      throw invalidRequest(`${path} must be a domain such as docs.example.com.`, path);
    });
  };
  return {
    callsMax: Math.min(callsMax ?? parts.callsMax, parts.callsMax),
    resultsMax: resultsMax ?? parts.resultsMax,
    allowedDomains: domains(wish.allowedDomains, wish.allowedName),
    excludedDomains: domains(wish.excludedDomains, wish.excludedName),
  };
}
