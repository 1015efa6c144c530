import { strict as assert } from 'node:assert';
import type { Caller } from './core/caller.ts';
import { asGatewayError, type GatewayError } from './core/errors.ts';
import { completionId } from './core/ids.ts';
import type { Conversation, ReplyClosing, ReplyFacts, StreamIdentity } from './dialects/dialect.ts';
import type { Hold } from './ledger/hold.ts';
import type { Reservation } from './reserve.ts';
import type { Offer } from './route/catalogue.ts';
import type { Opened, TrailEntry } from './upstream/fallback.ts';
import { patiently, type Stream } from './upstream/patience.ts';
import { StreamAnswer, type StreamEnd } from './upstream/relay.ts';

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
  /** Every attempt made for it, as they are made. */
  readonly trail: TrailEntry[];
  /** Known once the body was read and found sound. */
  conversation: Conversation | undefined;
  /** Credits set aside for it, once they are. */
  hold: Hold | undefined;
}

/** What the client gets: a whole body, or words as they come. */
export type Answer = string | Stream;

/** How a request ended. Exactly one of these is settled for each request. */
export type Ending =
  | { readonly how: 'refused'; readonly error: GatewayError }
  | {
      readonly how: StreamEnd['how'];
      readonly opened: Opened;
      readonly facts: ReplyFacts;
      readonly error: GatewayError | null;
    };

/** The steps of the story, each built in wire.ts from its own room. */
export interface Steps {
  /** May this key send one more request now? 429 */
  countRequest(call: Call): void;
  /** A place among the tenant's running requests, given back by the answer. 429 */
  enter(call: Call): () => void;
  /** Where it could go, best first. 400 403 404 503 */
  plan(call: Call, conversation: Conversation): Promise<readonly Offer[]>;
  /** Sets credits aside and writes down that something is about to be sent. 402 503 */
  reserve(call: Call, conversation: Conversation, plan: readonly Offer[]): Promise<Reservation>;
  /** The first offer that answers. 400 502 503 504 */
  openFirst(call: Call, conversation: Conversation, reservation: Reservation): Promise<Opened>;
  /** Charges what was used and writes it down. */
  settle(call: Call, ending: Ending): Promise<ReplyClosing>;
}

/** Answers one call. Read this first: every other file serves one of its lines. */
export async function answer(
  call: Call,
  read: () => Promise<Conversation>,
  steps: Steps,
): Promise<Answer> {
  let leave = () => {};
  const refuse = async (thrown: unknown): Promise<never> => {
    leave();
    const error = asGatewayError(thrown);
    await steps.settle(call, { how: 'refused', error });
    throw error;
  };
  const prepare = async () => {
    steps.countRequest(call);
    const conversation = await read();
    call.conversation = conversation;
    leave = steps.enter(call);
    const plan = await steps.plan(call, conversation);
    const reservation = await steps.reserve(call, conversation, plan);
    call.hold = reservation.hold;
    return { conversation, reservation };
  };
  const { conversation, reservation } = await prepare().catch(refuse);
  const { ask, words } = conversation;
  const opening = steps.openFirst(call, conversation, reservation);
  if (!ask.stream) return reply(call, await opening.catch(refuse), leave, steps);
  const streaming = opening.then((opened) => stream(call, opened, reservation, leave, steps));
  return patiently(streaming.catch(refuse), words, identityOf(call, ask.models[0] ?? ''));
}

/** The whole answer of an upstream as the client's body. */
async function reply(call: Call, opened: Opened, leave: () => void, steps: Steps): Promise<string> {
  const { answer: found } = opened;
  assert(found.kind === 'reply', 'A stream was opened that nobody asked for.');
  leave();
  const { facts } = found.relay;
  return found.relay.write(
    await steps.settle(call, { how: 'complete', opened, facts, error: null }),
  );
}

function stream(
  call: Call,
  opened: Opened,
  reservation: Reservation,
  leave: () => void,
  steps: Steps,
): StreamAnswer {
  const { answer: found } = opened;
  assert(found.kind === 'stream', 'A whole reply came where a stream was asked for.');
  return new StreamAnswer(found, reservation.budgetFor(opened.offer), (end) => {
    leave();
    const error = end.how === 'cut' ? end.error : null;
    return steps.settle(call, { how: end.how, opened, facts: found.relay.facts, error });
  });
}

/** Under which names the client sees an answer; the upstream's own never appear. */
export function identityOf({ requestId, receivedAt }: Call, model: string): StreamIdentity {
  return { id: completionId(requestId), model, created: Math.floor(receivedAt / 1000) };
}
