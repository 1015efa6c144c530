import type { Caller } from './core/caller.ts';
import { asGatewayError, type GatewayError } from './core/errors.ts';
import type { Conversation, ReplyClosing, ReplyFacts } from './dialects/dialect.ts';
import type { Hold } from './ledger/wallets.ts';
import type { Reservation } from './reserve.ts';
import type { Offer } from './route/catalogue.ts';
import type { Opened, TrailEntry } from './upstream/fallback.ts';
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
export type Answer = string | StreamAnswer;

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
  /** Where it could go, best first. 400 403 404 */
  plan(call: Call, conversation: Conversation): readonly Offer[];
  /** Sets credits aside and writes down that something is about to be sent. 402 503 */
  reserve(call: Call, conversation: Conversation, plan: readonly Offer[]): Promise<Reservation>;
  /** The first offer that answers. 400 502 503 504 */
  openFirst(
    call: Call,
    conversation: Conversation,
    plan: readonly Offer[],
    reservation: Reservation,
  ): Promise<Opened>;
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
  try {
    steps.countRequest(call);
    const conversation = await read();
    call.conversation = conversation;
    leave = steps.enter(call);
    const plan = steps.plan(call, conversation);
    const reservation = await steps.reserve(call, conversation, plan);
    call.hold = reservation.hold;
    const opened = await steps.openFirst(call, conversation, plan, reservation);
    const { answer: found } = opened;
    const { facts } = found.relay;
    if (found.kind === 'reply') {
      const closing = await steps.settle(call, { how: 'complete', opened, facts, error: null });
      leave();
      return found.relay.write(closing);
    }
    return new StreamAnswer(found, reservation.budgetFor(opened.offer), (end) => {
      leave();
      const error = end.how === 'cut' ? end.error : null;
      return steps.settle(call, { how: end.how, opened, facts: found.relay.facts, error });
    });
  } catch (thrown) {
    leave();
    const error = asGatewayError(thrown);
    await steps.settle(call, { how: 'refused', error });
    throw error;
  }
}
