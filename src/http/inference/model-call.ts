import type { Answer, Call, Operation } from '../../call.ts';
import type { Caller } from '../../core/caller.ts';
import { asGatewayError, type GatewayError } from '../../core/errors.ts';
import type { UploadDirectory } from '../../core/form.ts';
import type { OperationName } from '../../core/request-info.ts';
import { escapeLineBreaks } from '../../dialects/event-stream.ts';
import { handleCall, type Stages } from '../../gateway.ts';
import {
  type FairShareBudget,
  type MemoryReservation,
  reserveForRequest,
} from '../../limits/memory-budget.ts';
import type { IncomingRequest } from '../body/body.ts';
import type { Exchange } from '../routes.ts';
import { disconnectWhenStalled } from '../stalled-client.ts';

export interface ModelCallDeps {
  readonly bodyBytesMax: number;
  /** Bounds the memory of long request bodies while their requests run. */
  readonly bodyMemoryBudget: FairShareBudget;
  readonly stages: Stages;
}

export interface RejectionDeps extends Pick<ModelCallDeps, 'bodyMemoryBudget'> {
  /** Logs the rejected request. */
  readonly stages: Pick<Stages, 'settle'>;
  /** Maps an outage of the store to the error that the client gets, so that the log matches. */
  mapError(error: unknown): GatewayError | undefined;
}

export interface UploadCallDeps extends ModelCallDeps {
  /** Creates the directory for the files of one request. */
  uploadDirectory(tenantId: string): UploadDirectory;
}

/** A call that arrived by HTTP. */
class HttpCall implements Call, IncomingRequest {
  readonly request: Request;
  readonly requestId: string;
  readonly caller: Caller;
  readonly clientSignal: AbortSignal;
  readonly receivedAt = Date.now();
  readonly startedAt = performance.now();
  readonly traceparent: string | null;
  readonly headers: Record<string, string>;
  readonly attempts: Call['attempts'] = [];
  readonly operationName: OperationName;
  readonly showsUsd: boolean;
  requestedModel = '';
  readonly replayOptions: Call['replayOptions'];
  operation: Call['operation'];
  releaseSlot: Call['releaseSlot'];
  hold: Call['hold'];
  inlinedImages: Call['inlinedImages'];
  recordingSession: Call['recordingSession'];
  readonly #bodyMemoryBudget: FairShareBudget;
  #bodyReservation: MemoryReservation | undefined;

  constructor(
    exchange: Exchange,
    caller: Caller,
    operationName: OperationName,
    bodyMemoryBudget: FairShareBudget,
  ) {
    const { request } = exchange;
    this.request = request;
    this.requestId = exchange.requestId;
    this.caller = caller;
    this.clientSignal = request.signal;
    this.traceparent = request.headers.get('traceparent');
    this.headers = exchange.headers;
    this.showsUsd = exchange.openRouterStyle;
    this.operationName = operationName;
    this.replayOptions = {
      cacheControl: request.headers.get('cache-control'),
      idempotencyKey: request.headers.get('idempotency-key'),
    };
    this.#bodyMemoryBudget = bodyMemoryBudget;
  }

  clientHeader(name: string): string | null {
    return this.request.headers.get(name);
  }

  /** Read on use, because most configurations don't need it. */
  get sessionId(): string | null {
    return this.clientHeader('x-session-id');
  }

  /**
   * Reserves memory until the request ends, because a fallback or an estimate may need the body.
   */
  reserveMemory(bytes: number): void {
    this.#bodyReservation ??= reserveForRequest(this, this.#bodyMemoryBudget);
    this.#bodyReservation.reserve(bytes);
  }
}

/**
 * Handles a request that calls a model: `read` turns its body into an operation, and `toResponse`
 * turns the answer into a response. Every model call goes through here.
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
  // Set on errors, too; a replay overwrites it with HIT. Speech is stored only for an
  // Idempotency-Key, so without one there is no cache to miss.
  const isCacheable = operationName !== 'speech' || call.replayOptions.idempotencyKey !== null;
  if (isCacheable) exchange.headers['x-cache'] = 'MISS';
  return toResponse(exchange, await handleCall(call, () => read(call), stages));
}

/** Like `callModel`, for a request with files. */
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

/**
 * Logs the rejection of a request that doesn't call a model itself, such as one that creates a job.
 */
export async function withLoggedRejection<Result>(
  exchange: Exchange,
  caller: Caller,
  operationName: OperationName,
  run: (incoming: IncomingRequest) => Promise<Result>,
  { stages, bodyMemoryBudget, mapError }: RejectionDeps,
): Promise<Result> {
  const call = new HttpCall(exchange, caller, operationName, bodyMemoryBudget);
  try {
    return await run(call);
  } catch (cause) {
    const error = mapError(cause) ?? asGatewayError(cause);
    await stages.settle(call, { kind: 'rejected', error });
    throw error;
  } finally {
    call.releaseSlot?.();
  }
}

export function respond(exchange: Exchange, answer: Answer): Response {
  const { headers } = exchange;
  if (answer.kind === 'reply') {
    exchange.responseLength = answer.body.length;
    headers['content-type'] = 'application/json';
    return new Response(answer.body, { headers });
  }
  // Tells proxies not to buffer a stream.
  headers['x-accel-buffering'] = 'no';
  if (answer.kind === 'bytes') {
    const { bytes } = answer;
    headers['content-type'] = bytes.contentType;
    return new Response(disconnectWhenStalled(exchange, bytes), { headers });
  }
  headers['content-type'] = 'text/event-stream; charset=utf-8';
  headers['cache-control'] = 'no-cache, no-transform';
  const body = disconnectWhenStalled(exchange, answer.events, { encode: escapeLineBreaks });
  return new Response(body, { headers });
}
