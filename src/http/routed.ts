/** What endpoints that call models have in common: a call for the story, an answer for the web. */
import type { OperationName } from '../core/ask.ts';
import type { Caller } from '../core/caller.ts';
import { type Answer, answer, type Errand, type Steps } from '../gateway.ts';
import { type JsonBody, readJson } from './body.ts';
import { cutOnFailure } from './cut-bytes.ts';
import type { Exchange } from './exchange.ts';

export interface RoutedParts {
  readonly bodyBytesMax: number;
  /** The steps of the story. */
  readonly steps: Steps;
}

/** A call's body. The model that it names goes into the log even if the rest is refused. */
export async function readCall(exchange: Exchange, bytesMax: number): Promise<JsonBody> {
  const body = await readJson(exchange.request, bytesMax);
  const { model } = body.value;
  if (typeof model === 'string') exchange.modelNamed = model;
  return body;
}

/** Tells the story of one request, from the errand that `read` finds in it to its answer. */
export async function route(
  exchange: Exchange,
  caller: Caller,
  operation: OperationName,
  read: () => Promise<Errand>,
  { steps }: RoutedParts,
): Promise<Response> {
  const { requestId, request, headers } = exchange;
  const call = {
    requestId,
    caller,
    client: request.signal,
    receivedAt: Date.now(),
    startedAt: performance.now(),
    traceparent: request.headers.get('traceparent'),
    headers,
    trail: [],
    operation,
    get modelNamed() {
      return exchange.modelNamed;
    },
    errand: undefined,
    hold: undefined,
    memory: undefined,
    wishes: {
      cacheControl: request.headers.get('cache-control'),
      idempotencyKey: request.headers.get('idempotency-key'),
    },
  };
  return respond(exchange, await answer(call, read, steps));
}

function respond(exchange: Exchange, answered: Answer): Response {
  if (typeof answered === 'string') {
    return new Response(answered, {
      headers: { 'content-type': 'application/json', ...exchange.headers },
    });
  }
  if ('contentType' in answered) {
    const headers = { 'content-type': answered.contentType, ...exchange.headers };
    return new Response(cutOnFailure(answered), { headers });
  }
  return new Response(answered, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      // Proxies in front of us must not collect the words of a stream.
      'x-accel-buffering': 'no',
      ...exchange.headers,
    },
  });
}
