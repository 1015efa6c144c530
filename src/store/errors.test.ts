import { expect, test } from 'bun:test';
import pg from 'pg';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { toUnreachableError } from './errors.ts';

const withCode = (code: string) => Object.assign(new Error('told by the driver'), { code });

test.each([
  '57P01',
  '08006',
  '53300',
  '25006',
  '25P03',
  // A deadlock, and a change that another one overtook: undone as a whole, to be tried again.
  '40P01',
  '40001',
  // A table that stays locked, by VACUUM FULL for example.
  '55P03',
  // A password that was changed, a login that was taken away, a database that was renamed.
  '28P01',
  '28000',
  '3D000',
  'ECONNREFUSED',
  'SQLITE_FULL',
  'SQLITE_IOERR_WRITE',
])('%s is a store that is away', (code) => {
  const cause = withCode(code);
  const error = toUnreachableError(cause);
  expect(error).toBeInstanceOf(GatewayError);
  expect(error).toMatchObject({ symbol: 'service_unavailable', status: 503, cause });
  expect(error?.message).not.toContain('driver');
});

test.each([
  'Connection terminated unexpectedly',
  'timeout exceeded when trying to connect',
  'Query read timeout',
])('so is «%s»', (message) => {
  expect(toUnreachableError(new Error(message))?.status).toBe(503);
});

const failureAt = (server: pg.ClientConfig): Promise<unknown> =>
  new pg.Client(server).connect().catch((error: unknown) => error);

test('a socket that is gone counts as away until its server is back', async () => {
  const error = await failureAt({ host: '/run/nobody-listens-here' });
  expect(toUnreachableError(error)?.status).toBe(503);
});

test('a server that hangs up during the TLS handshake counts as away', async () => {
  const data = (socket: Bun.Socket, said: Buffer) => {
    // Eight bytes ask whether the server knows TLS; it says so and hangs up.
    if (said.length === 8) socket.write('S');
    else socket.end();
  };
  using server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data } });
  const { hostname: host, port } = server;
  expect(toUnreachableError(await failureAt({ host, port, ssl: true }))?.status).toBe(503);
});

test.each([
  ['a statement that is wrong', withCode('42601')],
  ['a file that is missing', withCode('ENOENT')],
  ['a row that is there already', withCode('23505')],
  ['a mistake of ours', new TypeError('undefined is not a function')],
  ['what was explained already', invalidRequest('name is required.', 'name')],
  ['no error at all', 'Connection terminated unexpectedly'],
])('%s is not', (_, error) => {
  expect(toUnreachableError(error)).toBeUndefined();
});
