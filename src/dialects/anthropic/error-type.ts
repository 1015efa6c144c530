import type { GatewayError } from '../../core/errors.ts';

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

/** Anthropic's own for servers that have too much to do, by which Claude Code knows to wait. */
export function anthropicStatus({ status, isOverload }: GatewayError): number {
  return isOverload ? 529 : status;
}

/** How other providers say that a conversation has outgrown its model. */
const outgrown = new RegExp(
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
/** Said of a wish for too long an answer; a shorter conversation would not help. */
const wishTooLarge = /max_(?:completion_|output_)?tokens\W.{0,40}too large/i;

/**
 * Claude Code makes a conversation shorter when it reads Anthropic's words for it and otherwise
 * only shows the error, so these words come before any other provider's.
 */
export function anthropicMessage({ status, message }: GatewayError): string {
  if (status !== 400) return message;
  const start = message.slice(0, providersLengthMax);
  const isOutgrown = outgrown.test(start) && !wishTooLarge.test(start);
  return isOutgrown && !/prompt is too long/i.test(start)
    ? `prompt is too long: ${message}`
    : message;
}

/** Ours may quote megabytes of a request, which would be searched again and again. */
const providersLengthMax = 1_000;

/** On this code, Anthropic's SDK gives the thread up and sends the whole conversation. */
const noThreads = {
  details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
};

export function anthropicErrorDetails({ param }: GatewayError): object {
  return param === 'thread' ? noThreads : {};
}
