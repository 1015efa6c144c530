import { afterEach, beforeEach, describe, expect, mock, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { idleConnectionsMax } from '../../core/bounds.ts';
import { ConnectionPool, poolFor, setConnectionReporter } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

/** What the server does with one request. */
type Action =
  | 'answer'
  | 'answer with keep-alive of 5 s'
  | 'half answer'
  | 'answer with connection: close'
  | 'answer with connection: Close'
  | 'unsized answer'
  | 'answer and close'
  | 'two answers'
  | 'answer after an empty line'
  | 'reset'
  | 'close';

let server: Server | undefined;
/** The clock advances only when a connection is opened and when the server acts. */
let now = 0;
let [openingMs, actionMs] = [0, 0];
const connect = Bun.connect;
beforeEach(() => {
  [openingMs, actionMs] = [0, 0];
  spyOn(performance, 'now').mockImplementation(() => now);
  spyOn(Bun, 'connect').mockImplementation(((options: Parameters<typeof connect>[0]) => {
    now += openingMs;
    return connect(options);
  }) as typeof connect);
});
afterEach(() => {
  mock.restore();
  server?.close();
});

/** Starts a server that takes these actions, one per request, and then answers every request. */
async function serverThat(...actions: Action[]) {
  const received: string[] = [];
  const ended = Promise.withResolvers<void>();
  const sockets: Socket[] = [];
  let [opened, closed] = [0, 0];
  server = createServer((socket) => {
    sockets.push(socket);
    const name = `connection ${++opened}`;
    socket.on('error', () => {});
    socket.on('close', () => {
      closed += 1;
      ended.resolve();
    });
    socket.on('data', () => {
      const action = actions.shift() ?? 'answer';
      received.push(`${name}: ${action}`);
      now += actionMs;
      act(socket, action);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const destination = { hostname: '127.0.0.1', port: address.port, isSecure: false };
  connections = new ConnectionPool(destination, idleMs);
  const untilClosed = async (count: number) => {
    await waitUntil(() => closed >= count);
  };
  return { received, sockets, port: address.port, ended: ended.promise, untilClosed };
}

const opening = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n';

function act(socket: Socket, action: Action): void {
  const last = 'answer with connection: ';
  if (action === 'answer') socket.write(`${opening}\r\nok`);
  else if (action === 'answer with keep-alive of 5 s')
    socket.write(`${opening}Keep-Alive: timeout=5\r\n\r\nok`);
  else if (action === 'half answer') socket.write(`${opening}\r\no`);
  else if (action === `${last}close`) socket.end(`${opening}Connection: close\r\n\r\nok`);
  else if (action === `${last}Close`) socket.end(`${opening}Connection: Close\r\n\r\nok`);
  else if (action === 'unsized answer') socket.end('HTTP/1.1 200 OK\r\n\r\nok');
  else if (action === 'answer and close') socket.end(`${opening}\r\nok`);
  else if (action === 'two answers') socket.write(`${opening}\r\nok${opening}\r\nno`);
  else if (action === 'answer after an empty line') socket.write(`\r\n${opening}\r\nok`);
  else if (action === 'close') socket.end();
  else socket.resetAndDestroy();
}

/** With 0, lost requests are resent after any idle time. */
let idleMs = 0;
beforeEach(() => {
  idleMs = 0;
});
let connections: ConnectionPool;

function start(path = '/v1', rest?: Uint8Array): RoundTrip {
  const head = formatRequestHead(path, 'host: here\r\n', 2 + (rest?.length ?? 0));
  const trip = new RoundTrip({ start: `${head}{}`, rest }, 'acme');
  connections.start(trip);
  return trip;
}

async function post(path?: string): Promise<string> {
  return (await start(path).response).text();
}

const broken = { code: 'ECONNRESET' };

/** Opens a connection in 40 ms. From then on, the server takes `actionMs` for each request. */
async function connectIn40Ms(ms: number): Promise<void> {
  [openingMs, actionMs] = [40, 60];
  await post();
  [openingMs, actionMs] = [0, ms];
}

describe('A request on a reused connection', () => {
  const sentAgain = (action: string) => [
    'connection 1: answer',
    `connection 1: ${action}`,
    'connection 2: answer',
  ];

  test.each(['reset', 'close'] as const)(
    'is sent again after a %s that arrives before a round trip has passed',
    async (action) => {
      const { received } = await serverThat('answer', action);
      await connectIn40Ms(34);
      expect(await post()).toBe('ok');
      expect(received).toEqual(sentAgain(action));
    },
  );

  test.each(['reset', 'close'] as const)(
    'fails after a %s that arrives when a round trip has passed',
    async (action) => {
      const { received } = await serverThat('answer', action);
      await connectIn40Ms(36);
      expect(await failureOf(post())).toMatchObject(broken);
      expect(received).toEqual(sentAgain(action).slice(0, 2));
    },
  );

  test('fails after an early close if the time to connect included a DNS lookup', async () => {
    const { received, port } = await serverThat('answer', 'close');
    connections = new ConnectionPool({ hostname: 'localhost', port, isSecure: false }, idleMs);
    await connectIn40Ms(1);
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toHaveLength(2);
  });

  test('fails after a close that arrives later than an earlier response', async () => {
    const { received } = await serverThat('answer', 'answer', 'close');
    await connectIn40Ms(20);
    await post();
    actionMs = 16;
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toHaveLength(3);
  });

  test('is not written to a connection whose close has already arrived', async () => {
    const { received, sockets } = await serverThat();
    await post();
    sockets[0]?.destroy();
    expect(await post()).toBe('ok');
    expect(received).toEqual(['connection 1: answer', 'connection 2: answer']);
  });

  test('is sent again if the server closes before all of it was written', async () => {
    const { received } = await serverThat('answer', 'reset');
    await connectIn40Ms(2_000);
    const trip = start('/v1', Buffer.alloc(32 * 1024 * 1024));
    expect((await trip.response).status).toBe(200);
    trip.cancel();
    expect(received.slice(0, 3)).toEqual(sentAgain('reset'));
  });

  test('is reported with its provider when it is sent again', async () => {
    const reported: string[] = [];
    setConnectionReporter({
      dataAfterAnswer: () => undefined,
      requestReplayed: (provider) => reported.push(provider),
    });
    await serverThat('answer', 'close', 'answer', 'answer', 'close');
    await connectIn40Ms(1);
    for (let call = 0; call < 2; call += 1) await post();
    expect(reported).toEqual(['acme']);
  });

  test('is sent again when several connections break at once', async () => {
    await serverThat('answer', 'answer', 'answer', 'reset', 'reset', 'reset');
    [openingMs, actionMs] = [40, 60];
    const three = () => Promise.all(['/a', '/b', '/c'].map((path) => post(path)));
    const first = await three();
    [openingMs, actionMs] = [0, 1];
    expect([first, await three()].flat()).toEqual(Array(6).fill('ok'));
  });

  test('fails when the new connection breaks, too', async () => {
    const { received } = await serverThat('answer', 'reset', 'reset');
    await connectIn40Ms(1);
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toHaveLength(3);
  });

  test('fails without a retry when the connection was new', async () => {
    const { received } = await serverThat('reset', 'reset');
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: reset']);
  });

  test.each([
    'answer with connection: close',
    'answer with connection: Close',
    'unsized answer',
  ] as const)('fails without a retry on the new connection after an %s', async (answer) => {
    const { received } = await serverThat(answer, 'reset');
    await post();
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual([`connection 1: ${answer}`, 'connection 2: reset']);
  });

  test('fails without a retry while another connection is still in use', async () => {
    const { received } = await serverThat('half answer', 'reset');
    const other = start();
    await other.response;
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: half answer', 'connection 2: reset']);
    other.cancel();
  });

  test('fails without a retry when the connection was idle only briefly', async () => {
    idleMs = 60_000;
    const { received } = await serverThat('answer', 'reset');
    await post();
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: answer', 'connection 1: reset']);
  });
});

describe('An idle connection', () => {
  test.each([
    ['answer', 54_999, 55_000],
    ['answer with keep-alive of 5 s', 3_999, 4_000],
  ] as const)('is reused only within its keep-alive time: %s', async (answer, soonMs, lateMs) => {
    const { received, ended } = await serverThat(answer, answer);
    await post();
    now += soonMs;
    await post();
    now += lateMs;
    await post();
    await ended;
    expect(received.map((line) => line.slice(0, 12))).toEqual([
      'connection 1',
      'connection 1',
      'connection 2',
    ]);
  });

  test('is closed when the pool already has enough idle connections', async () => {
    const { received, ended } = await serverThat();
    const together = async (count: number) => {
      await Promise.all(Array.from({ length: count }, () => post()));
      return new Set(received.splice(0));
    };
    const all = await together(idleConnectionsMax + 1);
    await ended;
    const reused = await together(idleConnectionsMax);
    expect([all.size, reused.size]).toEqual([idleConnectionsMax + 1, idleConnectionsMax]);
    expect(reused.isSubsetOf(all)).toBe(true);
  });

  test('is closed by a timer when it expires, and the timer stops', async () => {
    const timers = spyOn(globalThis, 'setInterval');
    const stopped = spyOn(globalThis, 'clearInterval');
    const { ended } = await serverThat();
    await post();
    // Timers of earlier tests may still run.
    const at = timers.mock.calls.findIndex(([, everyMs]) => everyMs === 10_000);
    const sweep = timers.mock.calls[at]?.[0];
    const timer: unknown = timers.mock.results[at]?.value;
    const isStopped = () => stopped.mock.calls.some(([stopped]) => stopped === timer);
    now += 54_999;
    sweep?.();
    expect(isStopped()).toBe(false);
    now += 1;
    sweep?.();
    await ended;
    expect(isStopped()).toBe(true);
  });
});

describe('A server that closes connections without announcing it', () => {
  beforeEach(() => {
    idleMs = 60_000;
  });
  const succeeds = () =>
    post().then(
      () => true,
      () => false,
    );
  const connectionsIn = (received: readonly string[]) => received.map((line) => Number(line[11]));

  test('gets a new connection for each request for 30 s after two lost requests', async () => {
    const { received } = await serverThat('answer', 'reset', 'answer', 'close');
    const results = [await succeeds(), await succeeds(), await succeeds(), await succeeds()];
    expect(results).toEqual([true, false, true, false]);
    await Promise.all([post(), post()]);
    now += 29_999;
    await post();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 3, 4, 5]);
    now += 1;
    await post();
    await post();
    expect(connectionsIn(received).slice(7)).toEqual([6, 6]);
  });

  test('gets a new connection for each request after it closed two idle ones', async () => {
    const close = 'answer and close';
    const { received, untilClosed } = await serverThat(close, close);
    await Promise.all([post(), post()]);
    await untilClosed(2);
    await post();
    await post();
    expect(connectionsIn(received)).toEqual([1, 2, 3, 4]);
  });

  test('loses its other idle connections, too', async () => {
    const { received } = await serverThat('answer', 'answer', 'answer', 'reset', 'reset');
    await Promise.all([post(), post(), post()]);
    expect([await succeeds(), await succeeds(), await succeeds()]).toEqual([false, false, true]);
    expect(connectionsIn(received).at(-1)).toBe(4);
  });

  test('keeps its connections when one was reused in between', async () => {
    const { received } = await serverThat('answer', 'reset', 'answer', 'answer', 'reset');
    for (let call = 0; call < 7; call += 1) await succeeds();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 2, 3, 3]);
  });

  test('is not blamed for closing a connection while it processes the request', async () => {
    const { received } = await serverThat('answer', 'reset', 'answer', 'reset');
    actionMs = 1_100;
    for (let call = 0; call < 6; call += 1) await succeeds();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 3, 3]);
  });
});

