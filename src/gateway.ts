import { strict as assert } from 'node:assert';
import type { Ask, OperationName } from './core/ask.ts';
import type { Caller } from './core/caller.ts';
import { asGatewayError, type GatewayError } from './core/errors.ts';
import { completionId } from './core/ids.ts';
import type { Recording } from './core/recording.ts';
import type { Measured } from './core/usage.ts';
import type {
  ClientWords,
  ReplyClosing,
  ReplyFacts,
  ReplyIdentity,
  ReplyRelay,
  StreamIdentity,
} from './dialects/dialect.ts';
import type { Hold } from './ledger/hold.ts';
import type { CostBounds } from './meter/bound.ts';
import type { Reservation } from './reserve.ts';
import type { Offer } from './route/catalogue.ts';
import type { AttemptResult } from './upstream/attempt.ts';
import { BytesAnswer } from './upstream/bytes.ts';
import type { Opened, TrailEntry } from './upstream/fallback.ts';
import type { Link } from './upstream/link.ts';
import { patiently, type Stream } from './upstream/patience.ts';
import { StreamAnswer, type StreamEnd } from './upstream/relay.ts';
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
  /** The client's own trace, to be gone on with. */
  readonly traceparent?: string | null;
  /** What its answer will carry: the steps write into them. */
  readonly headers: Record<string, string>;
  /** Every attempt made for it, as they are made. */
  readonly trail: TrailEntry[];
  readonly operation: OperationName;
  /** What its body calls the model, known before anybody knows whether the body is sound. */
  readonly modelNamed: string;
  /** Known once the body was read and found sound. */
  errand: Errand | undefined;
  /** Gives its place among the tenant's running requests back, once it has one. */
  leave: (() => void) | undefined;
  /** Credits set aside for it, once they are. */
  hold: Hold | undefined;
  /** Whether an earlier answer will do, and whether this one may be given again. */
  readonly wishes: RecallWishes;
  /** Set while somebody wants to hear its answer again. */
  memory: Memory | undefined;
}

/** Headers by which a client speaks about repetitions. */
export interface RecallWishes {
  readonly cacheControl: string | null;
  readonly idempotencyKey: string | null;
}

/** Listens to an answer, and is told how it ended. */
export interface Memory {
  readonly tape: Tape;
  keep(): Promise<void>;
  abandon(): Promise<void>;
}

/**
 * One request as its client worded it: all that differs between chat, embeddings, speech,
 * transcription and images. The steps below know nothing else of a request.
 */
export interface Errand {
  readonly ask: Ask;
  /** What it may cost. */
  readonly bounds: CostBounds;
  /** Names of the instructions that were added to it. */
  readonly skills?: readonly string[];
  /** What a client hears of a stream apart from the answer; left out where there are no streams. */
  readonly words?: ClientWords;
  /** Why an offer cannot serve it, in words that follow its model's name; null when it can. */
  misfit(offer: Offer): string | null;
  /** Those of the plan that what it carries is fit for; throws when none is left. */
  refine(plan: readonly Offer[]): readonly Offer[];
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
  /** The same request surely gets the same answer, so that nobody need ask for the cache. */
  readonly isRepeatable: boolean;
}

/** An answer of before, ready to be given again. */
export interface Recalled {
  readonly recording: Recording;
  readonly relay: ReplyRelay;
}

/** How a request ended. Exactly one of these is settled for each request. */
export type Ending =
  | { readonly how: 'refused'; readonly error: GatewayError }
  | {
      readonly how: 'recalled';
      readonly recording: Recording;
      readonly facts: ReplyFacts;
      readonly error: null;
    }
  | {
      readonly how: StreamEnd['how'];
      readonly opened: Opened;
      readonly facts: ReplyFacts;
      readonly error: GatewayError | null;
    };

