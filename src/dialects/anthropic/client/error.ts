/** Writes gateway errors in Anthropic's format. */
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

/** Returns Anthropic's name for an error, by its status. */
export function anthropicErrorType({ status }: GatewayError): string {
  return types[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
}

/**
 * Returns the error's status, or Anthropic's 529 for an overload. For 529, Claude Code waits and
 * retries.
 */
export function anthropicStatus({ status, isOverload }: GatewayError): number {
  return isOverload ? 529 : status;
}

/** Other providers' messages about a prompt that exceeds the context window. */
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

/** Messages about the output limit. A shorter prompt wouldn't prevent these errors. */
const maxTokensTooLarge = /max_(?:completion_|output_)?tokens\W.{0,40}too large/i;

/**
 * Adds Anthropic's phrase to the start of another provider's message about an exceeded context
 * window. Claude Code compacts a conversation only if the message has this phrase. It just shows
 * any other error.
 */
export function anthropicMessage({ status, message }: GatewayError): string {
  if (status !== 400) return message;
  const start = message.slice(0, searchedLengthMax);
  const isContextOverflow = contextOverflow.test(start) && !maxTokensTooLarge.test(start);
  return isContextOverflow && !/prompt is too long/i.test(start)
    ? `prompt is too long: ${message}`
    : message;
}

/**
 * Only this many characters are searched, because the gateway's own messages may quote megabytes.
 */
const searchedLengthMax = 1_000;

/**
 * When Anthropic's SDK receives this code, it abandons the thread and sends the full conversation.
 */
const noThreads = {
  details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
};

export function anthropicErrorDetails({ param }: GatewayError): object {
  return param === 'thread' ? noThreads : {};
}