describe('A server that sends bytes after its response', () => {
  const connectionsIn = (received: readonly string[]) => received.map((line) => Number(line[11]));

  test('gets a new connection for each request for 10 minutes', async () => {
    const { received, untilClosed } = await serverThat('answer', 'answer', 'two answers');
    await Promise.all([post(), post()]);
    expect(await post()).toBe('ok');
    await untilClosed(2);
    await post();
    now += 599_999;
    await post();
    expect(connectionsIn(received).slice(3)).toEqual([3, 4]);
    now += 1;
    await post();
    await post();
    expect(connectionsIn(received).slice(5)).toEqual([5, 5]);
  });

  test('is reported once, and again after it has stopped for 10 minutes', async () => {
    const reported: string[] = [];
    setConnectionReporter({
      dataAfterAnswer: (server) => reported.push(server),
      requestReplayed: () => undefined,
    });
    const two = 'two answers';
    const { port, untilClosed } = await serverThat(two, two, two);
    await post();
    now += 599_999;
    await post();
    await untilClosed(2);
    expect(reported).toEqual([`127.0.0.1:${port}`]);
    now += 600_000;
    await post();
    await untilClosed(3);
    expect(reported).toHaveLength(2);
  });

  test('keeps its connections when the extra bytes are an empty line', async () => {
    const { received, sockets } = await serverThat('answer', 'answer after an empty line');
    await post();
    sockets[0]?.write('\r\n');
    expect([await post(), await post()]).toEqual(['ok', 'ok']);
    expect(connectionsIn(received)).toEqual([1, 1, 1]);
  });

  test.each([
    ['loses its connections when it responds on an idle one', `${opening}\r\nno`, [3, 4]],
    ['keeps its other connections when it sends a 408', 'HTTP/1.1 408 Late\r\n\r\n', [1, 1]],
  ])('%s', async (_, content, then) => {
    const { received, sockets, untilClosed } = await serverThat();
    await Promise.all([post(), post()]);
    sockets[1]?.write(content);
    await untilClosed(then[0] === 1 ? 1 : 2);
    await post();
    await post();
    expect(connectionsIn(received).slice(2)).toEqual(then);
  });
});

test('poolFor returns one pool for each origin', () => {
  const pool = poolFor('http://127.0.0.1:1/v1');
  expect(poolFor('http://127.0.0.1:1/v1beta/openai')).toBe(pool);
  expect(poolFor('http://127.0.0.1:2/v1')).not.toBe(pool);
});

test.each([
  ['http://gpu-1/v1', 'gpu-1', 80, false],
  ['http://gpu-1:8000/v1', 'gpu-1', 8_000, false],
  ['https://api.example.com/v1', 'api.example.com', 443, true],
  ['https://[2001:db8::1]:8443/v1', '2001:db8::1', 8_443, true],
])('poolFor connects %s to %s:%i', (baseUrl, hostname, port, isSecure) => {
  expect(poolFor(baseUrl).destination).toEqual({ hostname, port, isSecure });
});
