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

/** On this code, Anthropic's SDK gives the thread up and sends the whole conversation. */
const noThreads = {
  details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] },
};

export function anthropicErrorDetails({ param }: GatewayError): object {
  return param === 'thread' ? noThreads : {};
}
