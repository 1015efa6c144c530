import { expect, test } from 'bun:test';
import { GatewayError } from '../../../core/errors.ts';
import { anthropicErrorType, anthropicMessage } from './error.ts';

test.each([
  [404, 'not_found_error'],
  [415, 'invalid_request_error'],
  [422, 'invalid_request_error'],
  [500, 'api_error'],
  [502, 'api_error'],
  [503, 'overloaded_error'],
])('anthropicErrorType maps status %i to %s', (status, type) => {
  expect(anthropicErrorType({ status } as GatewayError)).toBe(type);
});

test('anthropicMessage marks an exceeded context only in invalid request errors', () => {
  const content = 'Too many tokens, please wait before trying again.';
  const rejection = new GatewayError('invalid_request_error', content);
  expect(anthropicMessage(rejection)).toBe(`prompt is too long: ${content}`);
  for (const symbol of ['rate_limit_exceeded', 'upstream_error'] as const) {
    expect(anthropicMessage(new GatewayError(symbol, content))).toBe(content);
  }
});

test('anthropicMessage searches only the start of a message that quotes megabytes', () => {
  const message = 'prompt token count '.repeat(200_000);
  expect(anthropicMessage(new GatewayError('invalid_request_error', message))).toBe(message);
});
