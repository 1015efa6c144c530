import { expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import { errorReply } from './reply.ts';
import { Exchange } from './routes.ts';

function retryHeaders(error: GatewayError): (string | null)[] {
  const { headers } = errorReply(new Exchange(new Request('http://gateway/v1/key')), error);
  return ['retry-after', 'retry-after-ms', 'x-should-retry'].map((name) => headers.get(name));
}

test('errorReply sets retry-after for temporary errors, even without a known wait', () => {
  const unavailable = (more = {}) => new GatewayError('service_unavailable', 'Down.', more);
  expect(retryHeaders(unavailable())).toEqual(['5', '5000', null]);
  expect(retryHeaders(unavailable({ retryAfterSeconds: 1.2 }))).toEqual(['2', '1200', null]);
  expect(retryHeaders(new GatewayError('rate_limit_exceeded', 'Too many.'))).toEqual([
    '5',
    '5000',
    null,
  ]);
  expect(retryHeaders(new GatewayError('upstream_error', 'Full.', { status: 503 }))).toEqual([
    '5',
    '5000',
    null,
  ]);
});

test('errorReply sets no retry-after for errors that waiting does not resolve', () => {
  expect(retryHeaders(new GatewayError('forbidden', 'No.'))).toEqual([null, null, 'false']);
  expect(retryHeaders(new GatewayError('internal_error', 'Oh.'))).toEqual([null, null, null]);
});
