import { keepAliveMs } from '../core/bounds.ts';
import { withTimeout } from '../core/deadlines.ts';
import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import type {
  AnswerMetrics,
  SettledUsage,
  SseMessage,
  UpstreamFailure,
} from '../dialects/dialect.ts';
import { MalformedAnswer } from '../dialects/failure.ts';
import type { Offer } from '../route/catalog.ts';
import type { AttemptResult, OpenStream } from './attempt.ts';
import { publicReason, redact } from './failure-message.ts';
import type { LateReader } from './upstream-call.ts';
import { endOfStream, type SourcePiece, silence } from './upstream-call.ts';

/** How a stream ended. Exactly one of these settles the request. */
export type StreamOutcome =
  | { readonly kind: 'complete' }
  | { readonly kind: 'cut'; readonly error: GatewayError }
  | { readonly kind: 'left' };

/** Settles an answer by what is known of it. */
export type Settle = (end: StreamOutcome, metrics: AnswerMetrics) => Promise<SettledUsage>;

/**
 * How long an unfinished answer is read on after its client left: an end that was under way brings
 * the usage. Short, because a call has to be cancelled within a second of its client's leaving.
 */
const unfinishedLingerMs = 250;

/** The same for a finished answer: nothing is left to cancel, but the usage is still to come. */
const finishedLingerMs = 2_000;

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
  #settled: Promise<SettledUsage | GatewayError> | undefined;
  /** Why no more of the answer can be paid for. */
  #creditError: GatewayError | undefined;
  /** Whether the upstream went on after a finish reason: some send one with every piece. */
  #continuedAfterFinish = false;
  /**
   * Why something that came could not be passed on: words are missing, whatever finish came before.
   */
  #readError: GatewayError | undefined;
  /** The step that the client is waiting for, and since when. */
  #step: Promise<unknown> | undefined;
  #requestedAt = 0;
  #lingering: Promise<void> | undefined;
  /** The facts that a client which has left is charged by; undefined while it listens. */
  #metricsAtDisconnect: AnswerMetrics | undefined;
  /** What follows a stream of the upstream that has ended, while we wait for it. */
  #continuation: Promise<AttemptResult | string> | undefined;
  #continuationFailure: UpstreamFailure | undefined;

  constructor(stream: OpenStream, offer: Offer, budget: OutputBudget, settle: Settle) {
    this.#stream = stream;
    this.#offer = offer;
    stream.upstreamCall.lingerFor(this);
    this.#budget = budget;
    this.#settle = settle;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<string>> {
    if (this.#stage === 'flowing') {
      this.#requestedAt = performance.now();
      const step = this.#flow();
      this.#step = step;
      return step;
    }
    return this.#stage === 'opening' ? this.#open() : this.#close();
  }

  async #open(): Promise<IteratorResult<string>> {
    const { ended, opening, transform, source } = this.#stream;
    source.expectEnd(transform);
    if (ended && transform.finished) this.#startContinuation();
    this.#stage = ended && !this.#continuation ? 'closing' : 'flowing';
    // The opening may be long already, and nothing may come after it: so it is paid for now.
    if (this.#stage === 'flowing' && !this.#isPaidFor) await this.#extend();
    return { done: false, value: opening };
  }

  async #close(): Promise<IteratorResult<string>> {
    if (this.#stage === 'closed') return { done: true, value: undefined };
    this.#stage = 'closed';
    return { done: false, value: await this.#closingText() };
  }

  /** The client took everything, or it left; if it left, nothing was settled yet. */
  async return(): Promise<IteratorResult<string>> {
    this.#stage = 'closed';
    if (!this.#settled) {
      this.#lingering ??= this.#readRemainder();
      await this.#lingering;
    }
    this.#stream.source.close();
    this.#stream.upstreamCall.cancel();
    this.#continuation?.then(cancelStream, () => undefined);
    await this.#end({ kind: 'left' });
    return { done: true, value: undefined };
  }

  get lingerMs(): number {
    const { transform, openContinuation } = this.#stream;
    if (this.#continuation || this.#readError) return 0;
    if (transform.finished && !this.#continuedAfterFinish) return finishedLingerMs;
    // Nothing to wait for where usage was reported, or where a search estimates what it has heard.
    return openContinuation || hasUsage(transform.metrics) ? 0 : unfinishedLingerMs;
  }

  /** The usage comes last: a client that leaves before it still pays for what was used. */
  async #readRemainder(): Promise<void> {
    const { transform, upstreamCall, source } = this.#stream;
    this.#metricsAtDisconnect = snapshot(transform.metrics);
    upstreamCall.linger();
    try {
      if (!this.#continuation) await this.#step;
      while (this.lingerMs > 0 && !transform.ended && !transform.metrics.failure) {
        upstreamCall.linger();
        const piece = await source.next();
        this.#take(piece);
        if (piece === endOfStream) break;
      }
    } catch {
      // Nothing more came in time.
    }
    // What the client did not hear is charged only when the upstream has counted it.
    if (hasUsage(transform.metrics, transform.finished))
      this.#metricsAtDisconnect = transform.metrics;
  }

  /** The next words for the client. No await of our own for them: there are thousands. */
  #flow(): Promise<IteratorResult<string>> {
    const { transform, source } = this.#stream;
    if (transform.metrics.failure) return this.#stopReading();
    if (this.#continuation) return this.#continueFlow('');
    return source.next().then(this.#deliver, this.#stopReading);
  }

  /** The short way: nearly every piece is words that are paid for. */
  readonly #deliver = (piece: SourcePiece) => {
    try {
      const value = this.#take(piece);
      const isReady = value !== '' && this.#isPaidFor;
      return isReady ? { done: false as const, value } : this.#continueFlow(value);
    } catch {
      return this.#stopReading();
    }
  };

  /** A broken connection and a hung-up line end alike; #lastWords finds out which it was. */
  readonly #stopReading = () => {
    this.#finish();
    return this.#close();
  };

  async #continueFlow(initial: string): Promise<IteratorResult<string>> {
    try {
      for (let value = initial; ; ) {
        if (!this.#isPaidFor) await this.#extend();
        if (value !== '') return { done: false, value };
        const { transform, source } = this.#stream;
        if (this.#stage !== 'flowing' || transform.metrics.failure) break;
        // Comments, and whatever else is not for the client: to it the upstream is silent.
        const isLong = performance.now() - this.#requestedAt >= source.keepAliveAfterMs;
        if (isLong) return { done: false, value: transform.keepAlive() };
        value = this.#continuation
          ? await this.#followContinuation(this.#continuation)
          : this.#take(await source.next());
      }
    } catch {
      // A broken connection and a hung-up line end alike.
    }
    return this.#stopReading();
  }

  /** What one piece of the upstream's says to the client. */
  #take(piece: SourcePiece): string {
    const { transform, reader, source } = this.#stream;
    if (piece === silence) return transform.keepAlive();
    const { finished } = transform;
    const { outputCharacters } = transform.metrics;
    let text = '';
    for (const message of piece === endOfStream ? reader.end() : reader.push(piece)) {
      text += this.#transformMessage(message);
    }
    if (piece === endOfStream) {
      if (transform.finished && !this.#readError) this.#startContinuation();
      if (!this.#continuation) this.#finish();
    }
    const hasNewOutput = transform.metrics.outputCharacters > outputCharacters;
    if (hasNewOutput) {
      source.expectMore();
      this.#continuedAfterFinish ||= finished;
    }
    source.expectEnd(transform);
    source.recordProgress(hasNewOutput || text !== '');
    return text;
  }

  /** When a message fails, what came before it in the same piece is still told. */
  #transformMessage(message: SseMessage): string {
    if (this.#readError) return '';
    try {
      return this.#stream.transform.push(message);
    } catch (error) {
      this.#readError = error instanceof MalformedAnswer ? malformedPiece() : asGatewayError(error);
      this.#finish();
      return '';
    }
  }

  #startContinuation(): void {
    if (this.#stage === 'closed') return;
    this.#continuation = this.#stream.openContinuation?.();
    // A provider's failure is returned; what is thrown is a fault of ours.
    this.#continuation?.catch((error) => {
      this.#readError = asGatewayError(error);
    });
  }

  /**
   * Goes on with another stream, or says the last words that were waited for. A sequel that failed
   * stays in its field: without it the answer is not whole.
   */
  async #followContinuation(continuation: Promise<AttemptResult | string>): Promise<string> {
    const { transform, source, upstreamCall } = this.#stream;
    const next = await withTimeout(continuation, keepAliveMs);
    if (next === undefined) return transform.keepAlive();
    if (typeof next === 'string') {
      this.#continuation = undefined;
      this.#finish();
      return next;
    }
    if (next.kind === 'stream') {
      source.close();
      upstreamCall.cancel();
      this.#continuation = undefined;
      this.#stream = next;
      next.upstreamCall.lingerFor(this);
      next.source.expectEnd(next.transform);
      if (next.ended && next.transform.finished) this.#startContinuation();
      else if (next.ended) this.#finish();
      return next.opening;
    }
    if (next.kind === 'failed') this.#continuationFailure = next.failure;
    this.#finish();
    return '';
  }

  get #isComplete(): boolean {
    return this.#stream.transform.finished && !this.#continuation && !this.#readError;
  }

  /** A client that left while we waited for the upstream has closed the answer already. */
  #finish(): void {
    if (this.#stage === 'flowing') this.#stage = 'closing';
  }

  get #isPaidFor(): boolean {
    return this.#stream.transform.metrics.outputCharacters <= this.#budget.charactersMax;
  }

  /** Only an answer that outgrew its hold asks for more. */
  async #extend(): Promise<void> {
    if (this.#stream.transform.metrics.outputCharacters > this.#budget.charactersEnd) {
      this.#readError ??= outputLimitExceeded();
    } else {
      this.#creditError = await this.#budget.extend().then(creditsExhausted, asGatewayError);
      if (!this.#creditError) return;
    }
    this.#finish();
  }

  async #closingText(): Promise<string> {
    const { transform, source, upstreamCall } = this.#stream;
    source.close();
    // The line hangs up when the client leaves, which would look like a broken upstream below.
    if (upstreamCall.clientDisconnected && !this.#isComplete) {
      await this.#end({ kind: 'left' });
      return '';
    }
    const error = this.#creditError ?? this.#failureReason();
    if (error) {
      upstreamCall.cancel();
      await this.#end({ kind: 'cut', error });
      return transform.fail(error);
    }
    const settled = await this.#end({ kind: 'complete' });
    return settled instanceof GatewayError ? transform.fail(settled) : transform.close(settled);
  }

  /** Why an ended stream does not count as an answer; undefined when it does. */
  #failureReason(): GatewayError | undefined {
    const { transform, upstreamCall } = this.#stream;
    const failure = transform.metrics.failure ?? this.#continuationFailure;
    if (failure) {
      const isOwnAccount = this.#offer.own !== null;
      const reason = redact(publicReason({ ...failure, isOwnAccount }), this.#offer);
      const message = `The provider failed in the middle of its answer: ${reason}`;
      const isBusy = failure.kind === 'overloaded' || failure.kind === 'rate_limited';
      return new GatewayError('upstream_error', message, isBusy ? { status: 503 } : {});
    }
    if (this.#readError || this.#isComplete) return this.#readError;
    if (upstreamCall.isShuttingDown) return shuttingDown();
    if (upstreamCall.timedOut) {
      const message = 'The provider fell silent in the middle of its answer.';
      return new GatewayError('upstream_error', message, { status: 504 });
    }
    return interrupted();
  }

  /**
   * An end that could not be written down counts as a failure, but does not tear the connection.
   */
  #end(end: StreamOutcome): Promise<SettledUsage | GatewayError> {
    const latest = this.#metricsAtDisconnect ?? this.#stream.transform.metrics;
    const failure = this.#continuationFailure;
    const metrics = failure ? { ...snapshot(latest), failure } : latest;
    this.#settled ??= this.#settle(end, metrics).catch(asGatewayError);
    return this.#settled;
  }
}

