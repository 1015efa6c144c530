import { keepAliveMs } from '../core/bounds.ts';
import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import { within } from '../core/within.ts';
import type { ReplyClosing, ReplyFacts, SseMessage, UpstreamFailure } from '../dialects/dialect.ts';
import { UnusableAnswer } from '../dialects/unusable-answer.ts';
import type { Offer } from '../route/catalogue.ts';
import type { AttemptResult, OpenStream } from './attempt.ts';
import { publicReason, scrub } from './disclosure.ts';
import type { LateReader } from './line.ts';
import { type Heard, over, silence } from './source.ts';

/** How a stream ended. Exactly one of these settles the request. */
export type StreamEnd =
  | { readonly how: 'complete' }
  | { readonly how: 'cut'; readonly error: GatewayError }
  | { readonly how: 'left' };

/** Settles an answer by what is known of it. */
export type Settle = (end: StreamEnd, facts: ReplyFacts) => Promise<ReplyClosing>;

/**
 * How long an unfinished answer is read on after its client left: an end that was under way brings
 * the usage. Short, because a call has to be cancelled within a second of its client's leaving.
 */
const endingMs = 250;

/** The same for a finished answer: nothing is left to cancel, but the usage is still to come. */
const usageMs = 2_000;

/** How much of an answer is paid for in advance. */
export interface OutputBudget {
  charactersMax: number;
  /** More than the model can say: an upstream that goes on from here does so without end. */
  readonly charactersEnd: number;
  /** Sets more credits aside; false when there are none left, and the answer ends here. 503 */
  extend(): Promise<boolean>;
}

/**
 * A stream on its way to the client. The runtime asks for the next piece only when the client has
 * taken the last one, and calls `return` when it is done or gone, even if it never began: so this
 * is a plain iterator and not a generator, whose `finally` would not run before its first step.
 *
 * `settle` is called once, before the last words go out: no client ever holds a finished answer
 * that was not billed.
 *
 * An answer goes through its stages in order and may skip some: `opening` until the first words
 * are taken, `flowing` while the upstream speaks, `closing` until the last words are, `closed`. A
 * client that leaves closes it from any of them.
 */
export class StreamAnswer implements AsyncIterableIterator<string>, LateReader {
  #stream: OpenStream;
  /** The offer whose names no failure may reveal. */
  readonly #offer: Offer;
  readonly #budget: OutputBudget;
  readonly #settle: Settle;
  #stage: 'opening' | 'flowing' | 'closing' | 'closed' = 'opening';
  #settled: Promise<ReplyClosing | GatewayError> | undefined;
  /** Why no more of the answer can be paid for. */
  #unpaid: GatewayError | undefined;
  /** Whether the upstream went on after a finish reason: some send one with every piece. */
  #wentOn = false;
  /**
   * Why something that came could not be passed on: words are missing, whatever finish came before.
   */
  #torn: GatewayError | undefined;
  /** The step that the client is waiting for, and since when. */
  #step: Promise<unknown> | undefined;
  #askedAt = 0;
  #hearingOut: Promise<void> | undefined;
  /** The facts that a client which has left is charged by; undefined while it listens. */
  #factsAtLeaving: ReplyFacts | undefined;
  /** What follows a stream of the upstream that has ended, while we wait for it. */
  #sequel: Promise<AttemptResult | string> | undefined;
  #sequelFailure: UpstreamFailure | undefined;

  constructor(stream: OpenStream, offer: Offer, budget: OutputBudget, settle: Settle) {
    this.#stream = stream;
    this.#offer = offer;
    stream.line.outliveClientFor(this);
    this.#budget = budget;
    this.#settle = settle;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<string>> {
    if (this.#stage === 'flowing') {
      this.#askedAt = performance.now();
      const step = this.#flow();
      this.#step = step;
      return step;
    }
    return this.#stage === 'opening' ? this.#open() : this.#close();
  }

  async #open(): Promise<IteratorResult<string>> {
    const { ended, opening, relay, source } = this.#stream;
    source.expectEnd(relay);
    if (ended && relay.finished) this.#startSequel();
    this.#stage = ended && !this.#sequel ? 'closing' : 'flowing';
    // The opening may be long already, and nothing may come after it: so it is paid for now.
    if (this.#stage === 'flowing' && !this.#affords) await this.#extend();
    return { done: false, value: opening };
  }

