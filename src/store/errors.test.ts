import { expect, test } from 'bun:test';
import pg from 'pg';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { toOutageError } from './errors.ts';

const withCode = (code: string) => Object.assign(new Error('message of the driver'), { code });

test.each([
  '57P01',
  '08006',
  '53300',
  '25006',
  '25P03',
  // A deadlock and a serialization failure, which were rolled back and can be retried.
  '40P01',
  '40001',
  // A lock timeout, for example during VACUUM FULL.
  '55P03',
  // A changed password, a revoked login, a renamed database.
  '28P01',
  '28000',
  '3D000',
  'ECONNREFUSED',
  'SQLITE_FULL',
  'SQLITE_IOERR_WRITE',
])('toOutageError treats the code %s as an outage', (code) => {
  const cause = withCode(code);
  const error = toOutageError(cause);
  expect(error).toBeInstanceOf(GatewayError);
  expect(error).toMatchObject({ symbol: 'service_unavailable', status: 503, cause });
  expect(error?.message).not.toContain('driver');
});

test.each([
  'Connection terminated unexpectedly',
  'timeout exceeded when trying to connect',
  'Query read timeout',
])('toOutageError treats the message "%s" as an outage', (message) => {
  expect(toOutageError(new Error(message))?.status).toBe(503);
});

const failureAt = (server: pg.ClientConfig): Promise<unknown> =>
  new pg.Client(server).connect().catch((error: unknown) => error);

test('toOutageError treats a missing socket as an outage', async () => {
  const error = await failureAt({ host: '/run/nobody-listens-here' });
  expect(toOutageError(error)?.status).toBe(503);
});

test('toOutageError treats a server that hangs up during the TLS handshake as an outage', async () => {
  const data = (socket: Bun.Socket, received: Buffer) => {
    // The client requests TLS with 8 bytes. The server accepts and hangs up.
    if (received.length === 8) socket.write('S');
    else socket.end();
  };
  using server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data } });
  const { hostname: host, port } = server;
  expect(toOutageError(await failureAt({ host, port, ssl: true }))?.status).toBe(503);
});

test.each([
  ['an invalid statement', withCode('42601')],
  ['a missing file', withCode('ENOENT')],
  ['a duplicate row', withCode('23505')],
  ['a programming error', new TypeError('undefined is not a function')],
  ['a GatewayError', invalidRequest('name is required.', 'name')],
  ['a plain string', 'Connection terminated unexpectedly'],
])('toOutageError returns undefined for %s', (_, error) => {
  expect(toOutageError(error)).toBeUndefined();
});
