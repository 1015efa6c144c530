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

/** One request on its way through. */
export interface Call {
  readonly requestId: string;
  readonly caller: Caller;
  /** Aborts when the client leaves. */
  readonly client: AbortSignal;
  /** Epoch milliseconds, for people. */
  readonly receivedAt: number;
  /** On the monotonic clock, for durations. */
  readonly startedAt: number;
  /** The client's own trace, which its attempts continue. */
  readonly traceparent?: string | null;
  /** The headers of its answer; the steps add to them. */
  readonly headers: Record<string, string>;
  /** Every attempt made for it, as they are made. */
  readonly trail: TrailEntry[];
  readonly operation: OperationName;
  /** The job that it is a piece of. */
  readonly jobId?: string;
  /** The model that its body names: logged even if the rest of the body is refused. */
  readonly modelNamed: string;
  /** Known once its body was read and is valid. */
  errand: Errand | undefined;
  /** Gives its place among the tenant's running requests back; set while it has one. */
  leave: (() => void) | undefined;
  /** Credits set aside for it, once they are. */
  hold: Hold | undefined;
  /** Whether an earlier answer will do, and whether this one may be given again. */
  readonly wishes: RecallWishes;
  /** Set when its answer is recorded, to be given again. */
  memory: Memory | undefined;
}

/** The headers in which a client says whether an earlier answer will do. */
interface RecallWishes {
  readonly cacheControl: string | null;
  readonly idempotencyKey: string | null;
}

/** Records an answer for those who may want to hear it again. */
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
  /** What it may cost. */
  readonly bounds: CostBounds;
  /** Names of the instructions that were added to it. */
  readonly skills?: readonly string[];
  /** How a stream's client is told to wait, or of a failure; left out where nothing is streamed. */
  readonly words?: ClientWords;
  /** Why an offer cannot serve it, in words that follow its model's name; null when it can. */
  misfit(offer: Offer): string | null;
  /**
   * The offers that take its content, such as the size of its images; throws when none does. Left
   * out where all of them do.
   */
  refine?(plan: readonly Offer[]): readonly Offer[];
  /** One try at one offer. */
  tryAt(offer: Offer, link: Link): Promise<AttemptResult>;
  /** What an answer used. */
  measure(facts: ReplyFacts, how: StreamEnd['how']): Measured;
  /** What makes another request the same one; left out where no answer is ever given again. */
  sameness?(): Sameness;
  /** An earlier answer as if it came now; undefined when it cannot be given in this form. */
  replay?(recording: Recording, identity: ReplyIdentity): ReplyRelay | undefined;
}

/** What the client gets: a whole body, or words or bytes as they come. */
export type Answer = string | Stream | BytesAnswer;

export interface Sameness {
  /** Everything that decides the answer. */
  wording(): unknown;
  /** The same request is expected to get the same answer, so that `cache: auto` keeps it. */
  readonly isRepeatable: boolean;
}

/** An answer of before, ready to be given again. */
export interface Recalled {
  readonly recording: Recording;
  readonly relay: ReplyRelay;
  /** Under an `Idempotency-Key`: the request it was first made for, whose id and cost it keeps. */
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

/** Under which names the client sees an answer; the upstream's own never appear. */
export function identityOf(
  { requestId, receivedAt }: Pick<Call, 'requestId' | 'receivedAt'>,
  model: string,
): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