/** The steps of the story, each built in wire.ts from its own room. */
export interface Steps {
  /** May this key send one more request now? 429 */
  countRequest(call: Call): void | Promise<void>;
  /** A place among the tenant's running requests; what it answers gives it back, once. 429 */
  enter(call: Call): (() => void) | Promise<() => void>;
  /** An answer that was given before and will do. 400 409 503 */
  recall(call: Call, errand: Errand): Promise<Recalled | undefined> | undefined;
  /** Where it could go, best first. 400 403 404 503 */
  plan(call: Call, errand: Errand): readonly Offer[] | Promise<readonly Offer[]>;
  /** Sets credits aside and writes down that something is about to be sent. 402 503 */
  reserve(call: Call, errand: Errand, plan: readonly Offer[]): Promise<Reservation>;
  /** The first offer that answers. 400 502 503 504 */
  openFirst(call: Call, errand: Errand, reservation: Reservation): Promise<Opened>;
  /** Charges what was used and writes it down. */
  settle(call: Call, ending: Ending): Promise<ReplyClosing>;
}

/** Answers one call. Read this first: every other file serves one of its lines. */
export async function answer(
  call: Call,
  read: () => Promise<Errand>,
  steps: Steps,
): Promise<Answer> {
  let errand: Errand;
  try {
    await steps.countRequest(call);
    // Before the body is read: bodies at once are bounded like requests at once.
    call.leave = await steps.enter(call);
    errand = await read();
    call.errand = errand;
    if (!errand.words || !errand.ask.stream) return await tell(call, errand, steps);
  } catch (thrown) {
    return refuse(call, thrown, steps);
  }
  return begin(call, errand, errand.words, steps);
}

/** A stream may take long to begin; its client hears from us meanwhile. */
function begin(call: Call, errand: Errand, words: ClientWords, steps: Steps): Promise<Stream> {
  const told = tell(call, errand, steps).then(asStream);
  const settled = told.catch((thrown) => refuse(call, thrown, steps));
  return patiently(settled, words, identityOf(call, errand.ask.models[0] ?? ''));
}

async function refuse(call: Call, thrown: unknown, steps: Steps): Promise<never> {
  call.leave?.();
  const error = asGatewayError(thrown);
  await steps.settle(call, { how: 'refused', error });
  throw error;
}

function asStream(answered: Answer): Stream {
  const isStream = typeof answered !== 'string' && !(answered instanceof BytesAnswer);
  assert(isStream, 'A stream was asked for.');
  return answered;
}

/** From what was given before, or from the first offer that answers. */
async function tell(call: Call, errand: Errand, steps: Steps): Promise<Answer> {
  const recalled = await steps.recall(call, errand);
  if (recalled) return replay(call, errand, recalled, steps);
  const plan = await steps.plan(call, errand);
  const reservation = await steps.reserve(call, errand, plan);
  call.hold = reservation.hold;
  const opened = await steps.openFirst(call, errand, reservation);
  const { answer: found } = opened;
  if (found.kind === 'bytes') return new BytesAnswer(found, ending(call, opened, steps));
  if (found.kind === 'stream') {
    assert(errand.ask.stream, 'A stream was opened that nobody asked for.');
    const budget = reservation.budgetFor(opened.offer);
    return new StreamAnswer(found, budget, ending(call, opened, steps));
  }
  assert(!errand.ask.stream, 'A whole reply came where a stream was asked for.');
  call.leave?.();
  const { facts } = found.relay;
  const closing = await steps.settle(call, { how: 'complete', opened, facts, error: null });
  return found.relay.write(closing);
}

/** An answer of before, under a new name and free of charge. */
async function replay(
  call: Call,
  errand: Errand,
  { recording, relay }: Recalled,
  steps: Steps,
): Promise<Answer> {
  call.leave?.();
  const { facts } = relay;
  const closing = await steps.settle(call, { how: 'recalled', recording, facts, error: null });
  const text = relay.write(closing);
  return errand.ask.stream ? said(text) : text;
}

async function* said(text: string): Stream {
  yield text;
}

/** Settles an answer that ends later than the story does. */
function ending(call: Call, opened: Opened, steps: Steps) {
  const { answer: found } = opened;
  const { facts } = found.kind === 'bytes' ? found : found.relay;
  return (end: StreamEnd) => {
    call.leave?.();
    const error = end.how === 'cut' ? end.error : null;
    const settled = steps.settle(call, { how: end.how, opened, facts, error });
    // An end that cannot be reckoned is one all the same: no hold may outlive its request.
    return settled.catch((thrown) => refuse(call, thrown, steps));
  };
}

/** Under which names the client sees an answer; the upstream's own never appear. */
export function identityOf({ requestId, receivedAt }: Call, model: string): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
