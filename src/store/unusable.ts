import { GatewayError } from '../core/errors.ts';

/** Why stored data cannot be used, in a sentence: a start ends with it, and a request with 503. */
export function unusable(message: string, cause?: unknown): GatewayError {
  return new GatewayError('service_unavailable', message, { cause });
}
