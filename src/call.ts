import type { InFlightEntry } from './cache/in-flight-entry.ts';
import type { Caller } from './core/caller.ts';
import type { GatewayError } from './core/errors.ts';
import { completionId } from './core/ids.ts';
import type { FirstRequest, Recording } from './core/recording.ts';
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
import type { BytesAnswer } from './upstream/byte-stream.ts';
import type { AttemptEntry, Opened } from './upstream/fallback.ts';
import type { Stream } from './upstream/keep-alive-stream.ts';
import type { AnswerRecorder } from './upstream/recorder.ts';
import type { StreamOutcome } from './upstream/stream-answer.ts';

/** One client request on its way through the gateway. */
export interface Call {
  readonly requestId: string;
  readonly caller: Caller;
  /** Aborts when the client leaves. */
  readonly client: AbortSignal;
  /** Epoch milliseconds, for people. */
  readonly receivedAt: number;
  /** On the monotonic clock, for durations. */
  readonly startedAt: number;
  /** The client's `traceparent` header: the attempts of this call continue its trace. */
  readonly traceparent?: string | null;
  /** The headers of the answer to this call; the steps add to them. */
  readonly headers: Record<string, string>;
  /** The attempts that were made for this call so far. */
  readonly attempts: AttemptEntry[];
  readonly operationName: OperationName;
  /** The job of which this call processes a piece. */
  readonly jobId?: string;
  /** The model that the request body names: logged even if the rest of the body is refused. */
  readonly requestedModel: string;
  /** Known once the request body has been read and found valid. */
  operation: Operation | undefined;
  /** Gives this call's place among the tenant's running requests back; set while it has one. */
  releaseSlot: (() => void) | undefined;
  /** The credits set aside for this call; undefined until they are. */
  hold: Hold | undefined;
  /** Whether an earlier answer will do for this call, and whether its own may be given again. */
  readonly recallOptions: RecallOptions;
  /** Set while the answer is recorded, so that it can be given again. */
  recordingSession: RecordingSession | undefined;
}

/** The headers in which a client says whether an earlier answer will do. */
interface RecallOptions {
  readonly cacheControl: string | null;
  readonly idempotencyKey: string | null;
}

/** Records an answer, so that it can be given again to other requests. */
export interface RecordingSession {
  readonly recorder: AnswerRecorder;
  readonly inFlight: InFlightEntry;
}

/**
 * One request as its client worded it: all that differs between chat, embeddings, speech,
 * transcription and images. The steps of the story know nothing else of a request.
 */
export interface Operation {
  readonly request: RequestInfo;
  /** What the request may cost. */
  readonly bounds: CostBounds;
  /** Names of the skills whose instructions were added to the request. */
  readonly skills?: readonly string[];
  /** How a stream tells its client to wait, or of a failure; absent where nothing is streamed. */
  readonly streamFormat?: StreamFormat;
  /** Why an offer cannot serve the request, worded to follow the model's name; null when it can. */
  incompatibility(offer: Offer): string | null;
  /**
   * The offers that take the request's content, such as the size of its images; throws when none
   * does. Absent where all of them do.
   */
  refine?(plan: readonly Offer[]): readonly Offer[];
  /** One try at one offer. */
  tryAt(offer: Offer, context: AttemptContext): Promise<AttemptResult>;
  /** What an answer used. */
  measure(metrics: AnswerMetrics, kind: StreamOutcome['kind']): Measured;
  /** What identifies identical requests; absent where no answer is ever given again. */
  cacheIdentity?(): CacheIdentity;
  /** An earlier answer as if it came now; undefined when this request needs another form. */
  replay?(recording: Recording, identity: ReplyIdentity): TransformedReply | undefined;
}

/** What the client gets: a whole body, or words or bytes as they come. */
export type Answer = string | Stream | BytesAnswer;

export interface CacheIdentity {
  /** Everything that decides the answer. */
  cacheKeyInput(): unknown;
  /** Whether the same request should get the same answer again: then `cache: auto` keeps it. */
  readonly isRepeatable: boolean;
}

/** An earlier answer, ready to be given again. */
export interface Replay {
  readonly recording: Recording;
  readonly reply: TransformedReply;
  /** With an `Idempotency-Key`: the request that was answered first, whose id and cost are kept. */
  readonly first?: FirstRequest;
}

/** How a request ended. Exactly one of these is settled for each request. */
export type RequestOutcome =
  | { readonly kind: 'refused'; readonly error: GatewayError }
  | {
      readonly kind: 'recalled';
      readonly recording: Recording;
      readonly first?: FirstRequest | undefined;
      readonly metrics: AnswerMetrics;
      readonly error: null;
    }
  | {
      readonly kind: StreamOutcome['kind'];
      readonly opened: Opened;
      readonly metrics: AnswerMetrics;
      readonly error: GatewayError | null;
    };

/** Lists the parameters that were left out of the request to the provider that answered. */
export const droppedParamsHeader = 'x-tollgate-dropped-params';

/** The id, model and time that the client sees in an answer; the upstream's own never appear. */
export function identityOf(
  { requestId, receivedAt }: Pick<Call, 'requestId' | 'receivedAt'>,
  model: string,
): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
