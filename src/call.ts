import type { Duty } from './cache/duty.ts';
import type { Ask, OperationName } from './core/ask.ts';
import type { Caller } from './core/caller.ts';
import type { GatewayError } from './core/errors.ts';
import { completionId } from './core/ids.ts';
import type { FirstRequest, Recording } from './core/recording.ts';
import type { Measured } from './core/usage.ts';
import type {
  ClientWords,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  StreamIdentity,
} from './dialects/dialect.ts';
import type { Hold } from './ledger/hold.ts';
import type { CostBounds } from './meter/bound.ts';
import type { Offer } from './route/catalogue.ts';
import type { AttemptResult } from './upstream/attempt.ts';
import type { BytesAnswer } from './upstream/bytes-answer.ts';
import type { Opened, TrailEntry } from './upstream/fallback.ts';
import type { Stream } from './upstream/late-stream.ts';
import type { Link } from './upstream/link.ts';
import type { StreamEnd } from './upstream/stream-answer.ts';
import type { Tape } from './upstream/tape.ts';

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
  readonly trail: TrailEntry[];
  readonly operation: OperationName;
  /** The job of which this call processes a piece. */
  readonly jobId?: string;
  /** The model that the request body names: logged even if the rest of the body is refused. */
  readonly modelNamed: string;
  /** Known once the request body has been read and found valid. */
  errand: Errand | undefined;
  /** Gives this call's place among the tenant's running requests back; set while it has one. */
  leave: (() => void) | undefined;
  /** The credits set aside for this call; undefined until they are. */
  hold: Hold | undefined;
  /** Whether an earlier answer will do for this call, and whether its own may be given again. */
  readonly wishes: RecallWishes;
  /** Set while the answer is recorded, so that it can be given again. */
  memory: Memory | undefined;
}

/** The headers in which a client says whether an earlier answer will do. */
interface RecallWishes {
  readonly cacheControl: string | null;
  readonly idempotencyKey: string | null;
}

/** Records an answer, so that it can be given again to other requests. */
export interface Memory {
  readonly tape: Tape;
  readonly duty: Duty;
}

/**
 * One request as its client worded it: all that differs between chat, embeddings, speech,
 * transcription and images. The steps of the story know nothing else of a request.
 */
export interface Errand {
  readonly ask: Ask;
  /** What the request may cost. */
  readonly bounds: CostBounds;
  /** Names of the skills whose instructions were added to the request. */
  readonly skills?: readonly string[];
  /** How a stream tells its client to wait, or of a failure; absent where nothing is streamed. */
  readonly words?: ClientWords;
  /** Why an offer cannot serve the request, worded to follow the model's name; null when it can. */
  misfit(offer: Offer): string | null;
  /**
   * The offers that take the request's content, such as the size of its images; throws when none
   * does. Absent where all of them do.
   */
  refine?(plan: readonly Offer[]): readonly Offer[];
  /** One try at one offer. */
  tryAt(offer: Offer, link: Link): Promise<AttemptResult>;
  /** What an answer used. */
  measure(facts: ReplyFacts, how: StreamEnd['how']): Measured;
  /** What identifies identical requests; absent where no answer is ever given again. */
  sameness?(): Sameness;
  /** An earlier answer as if it came now; undefined when this request needs another form. */
  replay?(recording: Recording, identity: ReplyIdentity): ReplyRelay | undefined;
}

/** What the client gets: a whole body, or words or bytes as they come. */
export type Answer = string | Stream | BytesAnswer;

export interface Sameness {
  /** Everything that decides the answer. */
  wording(): unknown;
  /** Whether the same request should get the same answer again: then `cache: auto` keeps it. */
  readonly isRepeatable: boolean;
}

/** An earlier answer, ready to be given again. */
export interface Recalled {
  readonly recording: Recording;
  readonly relay: ReplyRelay;
  /** With an `Idempotency-Key`: the request that was answered first, whose id and cost are kept. */
  readonly first?: FirstRequest;
}

/** How a request ended. Exactly one of these is settled for each request. */
export type Ending =
  | { readonly how: 'refused'; readonly error: GatewayError }
  | {
      readonly how: 'recalled';
      readonly recording: Recording;
      readonly first?: FirstRequest | undefined;
      readonly facts: ReplyFacts;
      readonly error: null;
    }
  | {
      readonly how: StreamEnd['how'];
      readonly opened: Opened;
      readonly facts: ReplyFacts;
      readonly error: GatewayError | null;
    };

/** Lists the parameters that were left out of the request to the provider that answered. */
export const droppedHeader = 'x-tollgate-dropped-params';

/** The id, model and time that the client sees in an answer; the upstream's own never appear. */
export function identityOf(
  { requestId, receivedAt }: Pick<Call, 'requestId' | 'receivedAt'>,
  model: string,
): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
