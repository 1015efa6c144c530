import { keepAliveMs } from '../core/bounds.ts';
import { withTimeout } from '../core/deadlines.ts';
import { asGatewayError, GatewayError, shuttingDown } from '../core/errors.ts';
import type {
  AnswerMetrics,
  SettledUsage,
  SseMessage,
  UpstreamFailure,
} from '../dialects/dialect.ts';
import { MalformedAnswer, NoContentError } from '../dialects/failure.ts';
import type { Offer } from '../route/catalog.ts';
import type { Continuation, OpenStream } from './attempt.ts';
import { publicReason, redact } from './failure-message.ts';
import { endOfStream, type SourcePiece, silence } from './text-source.ts';
import type { LateReader } from './upstream-call.ts';

/** The outcome of a stream. Exactly one settles the request. */
export type StreamOutcome =
  | { readonly kind: 'complete' }
  | { readonly kind: 'interrupted'; readonly error: GatewayError }
  | { readonly kind: 'client_disconnected' };

/** Settles an answer with its outcome and metrics. */
export type Settle = (outcome: StreamOutcome, metrics: AnswerMetrics) => Promise<SettledUsage>;

/**
 * How long an unfinished answer is read after its client disconnected, because its end, which has
 * the usage, may already be on the way. Short, because a call must be canceled within a second.
 */
const unfinishedLingerMs = 250;

/** How long a finished answer is read after its client disconnected, to get the usage. */
const finishedLingerMs = 2_000;

/** How much of an answer the hold covers. */
export interface OutputBudget {
  charactersMax: number;
  /** More than the model can produce. An upstream that exceeds this is cut off. */
  readonly charactersHardLimit: number;
  /** Adds credits to the hold. Returns false if there are none left. Throws 503. */
  extend(): Promise<boolean>;
}

/**
 * Writes a stream to the client. The runtime requests the next piece when the client has received
 * the previous one. It calls `return` when the client is done or disconnects, even before the first
 * piece. A generator wouldn't work, because its `finally` doesn't run before its first step.
 *
 * `settle` is called once, before the closing text is sent, so that no client receives a complete
 * answer that wasn't charged.
 *
 * The stages follow each other in this order, and some may be skipped: `opening` until the first
 * text is sent, `flowing` while the upstream sends, `closing` until the closing text is sent, and
 * `closed`. If the client disconnects, the stream is closed in any stage.
 */
export class StreamAnswer implements AsyncIterableIterator<string>, LateReader {
  #stream: OpenStream;
  /** The offer whose names are redacted from failures. */
  readonly #offer: Offer;
  readonly #budget: OutputBudget;
  readonly #settle: Settle;
  #stage: 'opening' | 'flowing' | 'closing' | 'closed' = 'opening';
  #settled: Promise<SettledUsage | GatewayError> | undefined;
  /** Set when the hold can't cover more of the answer. */
  #creditError: GatewayError | undefined;
  /** True if output followed a finish reason. Some upstreams send one with every piece. */
  #continuedAfterFinish = false;
  /** Set when a message couldn't be read. The answer is then incomplete, even if it finished. */
  #readError: GatewayError | undefined;
  /** The latest step. */
  #step: Promise<unknown> | undefined;
  /** When the client requested the current piece. */
  #requestedAt = 0;
  #lingering: Promise<void> | undefined;
  /** The metrics that a disconnected client is charged for. Undefined while it is connected. */
  #metricsAtDisconnect: AnswerMetrics | undefined;
  /** Pending while the stream that follows an ended one is being opened. */
  #continuation: Promise<Continuation> | undefined;
  #continuationFailure: UpstreamFailure | undefined;
  /** The error that the last event reported. */
  #sentError: GatewayError | undefined;

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
    // A long opening may already exceed the hold. Extend it now, because no output may follow.
    if (this.#stage === 'flowing' && !this.#isCovered) await this.#extend();
    return { done: false, value: opening };
  }

