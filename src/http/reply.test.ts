import { expect, test } from 'bun:test';
import { GatewayError } from '../core/errors.ts';
import { errorReply } from './reply.ts';
import { Exchange } from './routes.ts';

function waits(error: GatewayError): (string | null)[] {
  const { headers } = errorReply(new Exchange(new Request('http://gateway/v1/key')), error);
  return ['retry-after', 'retry-after-ms', 'x-should-retry'].map((name) => headers.get(name));
}

test('an error that passes by itself says when to come back, even where nobody knows', () => {
  const gone = (more = {}) => new GatewayError('service_unavailable', 'Gone.', more);
  expect(waits(gone())).toEqual(['5', '5000', null]);
  expect(waits(gone({ retryAfterSeconds: 1.2 }))).toEqual(['2', '1200', null]);
  expect(waits(new GatewayError('rate_limit_exceeded', 'Often.'))).toEqual(['5', '5000', null]);
  expect(waits(new GatewayError('upstream_error', 'Full.', { status: 503 }))).toEqual([
    '5',
    '5000',
    null,
  ]);
});

test('an error that no wait mends names no wait', () => {
  expect(waits(new GatewayError('forbidden', 'No.'))).toEqual([null, null, 'false']);
  expect(waits(new GatewayError('internal_error', 'Oh.'))).toEqual([null, null, null]);
});
