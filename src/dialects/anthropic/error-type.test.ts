import { expect, test } from 'bun:test';
import type { GatewayError } from '../../core/errors.ts';
import { anthropicErrorType } from './error-type.ts';

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