  /** Rejects after an error event, so that the transfer stays unfinished. */
  async #close(): Promise<IteratorResult<string>> {
    if (this.#sentError) throw this.#sentError;
    if (this.#stage === 'closed') return { done: true, value: undefined };
    this.#stage = 'closed';
    return { done: false, value: await this.#closingText() };
  }

  /** Called when the client has received everything or has disconnected. */
  async return(): Promise<IteratorResult<string>> {
    this.#stage = 'closed';
    if (!this.#settled) {
      this.#lingering ??= this.#readRemainder();
      await this.#lingering;
    }
    this.#stream.source.close();
    this.#stream.upstreamCall.cancel();
    this.#continuation?.then(cancelStream, () => undefined);
    await this.#end({ kind: 'client_disconnected' });
    return { done: true, value: undefined };
  }

  get lingerMs(): number {
    const { transform, openContinuation } = this.#stream;
    if (this.#continuation || this.#readError) return 0;
    if (transform.finished && !this.#continuedAfterFinish) return finishedLingerMs;
    // If usage was reported, or a search estimates it, there is nothing to wait for.
    return openContinuation || hasUsage(transform.metrics) ? 0 : unfinishedLingerMs;
  }

  /** Continues to read after the client disconnected, because the usage comes last. */
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
      // The connection broke or the linger time passed.
    }
    // Charge output that the client didn't receive only if the upstream reported its usage.
    if (hasUsage(transform.metrics, transform.finished))
      this.#metricsAtDisconnect = transform.metrics;
  }

  /** Returns the next text for the client. Not async, because a stream has thousands of pieces. */
  #flow(): Promise<IteratorResult<string>> {
    const { transform, source } = this.#stream;
    if (transform.metrics.failure) return this.#stopReading();
    if (this.#continuation) return this.#continueFlow('');
    return source.next().then(this.#deliver, this.#stopReading);
  }

  /** The fast path: nearly every piece is output that the hold covers. */
  readonly #deliver = (piece: SourcePiece) => {
    try {
      const value = this.#take(piece);
      const isReady = value !== '' && this.#isCovered;
      return isReady ? { done: false as const, value } : this.#continueFlow(value);
    } catch (error) {
      return this.#stopAfter(error);
    }
  };

  /** Closes the stream. #closingText determines why the reading stopped. */
  readonly #stopReading = () => {
    this.#finish();
    return this.#close();
  };

  readonly #stopAfter = (error: unknown) => {
    if (error instanceof NoContentError) this.#readError ??= withoutContent();
    return this.#stopReading();
  };

  async #continueFlow(initial: string): Promise<IteratorResult<string>> {
    try {
      for (let value = initial; ; ) {
        if (!this.#isCovered) await this.#extend();
        if (value !== '') return { done: false, value };
        const { transform, source } = this.#stream;
        if (this.#stage !== 'flowing' || transform.metrics.failure) break;
        // If the upstream sends only comments, the client receives nothing, so send a keep-alive.
        const isLong = performance.now() - this.#requestedAt >= source.keepAliveAfterMs;
        if (isLong) return { done: false, value: transform.keepAlive() };
        value = this.#continuation
          ? await this.#followContinuation(this.#continuation)
          : this.#take(await source.next());
      }
    } catch (error) {
      return this.#stopAfter(error);
    }
    return this.#stopReading();
  }

  /** Converts one piece of the upstream's stream to text for the client. */
  #take(piece: SourcePiece): string {
    const { transform, reader, source } = this.#stream;
    if (piece === silence) return transform.keepAlive();
    const { finished } = transform;
    const { outputCharacters } = transform.metrics;
    let text = '';
    const messages = piece === endOfStream ? reader.end() : reader.push(piece);
    for (const message of messages) text += this.#transformMessage(message);
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
    source.recordProgress(messages.length, hasNewOutput, hasNewOutput || text !== '');
    return text;
  }

