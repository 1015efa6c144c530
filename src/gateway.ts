import { strict as assert } from 'node:assert';
import {
  type Answer,
  type Call,
  type Ending,
  type Errand,
  identityOf,
  type Recalled,
} from './call.ts';
import { asGatewayError, type GatewayError } from './core/errors.ts';
import type { ClientWords, ReplyClosing } from './dialects/dialect.ts';
import type { Reservation } from './reserve.ts';
import type { Offer } from './route/catalogue.ts';
import { BytesAnswer } from './upstream/bytes-answer.ts';
import type { Opened } from './upstream/fallback.ts';
import { patiently, type Stream } from './upstream/late-stream.ts';
import { type Settle, StreamAnswer } from './upstream/stream-answer.ts';

/** The steps of the story, each built in wire/steps.ts from its own room. */
export interface Steps {
  /** May this key send one more request now? 429 */
  countRequest(call: Call): void | Promise<void>;
  /** Takes a place among the tenant's running requests; returns how to give it back. 429 */
  enter(call: Call): (() => void) | Promise<() => void>;
  /** An earlier answer that will do for this request, if there is one. 400 409 503 */
  recall(call: Call, errand: Errand): Promise<Recalled | undefined> | undefined;
  /** The offers that could serve the request, best first. 400 403 404 503 */
  plan(call: Call, errand: Errand): readonly Offer[] | Promise<readonly Offer[]>;
  /** Sets credits aside and writes down that something is about to be sent. 402 503 */
  reserve(call: Call, errand: Errand, plan: readonly Offer[]): Promise<Reservation>;
  /** The first offer that answers. 400 502 503 504 */
  openFirst(call: Call, errand: Errand, reservation: Reservation): Promise<Opened>;
  /** Charges what was used and writes it down. */
  settle(call: Call, ending: Ending): Promise<ReplyClosing>;
  /**
   * Logs a fault of our own that broke an answer after it had begun: the status of the answer,
   * already sent, cannot report it any more.
   */
  tellLate(call: Call, error: GatewayError): void;
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
    // Before the body is read, so that the limit on running requests bounds their bodies, too.
    call.leave = await steps.enter(call);
    errand = await read();
    call.errand = errand;
    if (!errand.words || !errand.ask.stream) return await obtain(call, errand, steps);
  } catch (thrown) {
    return refuse(call, thrown, steps);
  }
  return beginStream(call, errand, errand.words, steps);
}

/** An earlier answer, or that of the first offer which gives one. */
async function obtain(call: Call, errand: Errand, steps: Steps): Promise<Answer> {
  const recalled = await steps.recall(call, errand);
  if (recalled) return replay(call, errand, recalled, steps);
  const plan = await steps.plan(call, errand);
  const reservation = await steps.reserve(call, errand, plan);
  call.hold = reservation.hold;
  const opened = await steps.openFirst(call, errand, reservation);
  const { answer: found } = opened;
  if (found.kind === 'bytes') return new BytesAnswer(found, settleAtEnd(call, opened, steps));
  if (found.kind === 'stream') {
    assert(errand.ask.stream, 'A stream was opened that nobody asked for.');
    const { offer } = opened;
    const budget = reservation.budgetFor(offer);
    return new StreamAnswer(found, offer, budget, settleAtEnd(call, opened, steps));
  }
  assert(!errand.ask.stream, 'A whole reply came where a stream was asked for.');
  const { facts, wasLeft = false } = found.relay;
  const how = wasLeft ? 'left' : 'complete';
  const closing = await settle(call, { how, opened, facts, error: null }, steps);
  return found.relay.write(closing);
}

/** Gives an earlier answer again, free of charge. */
async function replay(
  call: Call,
  errand: Errand,
  { recording, relay, first }: Recalled,
  steps: Steps,
): Promise<Answer> {
  const { facts } = relay;
  const ending: Ending = { how: 'recalled', recording, first, facts, error: null };
  const closing = await settle(call, ending, steps);
  const text = relay.write(closing);
  return errand.ask.stream ? inOnePiece(text) : text;
}

async function* inOnePiece(text: string): Stream {
  yield text;
}

/** Settles answers that go on after `answer` has returned: a stream, or audio. */
function settleAtEnd(call: Call, opened: Opened, steps: Steps): Settle {
  return (end, facts) => {
    const error = end.how === 'cut' ? end.error : null;
    if (error) steps.tellLate(call, error);
    const settled = settle(call, { how: end.how, opened, facts, error }, steps);
    // An end that cannot be settled still ends the call: no hold may outlive its request.
    return settled.catch((thrown) => {
      steps.tellLate(call, asGatewayError(thrown));
      return refuse(call, thrown, steps);
    });
  };
}

/** A stream may take long to begin; its client hears from us meanwhile. */
function beginStream(
  call: Call,
  errand: Errand,
  words: ClientWords,
  steps: Steps,
): Promise<Stream> {
  const stream = obtain(call, errand, steps).then(asStream);
  const settled = stream.catch((thrown) => refuse(call, thrown, steps));
  const identity = identityOf(call, errand.ask.models[0] ?? '');
  return patiently(settled, words, identity, (error) => steps.tellLate(call, error));
}

function asStream(answered: Answer): Stream {
  const isStream = typeof answered !== 'string' && !(answered instanceof BytesAnswer);
  assert(isStream, 'A stream was asked for.');
  return answered;
}

/** A refusal is settled too: it costs nothing, and leaves a row that says why. */
async function refuse(call: Call, thrown: unknown, steps: Steps): Promise<never> {
  const error = asGatewayError(thrown);
  await settle(call, { how: 'refused', error }, steps);
  throw error;
}

/** Gives the place back first: another request can have it while this one is written down. */
function settle(call: Call, ending: Ending, steps: Steps): Promise<ReplyClosing> {
  call.leave?.();
  call.leave = undefined;
  return steps.settle(call, ending);
}