  async #close(): Promise<IteratorResult<string>> {
    if (this.#stage === 'closed') return { done: true, value: undefined };
    this.#stage = 'closed';
    return { done: false, value: await this.#lastWords() };
  }

  /** The client took everything, or it left; if it left, nothing was settled yet. */
  async return(): Promise<IteratorResult<string>> {
    this.#stage = 'closed';
    if (!this.#settled) {
      this.#hearingOut ??= this.#hearOut();
      await this.#hearingOut;
    }
    this.#stream.source.close();
    this.#stream.line.hangUp();
    this.#sequel?.then(hangUpOn, () => undefined);
    await this.#end({ how: 'left' });
    return { done: true, value: undefined };
  }

  get lingerMs(): number {
    const { relay, openSequel } = this.#stream;
    if (this.#sequel || this.#torn) return 0;
    if (relay.finished && !this.#wentOn) return usageMs;
    // Nothing to wait for where usage was reported, or where a search estimates what it has heard.
    return openSequel || hasUsage(relay.facts) ? 0 : endingMs;
  }

  /** The usage comes last: a client that leaves before it still pays for what was used. */
  async #hearOut(): Promise<void> {
    const { relay, line, source } = this.#stream;
    this.#factsAtLeaving = snapshotOf(relay.facts);
    line.linger();
    try {
      if (!this.#sequel) await this.#step;
      while (this.lingerMs > 0 && !relay.ended && !relay.facts.failure) {
        line.linger();
        const piece = await source.next();
        this.#take(piece);
        if (piece === over) break;
      }
    } catch {
      // Nothing more came in time.
    }
    // What the client did not hear is charged only when the upstream has counted it.
    if (hasUsage(relay.facts, relay.finished)) this.#factsAtLeaving = relay.facts;
  }

  /** The next words for the client. No await of our own for them: there are thousands. */
  #flow(): Promise<IteratorResult<string>> {
    const { relay, source } = this.#stream;
    if (relay.facts.failure) return this.#breakOff();
    if (this.#sequel) return this.#flowOn('');
    return source.next().then(this.#give, this.#breakOff);
  }

  /** The short way: nearly every piece is words that are paid for. */
  readonly #give = (piece: Heard) => {
    try {
      const value = this.#take(piece);
      const isAll = value !== '' && this.#affords;
      return isAll ? { done: false as const, value } : this.#flowOn(value);
    } catch {
      return this.#breakOff();
    }
  };

  /** A broken connection and a hung-up line end alike; #lastWords finds out which it was. */
  readonly #breakOff = () => {
    this.#finish();
    return this.#close();
  };

  async #flowOn(taken: string): Promise<IteratorResult<string>> {
    try {
      for (let value = taken; ; ) {
        if (!this.#affords) await this.#extend();
        if (value !== '') return { done: false, value };
        const { relay, source } = this.#stream;
        if (this.#stage !== 'flowing' || relay.facts.failure) break;
        // Comments, and whatever else is not for the client: to it the upstream is silent.
        const isLong = performance.now() - this.#askedAt >= source.quietMs;
        if (isLong) return { done: false, value: relay.keepAlive() };
        value = this.#sequel ? await this.#follow(this.#sequel) : this.#take(await source.next());
      }
    } catch {
      // A broken connection and a hung-up line end alike.
    }
    return this.#breakOff();
  }

  /** What one piece of the upstream's says to the client. */
  #take(piece: Heard): string {
    const { relay, reader, source } = this.#stream;
    if (piece === silence) return relay.keepAlive();
    const { finished } = relay;
    const { outputCharacters } = relay.facts;
    let text = '';
    for (const message of piece === over ? reader.end() : reader.push(piece)) {
      text += this.#tell(message);
    }
    if (piece === over) {
      if (relay.finished && !this.#torn) this.#startSequel();
      if (!this.#sequel) this.#finish();
    }
    const saysMore = relay.facts.outputCharacters > outputCharacters;
    if (saysMore) {
      source.expectMore();
      this.#wentOn ||= finished;
    }
    source.expectEnd(relay);
    source.noteWords(saysMore || text !== '');
    return text;
  }

  /** When a message fails, what came before it in the same piece is still told. */
  #tell(message: SseMessage): string {
    if (this.#torn) return '';
    try {
      return this.#stream.relay.push(message);
    } catch (thrown) {
      this.#torn = thrown instanceof UnusableAnswer ? unusable() : asGatewayError(thrown);
      this.#finish();
      return '';
    }
  }

  #startSequel(): void {
    if (this.#stage === 'closed') return;
    this.#sequel = this.#stream.openSequel?.();
    // A provider's failure is returned; what is thrown is a fault of ours.
    this.#sequel?.catch((thrown) => {
      this.#torn = asGatewayError(thrown);
    });
  }

  /**
   * Goes on with another stream, or says the last words that were waited for. A sequel that failed
   * stays in its field: without it the answer is not whole.
   */
  async #follow(sequel: Promise<AttemptResult | string>): Promise<string> {
    const { relay, source, line } = this.#stream;
    const next = await within(sequel, keepAliveMs);
    if (next === undefined) return relay.keepAlive();
    if (typeof next === 'string') {
      this.#sequel = undefined;
      this.#finish();
      return next;
    }
    if (next.kind === 'stream') {
      source.close();
      line.hangUp();
      this.#sequel = undefined;
      this.#stream = next;
      next.line.outliveClientFor(this);
      next.source.expectEnd(next.relay);
      if (next.ended && next.relay.finished) this.#startSequel();
      else if (next.ended) this.#finish();
      return next.opening;
    }
    if (next.kind === 'failed') this.#sequelFailure = next.failure;
    this.#finish();
    return '';
  }

  get #isWhole(): boolean {
    return this.#stream.relay.finished && !this.#sequel && !this.#torn;
  }

