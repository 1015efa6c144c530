import { afterEach, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { within } from '../../../tests/support/wait-until.ts';
import { ConnectionPool } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(onConnection: (socket: Socket) => void): Promise<ConnectionPool> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new ConnectionPool({ hostname: '127.0.0.1', port: portOf(server), isSecure: false });
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

function start(connections: ConnectionPool, body = '{}', rest?: Uint8Array): RoundTrip {
  const bytes = Buffer.byteLength(body) + (rest?.length ?? 0);
  const trip = new RoundTrip({
    start: formatRequestHead('/v1', 'host: here\r\n', bytes) + body,
    rest,
  });
  connections.start(trip);
  return trip;
}

async function post(connections: ConnectionPool): Promise<string> {
  return (await start(connections).response).text();
}

const answer = (text: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;

describe('Opening a connection', () => {
  test('fails with ECONNREFUSED when no server is listening', async () => {
    const connections = await serve(() => undefined);
    const [server] = servers.splice(0);
    server?.close();
    expect(await failureOf(post(connections))).toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('fails with EMFILE when this process has no file descriptors left', async () => {
    let accepted = 0;
    const connections = await serve(() => (accepted += 1));
    const child = Bun.spawn(
      ['sh', '-c', 'ulimit -n 60; exec "$0" -e "$1"', process.execPath, exhaustFiles],
      {
        env: { ...process.env, PORT: String(connections.destination.port) },
        cwd: import.meta.dir,
        stdout: 'pipe',
      },
    );
    expect(await new Response(child.stdout).text()).toBe('EMFILE\n');
    expect(accepted).toBe(0);
  });
});

/** Opens files up to the limit, then sends a request. */
const exhaustFiles = `
  const { ConnectionPool } = await import('./pool.ts');
  const { RoundTrip } = await import('./round-trip.ts');
  const { openSync } = await import('node:fs');
  try { for (;;) openSync('/', 'r'); } catch {}
  const destination = { hostname: '127.0.0.1', port: Number(process.env.PORT), isSecure: false };
  const trip = new RoundTrip({ start: 'GET / HTTP/1.1', rest: undefined });
  new ConnectionPool(destination).start(trip);
  await trip.response.catch((reason) => console.log(reason.code));
  process.exit();
`;

test('Connection closes without sending when it is canceled while opening', async () => {
  const ended = Promise.withResolvers<number>();
  const connections = await serve((socket) => {
    let received = 0;
    socket.on('data', (bytes) => (received += bytes.length));
    socket.on('close', () => ended.resolve(received));
  });
  const trip = start(connections);
  const failure = failureOf(trip.response);
  trip.cancel();
  expect(await failure).toMatchObject({ code: 'ECONNABORTED' });
  expect(await within(ended.promise, 'the connection to end')).toBe(0);
});

test('Connection closes when a request is canceled before any response', async () => {
  const received = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const connections = await serve((socket) => {
    socket.on('data', () => received.resolve());
    socket.on('close', () => ended.resolve());
  });
  const trip = start(connections);
  const failure = failureOf(trip.response);
  await within(received.promise, 'the request to arrive');
  trip.cancel();
  expect(await failure).toMatchObject({ code: 'ECONNABORTED' });
  await within(ended.promise, 'the connection to end');
});

describe('A request larger than the socket buffer', () => {
  const text = Array.from({ length: 150_000 }, (_, index) => `€€€€€€€€€ ${index}`).join();
  const bytes = Buffer.from(text);

  test.each([
    ['text', text, undefined],
    ['bytes', '', bytes],
    ['text, then bytes', text, bytes],
  ])('arrives complete at a slow server when its body is %s', async (_, body, rest) => {
    const full = Buffer.concat([Buffer.from(body), rest ?? Buffer.alloc(0)]);
    const received: Buffer[] = [];
    let missing = full.length + formatRequestHead('/v1', 'host: here\r\n', full.length).length;
    const connections = await serve((socket) => {
      socket.on('data', (chunk: Buffer) => {
        received.push(chunk);
        missing -= chunk.length;
        if (missing === 0) socket.write(answer('thanks'));
        socket.pause();
        setImmediate(() => socket.resume());
      });
    });
    expect(await (await start(connections, body, rest).response).text()).toBe('thanks');
    const all = Buffer.concat(received);
    expect(Bun.hash(all.subarray(all.indexOf('\r\n\r\n') + 4))).toBe(Bun.hash(full));
  });

  test('gets a response that the server sends before reading it all, then disconnects', async () => {
    let opened = 0;
    const connections = await serve((socket) => {
      opened += 1;
      socket.once('data', () => {
        socket.pause();
        socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig');
      });
    });
    const rejected = async () => {
      const { status, text } = await responseOf(start(connections, '', bytes));
      return `${status} ${text}`;
    };
    expect([await rejected(), await rejected()]).toEqual(['413 big', '413 big']);
    expect(opened).toBe(2);
  });
});

async function responseOf(trip: RoundTrip) {
  const { status } = await trip.response;
  return { status, text: await trip.text() };
}

describe('An idle connection', () => {
  test.each([
    ['sends bytes', (socket: Socket) => socket.write(answer('unrequested'))],
    ['closes', (socket: Socket) => socket.end()],
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
  ])('is not reused when the server %s', async (_, act) => {
    const sockets: Socket[] = [];
    const ended = Promise.withResolvers<void>();
    const { destination } = await serve((socket) => {
      const name = `connection ${sockets.push(socket)}`;
      socket.on('data', () => socket.write(answer(name)));
      socket.on('close', () => ended.resolve());
    });
    // With 0, a request that is lost because of the close is resent after any idle time.
    const connections = new ConnectionPool(destination, 0);
    expect(await post(connections)).toBe('connection 1');
    for (const socket of sockets) act(socket);
    await within(ended.promise, 'the connection to end');
    expect(await post(connections)).toBe('connection 2');
  });

  test('does not keep the process alive, unlike a connection in use', async () => {
    const connections = await serve((socket) => {
      socket.on('data', (bytes) => {
        if (bytes.includes('/first')) socket.write(answer('one'));
        else setImmediate(() => socket.write(answer('two')));
      });
    });
    const child = Bun.spawn([process.execPath, '-e', twoCalls], {
      env: { ...process.env, PORT: String(connections.destination.port) },
      cwd: import.meta.dir,
      stdout: 'pipe',
    });
    expect(await new Response(child.stdout).text()).toBe('one\ntwo\n');
    expect(await within(child.exited, 'the program to exit', 60_000)).toBe(0);
  });
});

/** Awaits nothing at the end, so only its connections can keep the process alive. */
const twoCalls = `
  const { ConnectionPool } = await import('./pool.ts');
  const { formatRequestHead, RoundTrip } = await import('./round-trip.ts');
  const destination = { hostname: '127.0.0.1', port: Number(process.env.PORT), isSecure: false };
  const connections = new ConnectionPool(destination);
  const call = (path) => {
    const trip = new RoundTrip({ start: formatRequestHead(path, '', 0), rest: undefined });
    connections.start(trip);
    return trip.response.then((response) => response.text()).then((text) => console.log(text));
  };
  call('/first').then(() => call('/second'));
`;
