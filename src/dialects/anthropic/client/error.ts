/** Our errors as Anthropic's clients know them: type, status, message and details. */
import type { GatewayError } from '../../../core/errors.ts';

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** Anthropic's name for an error, by its status. */
export function anthropicErrorType({ status }: GatewayError): string {
  return types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
}

/** An overload has a status of its own at Anthropic, by which Claude Code knows to wait. */
export function anthropicStatus({ status, isOverload }: GatewayError): number {
  return isOverload ? 529 : status;
}

/** How other providers say that a conversation has outgrown its model. */
const contextOverflow = new RegExp(
  [
    'context (?:length|window|size)',
    'maximum (?:prompt|model|input) length',
    'reduce the length of the (?:messages|prompt|input)',
    '(?:input is|prompt) too long',
    '(?:input|prompt) token count .*exceeds',
    // Amazon.
    'input tokens exceed',
    '(?:prompt|input) exceeds max',
    'exceeded model token limit',
    'too many tokens',
  ].join('|'),
  'i',
);
/** The request asked for too long an answer: a shorter conversation would not help. */
const maxTokensTooLarge = /max_(?:completion_|output_)?tokens\W.{0,40}too large/i;

/**
 * Claude Code shortens a conversation only when it reads Anthropic's sentence about its length,
 * and just shows any other error. So that sentence is put before another provider's words.
 */
export function anthropicMessage({ status, message }: GatewayError): string {
  if (status !== 400) return message;
  const start = message.slice(0, providersLengthMax);
  const isContextOverflow = contextOverflow.test(start) && !maxTokensTooLarge.test(start);
  return isContextOverflow && !/prompt is too long/i.test(start)
    ? `prompt is too long: ${message}`
    : message;
}

/** Messages of our own may quote megabytes of a request: only the beginning is searched. */
const providersLengthMax = 1_000;

/** On this code, Anthropic's SDK gives the thread up and sends the whole conversation. */
const noThreads = {
  details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
};

export function anthropicErrorDetails({ param }: GatewayError): object {
  return param === 'thread' ? noThreads : {};
}
