/** What endpoints that call models share: the request becomes a call, its answer a response. */

import type { Answer, Call, Operation } from '../../call.ts';
import type { Caller } from '../../core/caller.ts';
import { asGatewayError, type GatewayError } from '../../core/errors.ts';
import type { UploadDirectory } from '../../core/form.ts';
import type { OperationName } from '../../core/request-info.ts';
import { answer, type Stages } from '../../gateway.ts';
import {
  type MemoryBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../../limits/memory-budget.ts';
import type { BytesAnswer } from '../../upstream/byte-stream.ts';
import type { IncomingRequest } from '../body/body.ts';
import type { Exchange } from '../routes.ts';
import { disconnectWhenStalled } from '../stalled-client.ts';

export interface ModelCallDeps {
  readonly bodyBytesMax: number;
  /** Counts long bodies while their requests run. */
  readonly bodyMemoryBudget: MemoryBudget;
  /** The steps of the story. */
  readonly stages: Stages;
}

export interface RefusalDeps extends Pick<ModelCallDeps, 'bodyMemoryBudget'> {
  /** Writes the refusal down. */
  readonly stages: Pick<Stages, 'settle'>;
  /** What the client will hear of a store that is away: the log must say the same. */
  explain(error: unknown): GatewayError | undefined;
}

export interface UploadCallDeps extends ModelCallDeps {
  /** Where the files of one request lie until it has ended. */
  uploadDirectory(tenantId: string): UploadDirectory;
}

/** A call that came by HTTP. */
class HttpCall implements Call, IncomingRequest {
  readonly request: Request;
  readonly requestId: string;
  readonly caller: Caller;
  readonly client: AbortSignal;
  readonly receivedAt = Date.now();
  readonly startedAt = performance.now();
  readonly traceparent: string | null;
  readonly headers: Record<string, string>;
  readonly attempts: Call['attempts'] = [];
  readonly operationName: OperationName;
  requestedModel = '';
  readonly recallOptions: Call['recallOptions'];
  operation: Call['operation'];
  releaseSlot: Call['releaseSlot'];
  hold: Call['hold'];
  recordingSession: Call['recordingSession'];
  readonly #bodyMemoryBudget: MemoryBudget;
  #bodyReservation: MemoryReservation | undefined;

  constructor(
    exchange: Exchange,
    caller: Caller,
    operationName: OperationName,
    bodyMemoryBudget: MemoryBudget,
  ) {
    const { request } = exchange;
    this.request = request;
    this.requestId = exchange.requestId;
    this.caller = caller;
    this.client = request.signal;
    this.traceparent = request.headers.get('traceparent');
    this.headers = exchange.headers;
    this.operationName = operationName;
    this.recallOptions = {
      cacheControl: request.headers.get('cache-control'),
      idempotencyKey: request.headers.get('idempotency-key'),
    };
    this.#bodyMemoryBudget = bodyMemoryBudget;
  }

  /** Held until the request has ended: the next attempt, or an estimate, may need the body. */
  reserveMemory(bytes: number): void {
    this.#bodyReservation ??= reserveForRequest(this, this.#bodyMemoryBudget);
    this.#bodyReservation.reserve(bytes);
  }
}

/**
 * Answers one request; `read` makes an errand of its body, `tell` a response of the answer. Every
 * call of a model passes here.
 */
export async function callModel(
  exchange: Exchange,
  caller: Caller,
  operationName: OperationName,
  read: (incoming: IncomingRequest) => Promise<Operation>,
  { stages, bodyMemoryBudget }: ModelCallDeps,
  toResponse = respond,
): Promise<Response> {
  const call = new HttpCall(exchange, caller, operationName, bodyMemoryBudget);
  // Refusals carry this header, too; a recalled answer says HIT instead. Speech is kept for an
  // Idempotency-Key only: without one there is nothing to miss.
  const isCacheable = operationName !== 'speech' || call.recallOptions.idempotencyKey !== null;
  if (isCacheable) exchange.headers['x-cache'] = 'MISS';
  return toResponse(exchange, await answer(call, () => read(call), stages));
}

/** The same for a request that brings files. */
export async function callModelWithFiles(
  exchange: Exchange,
  caller: Caller,
  operationName: OperationName,
  read: (incoming: IncomingRequest, uploads: UploadDirectory) => Promise<Operation>,
  deps: UploadCallDeps,
): Promise<Response> {
  const uploads = deps.uploadDirectory(caller.tenantId);
  try {
    return await callModel(
      exchange,
      caller,
      operationName,
      (incoming) => read(incoming, uploads),
      deps,
    );
  } finally {
    await uploads.clear();
  }
}

/** For requests that call no model themselves, such as making a job: refusals are logged, too. */
export async function withLoggedRefusal<Result>(
  exchange: Exchange,
  caller: Caller,
  operationName: OperationName,
  run: (incoming: IncomingRequest) => Promise<Result>,
  { stages, bodyMemoryBudget, explain }: RefusalDeps,
): Promise<Result> {
  const call = new HttpCall(exchange, caller, operationName, bodyMemoryBudget);
  try {
    return await run(call);
  } catch (cause) {
    const error = explain(cause) ?? asGatewayError(cause);
    await stages.settle(call, { kind: 'refused', error });
    throw error;
  } finally {
    call.releaseSlot?.();
  }
}

export function respond(exchange: Exchange, result: Answer): Response {
  const { headers } = exchange;
  if (typeof result === 'string') {
    exchange.responseLength = result.length;
    headers['content-type'] = 'application/json';
    return new Response(result, { headers });
  }
  // Proxies in front of us must not buffer what comes piece by piece.
  headers['x-accel-buffering'] = 'no';
  if ('contentType' in result) {
    headers['content-type'] = result.contentType;
    return new Response(disconnectWhenStalled(exchange, abortOnFailure(result)), { headers });
  }
  headers['content-type'] = 'text/event-stream; charset=utf-8';
  headers['cache-control'] = 'no-cache, no-transform';
  return new Response(disconnectWhenStalled(exchange, result), { headers });
}

/** Bytes handed to the connection need a moment to leave before it is cut. */
const flushMs = 20;

/**
 * Bytes as a connection takes them. When they break off, the connection is cut behind the last of
 * them: a clean end would make a part look like the whole. The runtime prints the error that a body
 * fails with, which the log has told already; so this body fails with null.
 */
function abortOnFailure(result: BytesAnswer): AsyncIterator<Uint8Array> {
  const abort = async () => {
    await Bun.sleep(flushMs);
    return Promise.reject(null);
  };
  return { next: () => result.next().catch(abort), return: () => result.return() };
}
