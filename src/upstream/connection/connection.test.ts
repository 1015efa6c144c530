import { afterEach, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { ConnectionPool } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(meet: (socket: Socket) => void): Promise<ConnectionPool> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    meet(socket);
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

describe('a server that is not there', () => {
  test('refuses', async () => {
    const connections = await serve(() => undefined);
    const [server] = servers.splice(0);
    server?.close();
    expect(await failureOf(post(connections))).toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('is not blamed when this process can open nothing more', async () => {
    let met = 0;
    const connections = await serve(() => (met += 1));
    const child = Bun.spawn(
      ['sh', '-c', 'ulimit -n 60; exec "$0" -e "$1"', process.execPath, full],
      {
        env: { ...process.env, PORT: String(connections.destination.port) },
        cwd: import.meta.dir,
        stdout: 'pipe',
      },
    );
    expect(await new Response(child.stdout).text()).toBe('EMFILE\n');
    expect(met).toBe(0);
  });
});

/** Opens whatever it may, then calls. */
const full = `
  const { Connections } = await import('./connections.ts');
  const { RoundTrip } = await import('./round-trip.ts');
  const { openSync } = await import('node:fs');
  try { for (;;) openSync('/', 'r'); } catch {}
  const destination = { hostname: '127.0.0.1', port: Number(process.env.PORT), isSecure: false };
  const trip = new RoundTrip({ start: 'GET / HTTP/1.1', rest: undefined });
  new Connections(destination).start(trip);
  await trip.answered.catch((reason) => console.log(reason.code));
  process.exit();
`;

test('a caller that hangs up before the connection is open leaves nothing behind', async () => {
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
  expect(await ended.promise).toBe(0);
});

test('a server that never speaks is left when the caller hangs up', async () => {
  const received = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const connections = await serve((socket) => {
    socket.on('data', () => received.resolve());
    socket.on('close', () => ended.resolve());
  });
  const trip = start(connections);
  const failure = failureOf(trip.response);
  await received.promise;
  trip.cancel();
  expect(await failure).toMatchObject({ code: 'ECONNABORTED' });
  await ended.promise;
});

describe('a request longer than the connection takes at once', () => {
  const text = Array.from({ length: 150_000 }, (_, at) => `€€€€€€€€€ ${at}`).join();
  const bytes = Buffer.from(text);

  test.each([
    ['text', text, undefined],
    ['bytes', '', bytes],
    ['text, then bytes', text, bytes],
  ])('arrives whole at a slow reader: %s', async (_, body, rest) => {
    const full = Buffer.concat([Buffer.from(body), rest ?? Buffer.alloc(0)]);
    const received: Buffer[] = [];
    let missing = full.length + formatRequestHead('/v1', 'host: here\r\n', full.length).length;
    const connections = await serve((socket) => {
      socket.on('data', (piece: Buffer) => {
        received.push(piece);
        missing -= piece.length;
        if (missing === 0) socket.write(answer('thanks'));
        socket.pause();
        setImmediate(() => socket.resume());
      });
    });
    expect(await (await start(connections, body, rest).response).text()).toBe('thanks');
    const all = Buffer.concat(received);
    expect(Bun.hash(all.subarray(all.indexOf('\r\n\r\n') + 4))).toBe(Bun.hash(full));
  });

  test('is answered although the server does not read it, and nothing follows it', async () => {
    let opened = 0;
    const connections = await serve((socket) => {
      opened += 1;
      socket.once('data', () => {
        socket.pause();
        socket.write('HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig');
      });
    });
    const refused = async () => {
      const { status, text } = await reported(start(connections, '', bytes));
      return `${status} ${text}`;
    };
    expect([await refused(), await refused()]).toEqual(['413 big', '413 big']);
    expect(opened).toBe(2);
  });
});

async function reported(trip: RoundTrip) {
  const { status } = await trip.response;
  return { status, text: await trip.text() };
}

describe('an idle connection', () => {
  test.each([
    ['says something', (socket: Socket) => socket.write(answer('not asked for'))],
    ['is closed', (socket: Socket) => socket.end()],
    ['is reset', (socket: Socket) => socket.resetAndDestroy()],
  ])('that %s is not used again', async (_, act) => {
    const met: Socket[] = [];
    const ended = Promise.withResolvers<void>();
    const { destination } = await serve((socket) => {
      const name = `connection ${met.push(socket)}`;
      socket.on('data', () => socket.write(answer(name)));
      socket.on('close', () => ended.resolve());
    });
    // A request that meets the close on its way is sent again, however short it was idle.
    const connections = new ConnectionPool(destination, 0);
    expect(await post(connections)).toBe('connection 1');
    for (const socket of met) act(socket);
    await ended.promise;
    expect(await post(connections)).toBe('connection 2');
  });

  test('does not keep the process alive, one in use does', async () => {
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
    expect(await child.exited).toBe(0);
  });
});

/** Awaits nothing at the end: what is under way keeps it alive, or does not. */
const twoCalls = `
  const { Connections } = await import('./connections.ts');
  const { RoundTrip } = await import('./round-trip.ts');
  const { headOf } = await import('./request-head.ts');
  const destination = { hostname: '127.0.0.1', port: Number(process.env.PORT), isSecure: false };
  const connections = new Connections(destination);
  const call = (path) => {
    const trip = new RoundTrip({ start: headOf(path, '', 0), rest: undefined });
    connections.start(trip);
    return trip.answered.then((answer) => answer.text()).then((text) => console.log(text));
  };
  call('/first').then(() => call('/second'));
`;
