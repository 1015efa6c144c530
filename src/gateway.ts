import { strict as assert } from 'node:assert';
import {
  type Answer,
  type Call,
  identityOf,
  type Operation,
  type Replay,
  type RequestOutcome,
} from './call.ts';
import { asGatewayError, type GatewayError } from './core/errors.ts';
import type { SettledUsage, StreamFormat } from './dialects/dialect.ts';
import type { Reservation } from './money/hold/reserve.ts';
import type { Offer } from './route/catalog.ts';
import { BytesAnswer } from './upstream/byte-stream.ts';
import type { Opened } from './upstream/fallback.ts';
import { type Stream, withKeepAlive } from './upstream/keep-alive-stream.ts';
import { type Settle, StreamAnswer } from './upstream/stream-answer.ts';

/** The steps of the story, each built in wire/steps.ts from its own room. */
export interface Stages {
  /** May this key send one more request now? 429 */
  countRequest(call: Call): void | Promise<void>;
  /** Takes a place among the tenant's running requests; returns how to give it back. 429 */
  acquireSlot(call: Call): (() => void) | Promise<() => void>;
  /** An earlier answer that will do for this request, if there is one. 400 409 503 */
  findReplay(call: Call, operation: Operation): Promise<Replay | undefined> | undefined;
  /** The offers that could serve the request, best first. 400 403 404 503 */
  plan(call: Call, operation: Operation): readonly Offer[] | Promise<readonly Offer[]>;
  /** Sets credits aside and writes down that something is about to be sent. 402 503 */
  reserve(call: Call, operation: Operation, plan: readonly Offer[]): Promise<Reservation>;
  /** The first offer that answers. 400 502 503 504 */
  openFirst(call: Call, operation: Operation, reservation: Reservation): Promise<Opened>;
  /** Charges what was used and writes it down. */
  settle(call: Call, outcome: RequestOutcome): Promise<SettledUsage>;
  /**
   * Logs a fault of our own that broke an answer after it had begun: the status of the answer,
   * already sent, cannot report it any more.
   */
  reportLateError(call: Call, error: GatewayError): void;
}

/** Answers one call. Read this first: every other file serves one of its lines. */
export async function answer(
  call: Call,
  readOperation: () => Promise<Operation>,
  stages: Stages,
): Promise<Answer> {
  let operation: Operation;
  try {
    await stages.countRequest(call);
    // Before the body is read, so that the limit on running requests bounds their bodies, too.
    call.releaseSlot = await stages.acquireSlot(call);
    operation = await readOperation();
    call.operation = operation;
    if (!operation.streamFormat || !operation.request.stream)
      return await getAnswer(call, operation, stages);
  } catch (error) {
    return refuse(call, error, stages);
  }
  return beginStream(call, operation, operation.streamFormat, stages);
}

/** An earlier answer, or that of the first offer which gives one. */
async function getAnswer(call: Call, operation: Operation, stages: Stages): Promise<Answer> {
  const replay = await stages.findReplay(call, operation);
  if (replay) return sendReplay(call, operation, replay, stages);
  const plan = await stages.plan(call, operation);
  const reservation = await stages.reserve(call, operation, plan);
  call.hold = reservation.hold;
  const opened = await stages.openFirst(call, operation, reservation);
  const { answer: found } = opened;
  if (found.kind === 'bytes') return new BytesAnswer(found, settleAtEnd(call, opened, stages));
  if (found.kind === 'stream') {
    assert(operation.request.stream, 'A stream was opened that nobody asked for.');
    const { offer } = opened;
    const budget = reservation.budgetFor(offer);
    return new StreamAnswer(found, offer, budget, settleAtEnd(call, opened, stages));
  }
  assert(!operation.request.stream, 'A whole reply came where a stream was asked for.');
  const { metrics, isCanceled: wasLeft = false } = found.reply;
  const kind = wasLeft ? 'left' : 'complete';
  const settled = await settle(call, { kind, opened, metrics, error: null }, stages);
  return found.reply.write(settled);
}

/** Gives an earlier answer again, free of charge. */
async function sendReplay(
  call: Call,
  operation: Operation,
  { recording, reply, first }: Replay,
  stages: Stages,
): Promise<Answer> {
  const { metrics } = reply;
  const outcome: RequestOutcome = { kind: 'recalled', recording, first, metrics, error: null };
  const settled = await settle(call, outcome, stages);
  const text = reply.write(settled);
  return operation.request.stream ? asSingleChunk(text) : text;
}

async function* asSingleChunk(text: string): Stream {
  yield text;
}

/** Settles answers that go on after `answer` has returned: a stream, or audio. */
function settleAtEnd(call: Call, opened: Opened, stages: Stages): Settle {
  return (end, metrics) => {
    const error = end.kind === 'cut' ? end.error : null;
    if (error) stages.reportLateError(call, error);
    const settled = settle(call, { kind: end.kind, opened, metrics, error }, stages);
    // An end that cannot be settled still ends the call: no hold may outlive its request.
    return settled.catch((error) => {
      stages.reportLateError(call, asGatewayError(error));
      return refuse(call, error, stages);
    });
  };
}

/** A stream may take long to begin; its client hears from us meanwhile. */
function beginStream(
  call: Call,
  operation: Operation,
  streamFormat: StreamFormat,
  stages: Stages,
): Promise<Stream> {
  const stream = getAnswer(call, operation, stages).then(asStream);
  const settled = stream.catch((error) => refuse(call, error, stages));
  const identity = identityOf(call, operation.request.models[0] ?? '');
  return withKeepAlive(settled, streamFormat, identity, (error) =>
    stages.reportLateError(call, error),
  );
}

function asStream(answered: Answer): Stream {
  const isStream = typeof answered !== 'string' && !(answered instanceof BytesAnswer);
  assert(isStream, 'A stream was asked for.');
  return answered;
}

/** A refusal is settled too: it costs nothing, and leaves a row that says why. */
async function refuse(call: Call, cause: unknown, stages: Stages): Promise<never> {
  const error = asGatewayError(cause);
  await settle(call, { kind: 'refused', error }, stages);
  throw error;
}

/** Gives the place back first: another request can have it while this one is written down. */
function settle(call: Call, outcome: RequestOutcome, stages: Stages): Promise<SettledUsage> {
  call.releaseSlot?.();
  call.releaseSlot = undefined;
  return stages.settle(call, outcome);
}