  /** A client that left while we waited for the upstream has closed the answer already. */
  #finish(): void {
    if (this.#stage === 'flowing') this.#stage = 'closing';
  }

  get #affords(): boolean {
    return this.#stream.relay.facts.outputCharacters <= this.#budget.charactersMax;
  }

  /** Only an answer that outgrew its hold asks for more. */
  async #extend(): Promise<void> {
    if (this.#stream.relay.facts.outputCharacters > this.#budget.charactersEnd) {
      this.#torn ??= endless();
    } else {
      this.#unpaid = await this.#budget.extend().then(whyUnpaid, asGatewayError);
      if (!this.#unpaid) return;
    }
    this.#finish();
  }

  async #lastWords(): Promise<string> {
    const { relay, source, line } = this.#stream;
    source.close();
    // The line hangs up when the client leaves, which would look like a broken upstream below.
    if (line.clientLeft && !this.#isWhole) {
      await this.#end({ how: 'left' });
      return '';
    }
    const error = this.#unpaid ?? this.#whyBroken();
    if (error) {
      line.hangUp();
      await this.#end({ how: 'cut', error });
      return relay.fail(error);
    }
    const closing = await this.#end({ how: 'complete' });
    return closing instanceof GatewayError ? relay.fail(closing) : relay.close(closing);
  }

  /** Why an ended stream does not count as an answer; undefined when it does. */
  #whyBroken(): GatewayError | undefined {
    const { relay, line } = this.#stream;
    const failure = relay.facts.failure ?? this.#sequelFailure;
    if (failure) {
      const isOwnAccount = this.#offer.own !== null;
      const why = scrub(publicReason({ ...failure, isOwnAccount }), this.#offer);
      const message = `The provider failed in the middle of its answer: ${why}`;
      const isBusy = failure.kind === 'overloaded' || failure.kind === 'rate_limited';
      return new GatewayError('upstream_error', message, isBusy ? { status: 503 } : {});
    }
    if (this.#torn || this.#isWhole) return this.#torn;
    if (line.isShuttingDown) return shuttingDown();
    if (line.timedOut) {
      const message = 'The provider fell silent in the middle of its answer.';
      return new GatewayError('upstream_error', message, { status: 504 });
    }
    return brokenOff();
  }

  /**
   * An end that could not be written down counts as a failure, but does not tear the connection.
   */
  #end(end: StreamEnd): Promise<ReplyClosing | GatewayError> {
    const told = this.#factsAtLeaving ?? this.#stream.relay.facts;
    const failure = this.#sequelFailure;
    const facts = failure ? { ...snapshotOf(told), failure } : told;
    this.#settled ??= this.#settle(end, facts).catch(asGatewayError);
    return this.#settled;
  }
}

/** Before the end, a count without output covers the prompt alone. */
function hasUsage({ usage, isEstimate }: ReplyFacts, isWhole = false): boolean {
  return usage !== undefined && !isEstimate && (isWhole || usage.outputTokens > 0);
}

/** Facts change while their answer comes; a snapshot does not. */
function snapshotOf(facts: ReplyFacts): ReplyFacts {
  const { usage, isEstimate = false, finishReason, outputCharacters, failure } = facts;
  return { usage, isEstimate, finishReason, outputCharacters, failure };
}

/** Hangs up on a stream that opened after the client had left. */
function hangUpOn(next: AttemptResult | string): void {
  if (typeof next === 'string' || next.kind !== 'stream') return;
  next.source.close();
  next.line.hangUp();
}

export function brokenOff(cause?: unknown): GatewayError {
  const message = 'The provider broke off in the middle of its answer.';
  return new GatewayError('upstream_error', message, { cause });
}

function unusable(): GatewayError {
  const message = 'The provider sent something that cannot be used in the middle of its answer.';
  return new GatewayError('upstream_error', message);
}

function endless(): GatewayError {
  return new GatewayError('upstream_error', 'The provider says more than its model can.');
}

function whyUnpaid(isPaid: boolean): GatewayError | undefined {
  if (isPaid) return undefined;
  const message = 'The credits ran out in the middle of this answer.';
  return new GatewayError('insufficient_credits', message);
}