  /** Converts one message. If that fails, the rest of the message's piece is dropped. */
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
    // Provider failures are returned, so a rejection is an internal error.
    this.#continuation?.catch((error) => {
      this.#readError = asGatewayError(error);
    });
  }

  /**
   * Switches to the next stream or returns the closing text. After a failure, #continuation stays
   * set, because the answer is incomplete.
   */
  async #followContinuation(continuation: Promise<Continuation>): Promise<string> {
    const { transform, source, upstreamCall } = this.#stream;
    const next = await withTimeout(continuation, keepAliveMs);
    if (next === undefined) return transform.keepAlive();
    if (next.kind === 'closing') {
      this.#continuation = undefined;
      this.#finish();
      return next.text;
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

  /** Does nothing if the stream has been closed because the client disconnected. */
  #finish(): void {
    if (this.#stage === 'flowing') this.#stage = 'closing';
  }

  get #isCovered(): boolean {
    return this.#stream.transform.metrics.outputCharacters <= this.#budget.charactersMax;
  }

  /** Extends the hold, or ends the answer if that fails. */
  async #extend(): Promise<void> {
    if (this.#stream.transform.metrics.outputCharacters > this.#budget.charactersHardLimit) {
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
    // A disconnect cancels the call, which would look like an interrupted answer below.
    if (upstreamCall.clientDisconnected && !this.#isComplete) {
      await this.#end({ kind: 'client_disconnected' });
      return '';
    }
    const error = this.#creditError ?? this.#failureReason();
    if (error) {
      upstreamCall.cancel();
      await this.#end({ kind: 'interrupted', error });
      return this.#fail(error);
    }
    const settled = await this.#end({ kind: 'complete' });
    return settled instanceof GatewayError ? this.#fail(settled) : transform.close(settled);
  }

  #fail(error: GatewayError): string {
    this.#sentError = error;
    return this.#stream.transform.fail(error);
  }

  /** Returns why an ended stream is incomplete, or undefined if it is complete. */
  #failureReason(): GatewayError | undefined {
    const { transform, upstreamCall } = this.#stream;
    const failure = transform.metrics.failure ?? this.#continuationFailure;
    if (failure) {
      const isOwnAccount = this.#offer.ownAccount !== null;
      const reason = redact(publicReason({ ...failure, isOwnAccount }), this.#offer);
      const message = `The provider failed in the middle of its response: ${reason}`;
      const isBusy = failure.kind === 'overloaded' || failure.kind === 'rate_limited';
      return new GatewayError('upstream_error', message, isBusy ? { status: 503 } : {});
    }
    if (this.#readError || this.#isComplete) return this.#readError;
    if (upstreamCall.isShuttingDown) return shuttingDown();
    if (upstreamCall.timedOut) {
      const message = 'The provider stopped sending in the middle of its response.';
      return new GatewayError('upstream_error', message, { status: 504 });
    }
    return interrupted();
  }

  /** Settles once. If that fails, returns the error, which is then sent in the stream. */
  #end(outcome: StreamOutcome): Promise<SettledUsage | GatewayError> {
    const latest = this.#metricsAtDisconnect ?? this.#stream.transform.metrics;
    const failure = this.#continuationFailure;
    const metrics = failure ? { ...snapshot(latest), failure } : latest;
    this.#settled ??= this.#settle(outcome, metrics).catch(asGatewayError);
    return this.#settled;
  }
}

/** Returns whether usage was reported. In an incomplete answer, it must include the output. */
function hasUsage({ usage, isEstimate }: AnswerMetrics, isComplete = false): boolean {
  return usage !== undefined && !isEstimate && (isComplete || usage.outputTokens > 0);
}

/** Copies metrics, which change while their answer is read. */
function snapshot(metrics: AnswerMetrics): AnswerMetrics {
  const { usage, isEstimate = false, finishReason, outputCharacters, failure } = metrics;
  return { usage, isEstimate, finishReason, outputCharacters, failure };
}

/** Cancels a stream that opened after the client disconnected. */
function cancelStream(next: Continuation): void {
  if (next.kind !== 'stream') return;
  next.source.close();
  next.upstreamCall.cancel();
}

export function interrupted(cause?: unknown): GatewayError {
  return new GatewayError('upstream_error', "The provider's response was interrupted.", { cause });
}

const providerError = (message: string) => new GatewayError('upstream_error', message);

const malformedPiece = () =>
  providerError('The provider sent invalid data in the middle of its response.');
const withoutContent = () => providerError('The provider kept sending data without content.');
const outputLimitExceeded = () =>
  providerError("The provider returned more output than the model's maximum.");

function creditsExhausted(isExtended: boolean): GatewayError | undefined {
  if (isExtended) return undefined;
  const message = 'The credits ran out in the middle of this response.';
  return new GatewayError('insufficient_credits', message);
}
