import { expect, test } from 'bun:test';
import { GatewayError } from '../../core/errors.ts';
import { anthropicErrorType, anthropicMessage } from './error-type.ts';

test.each([
  [404, 'not_found_error'],
  [415, 'invalid_request_error'],
  [422, 'invalid_request_error'],
  [500, 'api_error'],
  [502, 'api_error'],
  [503, 'overloaded_error'],
])('an error of status %i is %s', (status, type) => {
  expect(anthropicErrorType({ status } as GatewayError)).toBe(type);
});

test('a refusal that quotes megabytes of a request is not searched for them', () => {
  const message = 'prompt token count '.repeat(200_000);
  expect(anthropicMessage(new GatewayError('invalid_request_error', message))).toBe(message);
});
