/** Tests that certificates are checked before anything is sent. */
import { afterEach, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer as createPlainServer, type Server, type Socket } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { authority, key, nameLeaf } from '../../../tests/support/certificates.ts';
import { within } from '../../../tests/support/wait-until.ts';
import { failureCode } from '../../core/errors.ts';
import { isUntrusted } from '../guard/pinned-call.ts';
import { Connection, type ConnectionOwner } from './connection.ts';
import { ConnectionPool } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

/** A certificate for the address 127.0.0.1. */
const addressLeaf = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUdwDM+luMFwzZZ8YuwGRqYisgYyswCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHVGVzdCBDQTAgFw0yNjExMTcwMTA3NDVaGA8yMTI2MTAyNDAx
MDc0NVowEjEQMA4GA1UEAwwHaXAgbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABANp5bKLO8HMZ9K6N8OjR46AVcAA3dXxdqVVpyp4JanV/I+FaaVXPLVLKK5G
MlI5wjK0iZtrut9t2sj1x1/c8FqjUzBRMA8GA1UdEQQIMAaHBH8AAAEwHQYDVR0O
BBYEFIpzTgwgZWYdjHJJyixCzLy/8nGwMB8GA1UdIwQYMBaAFFzb0SYg7D7Amhrd
jIC0Rsf3G8mNMAoGCCqGSM49BAMCA0gAMEUCIFnWItTwsXHIqeTD3/IWfCelbdtU
lltbP2vpfcWld07PAiEAlUqY8vADk+g9WHRALIFhFtSjdW+Gov8E5R095uEj1CA=
-----END CERTIFICATE-----
`;

/** A certificate for the name localhost that expired in February 2020. */
const expiredLeaf = `-----BEGIN CERTIFICATE-----
MIIBbDCCAROgAwIBAgIBdzAKBggqhkjOPQQDAjASMRAwDgYDVQQDDAdUZXN0IENB
MB4XDTIwMDEwMTAwMDAwMFoXDTIwMDIwMTAwMDAwMFowFDESMBAGA1UEAwwJbG9j
YWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEA2nlsos7wcxn0ro3w6NH
joBVwADd1fF2pVWnKnglqdX8j4VppVc8tUsorkYyUjnCMrSJm2u6323ayPXHX9zw
WqNYMFYwFAYDVR0RBA0wC4IJbG9jYWxob3N0MB0GA1UdDgQWBBSKc04MIGVmHYxy
ScosQsy8v/JxsDAfBgNVHSMEGDAWgBRc29EmIOw+wJoa3YyAtEbH9xvJjTAKBggq
hkjOPQQDAgNHADBEAiA9QYyzN63ndck9Z6D35DoaCIUIMasvbZAijOVAX3lhTQIg
f1m7kx/Fz/psIFRxRZjuwfNflIaLnTGL1BGaP6Qq6OQ=
-----END CERTIFICATE-----
`;

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

interface AcceptedConnection {
  readonly socket: TLSSocket;
  /** The requested server name (SNI), or false. */
  readonly name: unknown;
  readonly protocol: string | false | null;
}

/** Starts a server with this certificate. It answers each request with the request's number. */
async function serve(cert: string, hostname: string, trustedCertificates?: string) {
  const accepted: AcceptedConnection[] = [];
  const received: string[] = [];
  const server = createServer({ key, cert, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    const name = 'servername' in socket ? socket.servername : undefined;
    accepted.push({ socket, name, protocol: socket.alpnProtocol });
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      received.push(bytes.toString());
      socket.write(answer(String(received.length)));
    });
  });
  server.on('tlsClientError', () => undefined);
  const port = await portOf(server);
  const destination = { hostname, port, isSecure: true, trustedCertificates };
  return { destination, connections: new ConnectionPool(destination), accepted, received };
}

function connectionsAt(port: number, trustedCertificates?: string): ConnectionPool {
  return new ConnectionPool({ hostname: 'localhost', port, isSecure: true, trustedCertificates });
}

async function portOf(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

const answer = (text: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;

function tripWith(body: string): RoundTrip {
  const head = formatRequestHead('/v1', 'host: here\r\n', Buffer.byteLength(body));
  return new RoundTrip({ start: head + body, rest: undefined });
}

async function post(connections: ConnectionPool, body = '{}'): Promise<string> {
  const trip = tripWith(body);
  connections.start(trip);
  return (await trip.response).text();
}

test('Connection sends requests to the host that the certificate names', async () => {
  const { connections, accepted } = await serve(nameLeaf, 'localhost', authority);
  expect([await post(connections), await post(connections)]).toEqual(['1', '2']);
  expect(accepted).toMatchObject([{ name: 'localhost', protocol: 'http/1.1' }]);
});

test('Connection accepts a certificate for an IP address without sending it as SNI', async () => {
  const { connections, accepted } = await serve(addressLeaf, '127.0.0.1', authority);
  expect(await post(connections)).toBe('1');
  expect(accepted).toMatchObject([{ name: false, protocol: 'http/1.1' }]);
});

const untrusted = [
  ['issued for an address instead of the name', addressLeaf, 'localhost', authority],
  ['issued for a name instead of the address', nameLeaf, '127.0.0.1', authority],
  ['signed by an untrusted authority', nameLeaf, 'localhost', undefined],
  ['that has expired', expiredLeaf, 'localhost', authority],
] as const;

test.each(untrusted)('Connection rejects a certificate %s', async (_, cert, hostname, trusted) => {
  const { connections, received } = await serve(cert, hostname, trusted);
  const code = failureCode(await failureOf(post(connections))) ?? '';
  expect([code, isUntrusted(code)]).toEqual([code, true]);
  expect(received).toEqual([]);
});

test('NODE_TLS_REJECT_UNAUTHORIZED does not disable certificate checks', async () => {
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  try {
    const { connections, received } = await serve(nameLeaf, 'localhost');
    expect(isUntrusted(failureCode(await failureOf(post(connections))) ?? '')).toBe(true);
    expect(received).toEqual([]);
  } finally {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
  }
});

test('Connection does not send the request again after a renegotiation', async () => {
  const { destination, received } = await serve(nameLeaf, 'localhost', authority);
  const idle = Promise.withResolvers<Connection>();
  const owner: ConnectionOwner = {
    destination,
    idleMsMin: 0,
    returnIdle: idle.resolve,
    connectionReused: () => undefined,
    closedEarly: () => undefined,
    receivedExcessBytes: () => undefined,
    sendAgain: () => undefined,
    roundTripMs: 0,
    measuredRoundTrip: () => undefined,
    abandonOpening: () => undefined,
  };
  const connection = new Connection(owner, tripWith('first'));
  await within(idle.promise, 'the connection to be idle');
  const second = tripWith('second');
  connection.startTrip(second);
  connection.secured();
  await second.response;
  const third = tripWith('third');
  connection.startTrip(third);
  await third.response;
  connection.close();
  expect(received.join('').match(/first|second|third/g)).toEqual(['first', 'second', 'third']);
});

test('Connection sends no request to a server that does not speak TLS', async () => {
  let received = '';
  const server = createPlainServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
      socket.write(answer('plain'));
    });
  });
  const port = await portOf(server);
  expect(await failureOf(post(connectionsAt(port, authority)))).toMatchObject({ code: 'EPROTO' });
  expect(received).not.toContain('POST');
});

test.each([
  ['closes', (socket: Socket) => socket.end()],
  ['resets', (socket: Socket) => socket.resetAndDestroy()],
])('Connection fails when the server %s the connection during the handshake', async (_, act) => {
  const server = createPlainServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => act(socket));
  });
  expect(await failureOf(post(connectionsAt(await portOf(server))))).toMatchObject({
    code: 'ECONNRESET',
  });
});

test('Connection closes when it is canceled during the handshake', async () => {
  const greeted = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const server = createPlainServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => greeted.resolve());
    socket.on('close', () => ended.resolve());
  });
  const trip = tripWith('{}');
  connectionsAt(await portOf(server)).start(trip);
  const failure = failureOf(trip.response);
  await within(greeted.promise, 'the TLS handshake');
  trip.cancel();
  expect(await failure).toMatchObject({ code: 'ECONNABORTED' });
  await within(ended.promise, 'the connection to end');
});

test('Connection transfers a long request and response completely at any speed', async () => {
  const body = 'größer als €1 '.repeat(200_000);
  let missing = formatRequestHead('/v1', 'host: here\r\n', Buffer.byteLength(body)).length;
  missing += Buffer.byteLength(body);
  const received: Buffer[] = [];
  const server = createServer({ key, cert: nameLeaf }, (socket) => {
    socket.on('data', (bytes: Buffer) => {
      received.push(bytes);
      missing -= bytes.length;
      if (missing > 0) return;
      const all = Buffer.concat(received);
      const sent = all.subarray(all.indexOf('\r\n\r\n') + 4);
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${sent.length}\r\n\r\n`);
      socket.write(sent);
    });
  });
  const port = await portOf(server);
  const trip = tripWith(body);
  connectionsAt(port, authority).start(trip);
  await trip.response;
  const chunks: Uint8Array[] = [];
  for (let chunk = await next(trip); chunk; chunk = await next(trip)) {
    chunks.push(chunk);
    await new Promise((resume) => setImmediate(resume));
  }
  expect(Bun.hash(Buffer.concat(chunks))).toBe(Bun.hash(Buffer.from(body)));
});

function next(trip: RoundTrip): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => trip.read(resolve, reject));
}
