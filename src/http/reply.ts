import { errorTable, type GatewayError } from '../core/errors.ts';
import {
  anthropicErrorDetails,
  anthropicErrorType,
  anthropicMessage,
  anthropicStatus,
} from '../dialects/anthropic/client/error.ts';
import type { ErrorShape, Exchange } from './routes.ts';

export function json(exchange: Exchange, body: unknown, status = 200): Response {
  const text = JSON.stringify(body);
  exchange.responseLength = text.length;
  return new Response(text, {
    status,
    headers: { 'content-type': 'application/json', ...exchange.headers },
  });
}

/** Told where nobody knows how long it takes: SDKs that are told nothing come back at once. */
const defaultRetrySeconds = 5;

export function errorReply(exchange: Exchange, error: GatewayError): Response {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    ...exchange.headers,
  };
  if (!error.retryHelps) headers['x-should-retry'] = 'false';
  const isTemporary = error.status === 429 || error.status === 503;
  const waitSeconds = error.retryAfterSeconds ?? (isTemporary ? defaultRetrySeconds : null);
  if (waitSeconds !== null) setRetryAfter(headers, waitSeconds);
  const body = errorBody(exchange.errorShape, error, exchange.requestId);
  const status = exchange.errorShape === 'messages' ? anthropicStatus(error) : error.status;
  return new Response(JSON.stringify(body), { status, headers });
}

/** When to come back, in seconds, and in milliseconds for clients that read those. */
export function setRetryAfter(
  headers: Record<string, string>,
  waitSeconds = defaultRetrySeconds,
): void {
  headers['retry-after'] = String(Math.max(1, Math.ceil(waitSeconds)));
  headers['retry-after-ms'] = String(Math.max(1, Math.ceil(waitSeconds * 1000)));
}

/** A sentence may quote the request, and that can be as long as a body. */
const messageLengthMax = 2_000;
const paramLengthMax = 500;

function errorBody(shape: ErrorShape, error: GatewayError, requestId: string): object {
  const { symbol, status } = error;
  const message = truncate(error.message, messageLengthMax);
  const param = error.param === null ? null : truncate(error.param, paramLengthMax);
  switch (shape) {
    case 'images':
      return { error: { message, type: errorTable[symbol].imageType, code: symbol } };
    case 'messages':
      return {
        type: 'error',
        error: {
          type: anthropicErrorType(error),
          message: truncate(anthropicMessage(error), messageLengthMax),
          ...anthropicErrorDetails(error),
        },
        request_id: requestId,
      };
    case 'plain':
      return { error: { message, type: symbol, code: status, param } };
  }
}

function truncate(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax).toWellFormed()}…`;
}

/** Tells browsers that a page of ours may use the named sources and nothing else. */
export function pageHeaders(...sources: readonly string[]): Readonly<Record<string, string>> {
  const restrictions = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];
  return {
    'content-security-policy': ["default-src 'none'", ...sources, ...restrictions].join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}
