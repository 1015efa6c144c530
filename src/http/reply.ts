import type { ErrorObject, ErrorShape } from '../contract/errors.ts';
import { errorTable, type GatewayError } from '../core/errors.ts';
import {
  anthropicErrorDetails,
  anthropicErrorType,
  anthropicMessage,
  anthropicStatus,
} from '../dialects/anthropic/client/error.ts';
import type { Exchange } from './routes.ts';

export function json(exchange: Exchange, body: unknown, status = 200): Response {
  return jsonText(exchange, JSON.stringify(body), status);
}

/** Sends JSON that is already text. */
export function jsonText(exchange: Exchange, text: string, status = 200): Response {
  exchange.responseLength = text.length;
  return new Response(text, {
    status,
    headers: { 'content-type': 'application/json', ...exchange.headers },
  });
}

/** The default `retry-after`. Without the header, SDKs retry almost immediately. */
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
  if (error.isProviderLimit) headers['x-tollgate-limited-by'] = 'provider';
  const body = errorBody(exchange.errorShape, error, exchange.requestId);
  return new Response(JSON.stringify(body), { status: statusFor(exchange, error), headers });
}

/**
 * Codex retries a 503 29 times and then shows its message. It retries a 429 only 5 times and then
 * shows just the status.
 */
function statusFor({ errorShape, request }: Exchange, error: GatewayError): number {
  if (errorShape === 'messages') return anthropicStatus(error);
  if (!error.isProviderLimit) return error.status;
  return request.headers.get('originator')?.startsWith('codex') ? 503 : error.status;
}

/** Sets `retry-after` in seconds and `retry-after-ms`, which some SDKs prefer, in milliseconds. */
export function setRetryAfter(
  headers: Record<string, string>,
  waitSeconds = defaultRetrySeconds,
): void {
  headers['retry-after'] = String(Math.max(1, Math.ceil(waitSeconds)));
  headers['retry-after-ms'] = String(Math.max(1, Math.ceil(waitSeconds * 1000)));
}

/** Messages are truncated, because they may quote long values from the request. */
const messageLengthMax = 2_000;
const paramLengthMax = 500;

function errorBody(shape: ErrorShape, error: GatewayError, requestId: string): ErrorObject {
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
      return { error: { message, type: symbol, code: symbol, param } };
    case 'chat':
      return { error: { message, type: symbol, code: status, param } };
  }
}

function truncate(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax).toWellFormed()}…`;
}

/** Returns security headers that restrict a page to these sources. */
export function pageHeaders(...sources: readonly string[]): Readonly<Record<string, string>> {
  const restrictions = ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"];
  return {
    'content-security-policy': ["default-src 'none'", ...sources, ...restrictions].join('; '),
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}
