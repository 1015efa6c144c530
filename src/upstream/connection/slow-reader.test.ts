/** Tests backpressure and closing as the server observes them. */
import { afterEach, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { ConnectionPool } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

const servers: Server[] = [];
const sockets: Socket[] = [];
const closed: Promise<string>[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  closed.length = 0;
  for (const server of servers.splice(0)) server.close();
});

/** Starts a server that answers every request with this text and never closes a connection. */
async function serve(text: string): Promise<ConnectionPool> {
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.on('data', () => socket.write(text));
    closed.push(new Promise((resolve) => socket.once('close', () => resolve('closed'))));
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return new ConnectionPool({ hostname: '127.0.0.1', port: address.port, isSecure: false });
}

function start(connections: ConnectionPool): RoundTrip {
  const trip = new RoundTrip({
    start: formatRequestHead('/v1', 'host: here\r\n', 0),
    rest: undefined,
  });
  connections.start(trip);
  return trip;
}

async function bytesOf(trip: RoundTrip): Promise<number> {
  for (let bytes = 0; ; ) {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array | undefined>();
    trip.read(resolve, reject);
    const chunk = await promise;
    if (!chunk) return bytes;
    bytes += chunk.length;
  }
}

test('Connection makes the server wait while nothing is read', async () => {
  // Many times the socket buffers of both sides.
  const length = 64 * 1024 * 1024;
  const head = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;
  const connections = await serve(head + 'x'.repeat(length));
  const slow = start(connections);
  await slow.response;
  const [unread] = sockets;
  // Meanwhile, other round trips transfer the same amount twice.
  expect(await bytesOf(start(connections))).toBe(length);
  expect(await bytesOf(start(connections))).toBe(length);
  expect(unread?.writableLength).toBeGreaterThan(0);
  expect(await bytesOf(slow)).toBe(length);
});

test.each([
  ['has connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
  ['is followed by extra bytes', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay'],
])('Connection closes after a response that %s', async (_, text) => {
  const connections = await serve(text);
  const trip = start(connections);
  expect(await (await trip.response).text()).toBe('ok');
  expect(await closed[0]).toBe('closed');
});
