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
 * Returns the status, with Anthropic's 529 for an overload, after which Claude Code waits and
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

/** Messages about the output limit, for which a shorter prompt wouldn't help. */
const maxTokensTooLarge = /max_(?:completion_|output_)?tokens\W.{0,40}too large/i;

/**
 * Starts another provider's message about a full context window with Anthropic's phrase. Claude
 * Code compacts a conversation only for this phrase and just shows any other error.
 */
export function anthropicMessage({ status, message }: GatewayError): string {
  if (status !== 400) return message;
  const start = message.slice(0, searchedLengthMax);
  const isContextOverflow = contextOverflow.test(start) && !maxTokensTooLarge.test(start);
  return isContextOverflow && !/prompt is too long/i.test(start)
    ? `prompt is too long: ${message}`
    : message;
}

/** Only the start is searched, because the gateway's own messages may quote megabytes. */
const searchedLengthMax = 1_000;

/** For this code, Anthropic's SDK abandons the thread and sends the full conversation. */
const noThreads = {
  details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
};

export function anthropicErrorDetails({ param }: GatewayError): object {
  return param === 'thread' ? noThreads : {};
}
