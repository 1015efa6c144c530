/** What endpoints that call models share: the request becomes a call, its answer a response. */

import type { Answer, Call, Errand } from '../../call.ts';
import type { OperationName } from '../../core/ask.ts';
import type { Caller } from '../../core/caller.ts';
import { asGatewayError, type GatewayError } from '../../core/errors.ts';
import { type RoomShare, type SharedRoom, shareUntilLeft } from '../../core/shared-room.ts';
import type { UploadTray } from '../../core/upload.ts';
import { answer, type Steps } from '../../gateway.ts';
import type { BytesAnswer } from '../../upstream/bytes-answer.ts';
import type { Posted } from '../body/body.ts';
import type { Exchange } from '../exchange.ts';
import { cutWhenStalled } from '../stalled-client.ts';

export interface ModelCallParts {
  readonly bodyBytesMax: number;
  /** Counts long bodies while their requests run. */
  readonly bodyRoom: SharedRoom;
  /** The steps of the story. */
  readonly steps: Steps;
}

export interface RefusalParts extends Pick<ModelCallParts, 'bodyRoom'> {
  /** Writes the refusal down. */
  readonly steps: Pick<Steps, 'settle'>;
  /** What the client will hear of a store that is away: the log must say the same. */
  explain(thrown: unknown): GatewayError | undefined;
}

export interface UploadCallParts extends ModelCallParts {
  /** Where the files of one request lie until it has ended. */
  tray(tenantId: string): UploadTray;
}

/** A call that came by HTTP. */
class WebCall implements Call, Posted {
  readonly request: Request;
  readonly requestId: string;
  readonly caller: Caller;
  readonly client: AbortSignal;
  readonly receivedAt = Date.now();
  readonly startedAt = performance.now();
  readonly traceparent: string | null;
  readonly headers: Record<string, string>;
  readonly trail: Call['trail'] = [];
  readonly operation: OperationName;
  modelNamed = '';
  readonly wishes: Call['wishes'];
  errand: Call['errand'];
  leave: Call['leave'];
  hold: Call['hold'];
  memory: Call['memory'];
  readonly #bodyRoom: SharedRoom;
  #bodyShare: RoomShare | undefined;

  constructor(exchange: Exchange, caller: Caller, operation: OperationName, bodyRoom: SharedRoom) {
    const { request } = exchange;
    this.request = request;
    this.requestId = exchange.requestId;
    this.caller = caller;
    this.client = request.signal;
    this.traceparent = request.headers.get('traceparent');
    this.headers = exchange.headers;
    this.operation = operation;
    this.wishes = {
      cacheControl: request.headers.get('cache-control'),
      idempotencyKey: request.headers.get('idempotency-key'),
    };
    this.#bodyRoom = bodyRoom;
  }

  /** Held until the request has ended: the next attempt, or an estimate, may need the body. */
  claimRoom(bytes: number): void {
    this.#bodyShare ??= shareUntilLeft(this, this.#bodyRoom);
    this.#bodyShare.claim(bytes);
  }
}

/**
 * Answers one request; `read` makes an errand of its body, `tell` a response of the answer. Every
 * call of a model passes here.
 */
export async function callModel(
  exchange: Exchange,
  caller: Caller,
  operation: OperationName,
  read: (posted: Posted) => Promise<Errand>,
  { steps, bodyRoom }: ModelCallParts,
  tell = respond,
): Promise<Response> {
  const call = new WebCall(exchange, caller, operation, bodyRoom);
  // Refusals carry this header, too; a recalled answer says HIT instead. Speech is kept for an
  // Idempotency-Key only: without one there is nothing to miss.
  const isKept = operation !== 'speech' || call.wishes.idempotencyKey !== null;
  if (isKept) exchange.headers['x-cache'] = 'MISS';
  return tell(exchange, await answer(call, () => read(call), steps));
}

/** The same for a request that brings files. */
export async function callModelWithFiles(
  exchange: Exchange,
  caller: Caller,
  operation: OperationName,
  read: (posted: Posted, tray: UploadTray) => Promise<Errand>,
  parts: UploadCallParts,
): Promise<Response> {
  const tray = parts.tray(caller.tenantId);
  try {
    return await callModel(exchange, caller, operation, (posted) => read(posted, tray), parts);
  } finally {
    await tray.clear();
  }
}

/** For requests that call no model themselves, such as making a job: refusals are logged, too. */
export async function loggingRefusal<Made>(
  exchange: Exchange,
  caller: Caller,
  operation: OperationName,
  make: (posted: Posted) => Promise<Made>,
  { steps, bodyRoom, explain }: RefusalParts,
): Promise<Made> {
  const call = new WebCall(exchange, caller, operation, bodyRoom);
  try {
    return await make(call);
  } catch (thrown) {
    const error = explain(thrown) ?? asGatewayError(thrown);
    await steps.settle(call, { how: 'refused', error });
    throw error;
  } finally {
    call.leave?.();
  }
}

export function respond(exchange: Exchange, answered: Answer): Response {
  const { headers } = exchange;
  if (typeof answered === 'string') {
    exchange.answerLength = answered.length;
    headers['content-type'] = 'application/json';
    return new Response(answered, { headers });
  }
  // Proxies in front of us must not buffer what comes piece by piece.
  headers['x-accel-buffering'] = 'no';
  if ('contentType' in answered) {
    headers['content-type'] = answered.contentType;
    return new Response(cutWhenStalled(exchange, cutOnFailure(answered)), { headers });
  }
  headers['content-type'] = 'text/event-stream; charset=utf-8';
  headers['cache-control'] = 'no-cache, no-transform';
  return new Response(cutWhenStalled(exchange, answered), { headers });
}

/** Bytes handed to the connection need a moment to leave before it is cut. */
const leaveMs = 20;

/**
 * Bytes as a connection takes them. When they break off, the connection is cut behind the last of
 * them: a clean end would make a part look like the whole. The runtime prints the error that a body
 * fails with, which the log has told already; so this body fails with null.
 */
function cutOnFailure(answered: BytesAnswer): AsyncIterator<Uint8Array> {
  const cut = async () => {
    await Bun.sleep(leaveMs);
    return Promise.reject(null);
  };
  return { next: () => answered.next().catch(cut), return: () => answered.return() };
}
