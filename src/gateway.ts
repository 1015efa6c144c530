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
import type { RequestedBy } from './route/requested-models.ts';
import { BytesAnswer } from './upstream/bytes-answer.ts';
import { type OpenedAnswer, RequestAbandoned } from './upstream/fallback.ts';
import { type Stream, withKeepAlive } from './upstream/keep-alive-stream.ts';
import { type Settle, StreamAnswer } from './upstream/stream-answer.ts';

/** The pipeline stages of one request, in order. compose/stages.ts connects them to services. */
export interface Stages {
  /** Counts the request against the key's rate limit. Throws 429. */
  countRequest(call: Call): void | Promise<void>;
  /** Takes one of the tenant's concurrency slots; returns a function that frees it. Throws 429. */
  acquireSlot(call: Call): (() => void) | Promise<() => void>;
  /** Replaces aliases, and names without their brand, by the IDs of models. Throws 400. */
  resolveModels(call: RequestedBy, operation: Operation): void | Promise<void>;
  /** Finds a cached answer, or the first answer for an idempotency key. Throws 400, 409, 503. */
  findReplay(call: Call, operation: Operation): Promise<Replay | undefined> | undefined;
  /** Lists the offers that can serve the request, best first. Throws 400, 403, 404, 503. */
  plan(call: Call, operation: Operation): readonly Offer[] | Promise<readonly Offer[]>;
  /**
   * Holds credits, then writes to the journal that the request is about to be sent. Throws 402,
   * 503.
   */
  reserve(call: Call, operation: Operation, plan: readonly Offer[]): Promise<Reservation>;
  /** Tries the offers in order and returns the first answer. Throws 400, 502, 503, 504. */
  tryOffers(call: Call, operation: Operation, reservation: Reservation): Promise<OpenedAnswer>;
  /** Charges what the request used and records its outcome. */
  settle(call: Call, outcome: RequestOutcome): Promise<SettledUsage>;
  /**
   * Logs a gateway error that interrupted an answer after it had started. The status line was
   * already sent, so it can't report the error.
   */
  reportLateError(call: Call, error: GatewayError): void;
}

/**
 * Handles one request from admission to settlement. Other modules implement the stages that it
 * calls.
 */
export async function handleCall(
  call: Call,
  readOperation: () => Promise<Operation>,
  stages: Stages,
): Promise<Answer> {
  let operation: Operation;
  try {
    await stages.countRequest(call);
    // Take the slot before reading the body, so that the concurrency limit also applies to bodies.
    call.releaseSlot = await stages.acquireSlot(call);
    operation = await readOperation();
    call.operation = operation;
    await stages.resolveModels(call, operation);
    if (!operation.streamFormat || !operation.request.stream)
      return await findAnswer(call, operation, stages);
  } catch (error) {
    return reject(call, error, stages);
  }
  return openStream(call, operation, operation.streamFormat, stages);
}

/** Returns a replay if there is one, otherwise the answer of the first offer that succeeds. */
async function findAnswer(call: Call, operation: Operation, stages: Stages): Promise<Answer> {
  const replay = await stages.findReplay(call, operation);
  if (replay) return sendReplay(call, operation, replay, stages);
  const plan = await stages.plan(call, operation);
  const reservation = await stages.reserve(call, operation, plan);
  call.hold = reservation.hold;
  const opened = await stages.tryOffers(call, operation, reservation);
  const { offer, answer } = opened;
  switch (answer.kind) {
    case 'bytes':
      return { kind: 'bytes', bytes: new BytesAnswer(answer, settleAtEnd(call, opened, stages)) };
    case 'stream': {
      assert(operation.request.stream, 'A stream was opened for a request without streaming.');
      const budget = reservation.budgetFor(offer);
      const events = new StreamAnswer(answer, offer, budget, settleAtEnd(call, opened, stages));
      return { kind: 'stream', events };
    }
    case 'reply': {
      assert(!operation.request.stream, 'A complete response arrived for a streaming request.');
      const { metrics, isCanceled = false } = answer.reply;
      const kind = isCanceled ? 'client_disconnected' : 'complete';
      const settled = await settle(call, { kind, opened, metrics, error: null }, stages);
      return { kind: 'reply', body: answer.reply.write(settled) };
    }
  }
}

/** Sends a recorded answer again, free of charge. */
async function sendReplay(
  call: Call,
  operation: Operation,
  { recording, reply, first }: Replay,
  stages: Stages,
): Promise<Answer> {
  const { metrics } = reply;
  const outcome: RequestOutcome = { kind: 'replayed', recording, first, metrics, error: null };
  const settled = await settle(call, outcome, stages);
  const body = reply.write(settled);
  return operation.request.stream
    ? { kind: 'stream', events: asSingleChunk(body) }
    : { kind: 'reply', body };
}

async function* asSingleChunk(text: string): Stream {
  yield text;
}

/** Settles an answer that ends after `handleCall` has returned: a stream or audio. */
function settleAtEnd(call: Call, opened: OpenedAnswer, stages: Stages): Settle {
  return (end, metrics) => {
    const error = end.kind === 'interrupted' ? end.error : null;
    if (error) stages.reportLateError(call, error);
    const settled = settle(call, { kind: end.kind, opened, metrics, error }, stages);
    // If settling fails, settle as a rejection: no hold may outlive its request.
    return settled.catch((error) => {
      stages.reportLateError(call, asGatewayError(error));
      return reject(call, error, stages);
    });
  };
}

/** Opens a stream and sends keep-alive comments until its first event arrives. */
async function openStream(
  call: Call,
  operation: Operation,
  streamFormat: StreamFormat,
  stages: Stages,
): Promise<Answer> {
  const opening = findAnswer(call, operation, stages).then(eventsOf);
  const settled = opening.catch((error) => reject(call, error, stages));
  const identity = identityOf(call, operation.request.models[0] ?? '');
  const events = await withKeepAlive(settled, streamFormat, identity, (error) =>
    stages.reportLateError(call, error),
  );
  return { kind: 'stream', events };
}

function eventsOf(answer: Answer): Stream {
  assert(answer.kind === 'stream', 'A streaming request got a complete response.');
  return answer.events;
}

/**
 * Settles a request that failed before an answer started. It is logged, and free unless its client
 * abandoned it.
 */
async function reject(call: Call, cause: unknown, stages: Stages): Promise<never> {
  const error = asGatewayError(cause);
  const outcome: RequestOutcome =
    error instanceof RequestAbandoned
      ? { kind: 'abandoned', offer: error.offer, error }
      : { kind: 'rejected', error };
  await settle(call, outcome, stages);
  throw error;
}

/** Settles a request. Its slot is freed first, so that another request can start meanwhile. */
function settle(call: Call, outcome: RequestOutcome, stages: Stages): Promise<SettledUsage> {
  call.releaseSlot?.();
  call.releaseSlot = undefined;
  call.releaseProviderKey?.();
  call.releaseProviderKey = undefined;
  return stages.settle(call, outcome);
}
