import type { Caller } from './core/caller.ts';
import type { GatewayError } from './core/errors.ts';
import { completionId } from './core/ids.ts';
import type { FirstRequest, InFlightEntry, Recording } from './core/recording.ts';
import type { OperationName, RequestInfo } from './core/request-info.ts';
import type { Measured } from './core/usage.ts';
import type {
  AnswerMetrics,
  ReplyIdentity,
  StreamFormat,
  StreamIdentity,
  TransformedReply,
} from './dialects/dialect.ts';
import type { Hold } from './money/hold/hold.ts';
import type { CostBounds } from './money/price/bounds.ts';
import type { Offer } from './route/catalog.ts';
import type { AttemptContext, AttemptResult } from './upstream/attempt.ts';
import type { BytesAnswer } from './upstream/bytes-answer.ts';
import type { AttemptEntry, OpenedAnswer } from './upstream/fallback.ts';
import type { Stream } from './upstream/keep-alive-stream.ts';
import type { AnswerRecorder } from './upstream/recorder.ts';
import type { StreamOutcome } from './upstream/stream-answer.ts';

/** A client request from arrival to settlement, as every stage of gateway.ts receives it. */
export interface Call {
  readonly requestId: string;
  readonly caller: Caller;
  /** Aborts when the client disconnects. */
  readonly clientSignal: AbortSignal;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
  /**
   * When a job was created, on the store's clock. Its prices apply to this piece. Otherwise,
   * `receivedAt` counts.
   */
  readonly pricedAt?: number;
  /** Milliseconds on the monotonic clock, for durations. */
  readonly startedAt: number;
  /** The client's `traceparent` header. The spans of this call's attempts continue that trace. */
  readonly traceparent?: string | null;
  /** Returns a header of the client's request, or null. */
  clientHeader(name: string): string | null;
  /** Response headers; the stages add to them. */
  readonly headers: Record<string, string>;
  /** Attempts made so far. */
  readonly attempts: AttemptEntry[];
  /** The fields of the request that the latest attempt didn't send. */
  droppedFields?: readonly string[] | undefined;
  /** The header `x-session-id`, which keeps a session's requests at one endpoint. */
  readonly sessionId?: string | null;
  readonly operationName: OperationName;
  /** The job whose piece this call processes. */
  readonly jobId?: string;
  /** True for clients that expect costs in dollars instead of credits. */
  readonly showsUsd?: boolean;
  /** The model named in the body. Logged even if the rest of the body is invalid. */
  readonly requestedModel: string;
  /** Set once the body has been read and validated. */
  operation: Operation | undefined;
  /** Frees the tenant's concurrency slot; set while the call holds one. */
  releaseSlot: (() => void) | undefined;
  /** Frees the provider's key that answers, if the provider has several. */
  releaseProviderKey?: (() => void) | undefined;
  /** The hold on the caller's credits; set once `reserve` has run. */
  hold: Hold | undefined;
  /** The downloaded images of the request, for providers that don't fetch URLs. */
  inlinedImages?: Promise<ReadonlyMap<string, string>> | undefined;
  /** Whether the client allows replays of its answer, from the headers below. */
  readonly replayOptions: ReplayOptions;
  /** Set while the answer is recorded for later replays. */
  recordingSession: RecordingSession | undefined;
}

/** Request headers that control caching and idempotency. */
interface ReplayOptions {
  readonly cacheControl: string | null;
  readonly idempotencyKey: string | null;
}

/** Records an answer, so that other requests can be served with it. */
export interface RecordingSession {
  readonly recorder: AnswerRecorder;
  readonly inFlight: InFlightEntry;
}

/**
 * One parsed request: everything that differs between chat, embeddings, speech, transcription, and
 * images. The pipeline stages see a request only through this interface.
 */
export interface Operation {
  readonly request: RequestInfo;
  /** Bounds on what the request can cost. */
  readonly bounds: CostBounds;
  /** Names of the skills whose instructions were added to the request. */
  readonly skills?: readonly string[];
  /** Writes keep-alives and errors into a stream. Absent for operations that never stream. */
  readonly streamFormat?: StreamFormat;
  /**
   * If an offer can't serve the request, returns the reason, as a phrase that follows the model's
   * name. Otherwise, returns null.
   */
  incompatibility(offer: Offer): string | null;
  /**
   * Returns the offers that accept the request's content, such as its image sizes. Throws if there
   * are none. Absent for operations whose content every offer accepts.
   */
  refine?(plan: readonly Offer[]): readonly Offer[];
  /** Returns the fields and parts of the request that this offer would not receive. */
  lostFields(offer: Offer): readonly string[];
  /** Makes one attempt at one offer. */
  tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult>;
  /** Measures what an answer used. */
  measure(metrics: AnswerMetrics, kind: StreamOutcome['kind']): Measured;
  /**
   * Measures the input that an offer was processing when the client disconnected. Absent for
   * operations that aren't priced by their input.
   */
  measureInput?(): Measured;
  /** Returns the start of the prompt, which is the same in each request of a conversation. */
  promptStart?(): string;
  /** Identifies identical requests. Absent for operations whose answers are never replayed. */
  cacheIdentity?(): CacheIdentity;
  /** Replays a recording. Returns undefined if the recording doesn't fit the request. */
  replay?(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined;
}

/** What the client receives: a full body, a stream of events, or a stream of bytes. */
export type Answer =
  | { readonly kind: 'reply'; readonly body: string }
  | { readonly kind: 'stream'; readonly events: Stream }
  | { readonly kind: 'bytes'; readonly bytes: BytesAnswer };

export interface CacheIdentity {
  /** Returns everything that determines the answer. */
  cacheKeyInput(): unknown;
  /** True for requests whose answers `cache: auto` stores, such as those at temperature 0. */
  readonly isRepeatable: boolean;
}

/** A recorded answer, ready to be sent again. */
export interface Replay {
  readonly recording: Recording;
  readonly reply: TransformedReply;
  /** The first request with the same `Idempotency-Key`. Its ID and cost are reported again. */
  readonly first?: FirstRequest;
}

/** How a request ended. Each request settles exactly one outcome. */
export type RequestOutcome =
  | { readonly kind: 'rejected'; readonly error: GatewayError }
  /** The client disconnected while this offer was processing the full request. */
  | { readonly kind: 'abandoned'; readonly offer: Offer; readonly error: GatewayError }
  | {
      readonly kind: 'replayed';
      readonly recording: Recording;
      readonly first?: FirstRequest | undefined;
      readonly metrics: AnswerMetrics;
      readonly error: null;
    }
  | {
      readonly kind: StreamOutcome['kind'];
      readonly opened: OpenedAnswer;
      readonly metrics: AnswerMetrics;
      readonly error: GatewayError | null;
    };

/** Response header listing the parameters that were not sent to the answering provider. */
export const droppedParamsHeader = 'x-tollgate-dropped-params';

/** Returns the ID, model, and time that the client sees instead of the provider's. */
export function identityOf(
  { requestId, receivedAt }: Pick<Call, 'requestId' | 'receivedAt'>,
  model: string,
): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