/** Before the end, a count without output covers the prompt alone. */
function hasUsage({ usage, isEstimate }: AnswerMetrics, isComplete = false): boolean {
  return usage !== undefined && !isEstimate && (isComplete || usage.outputTokens > 0);
}

/** Facts change while their answer comes; a snapshot does not. */
function snapshot(metrics: AnswerMetrics): AnswerMetrics {
  const { usage, isEstimate = false, finishReason, outputCharacters, failure } = metrics;
  return { usage, isEstimate, finishReason, outputCharacters, failure };
}

/** Hangs up on a stream that opened after the client had left. */
function cancelStream(next: AttemptResult | string): void {
  if (typeof next === 'string' || next.kind !== 'stream') return;
  next.source.close();
  next.upstreamCall.cancel();
}

export function interrupted(cause?: unknown): GatewayError {
  const message = 'The provider broke off in the middle of its answer.';
  return new GatewayError('upstream_error', message, { cause });
}

function malformedPiece(): GatewayError {
  const message = 'The provider sent something that cannot be used in the middle of its answer.';
  return new GatewayError('upstream_error', message);
}

function outputLimitExceeded(): GatewayError {
  return new GatewayError('upstream_error', 'The provider says more than its model can.');
}

function creditsExhausted(isPaid: boolean): GatewayError | undefined {
  if (isPaid) return undefined;
  const message = 'The credits ran out in the middle of this answer.';
  return new GatewayError('insufficient_credits', message);
}
