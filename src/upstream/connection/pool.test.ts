import { afterEach, beforeEach, describe, expect, mock, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { idleConnectionsMax } from '../../core/bounds.ts';
import { ConnectionPool, poolFor, setOverrunReporter } from './pool.ts';
import { formatRequestHead, RoundTrip } from './round-trip.ts';

/** What becomes of one request. */
type Ending =
  | 'answer'
  | 'answer for 5 s'
  | 'half answer'
  | 'last answer'
  | 'Last Answer'
  | 'unsized answer'
  | 'answer and close'
  | 'two answers'
  | 'answer behind an empty line'
  | 'reset'
  | 'close'
  | 'reset late';

let server: Server | undefined;
/** The clock stands still: a request that a busy machine holds up was not heard for that. */
let now = 0;
beforeEach(() => void spyOn(performance, 'now').mockImplementation(() => now));
afterEach(() => {
  mock.restore();
  server?.close();
});

/** A server that ends its requests like this, one after the other, then answers them all. */
async function serverThat(...endings: Ending[]) {
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
      const ending = endings.shift() ?? 'answer';
      received.push(`${name}: ${ending}`);
      end(socket, ending);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const destination = { hostname: '127.0.0.1', port: address.port, isSecure: false };
  connections = new ConnectionPool(destination, idleMs);
  const untilClosed = async (count: number) => {
    while (closed < count) await Bun.sleep(1);
  };
  return { received, sockets, port: address.port, ended: ended.promise, untilClosed };
}

const opening = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n';

function end(socket: Socket, ending: Ending): void {
  if (ending === 'answer') socket.write(`${opening}\r\nok`);
  else if (ending === 'answer for 5 s') socket.write(`${opening}Keep-Alive: timeout=5\r\n\r\nok`);
  else if (ending === 'half answer') socket.write(`${opening}\r\no`);
  else if (ending === 'last answer') socket.end(`${opening}Connection: close\r\n\r\nok`);
  else if (ending === 'Last Answer') socket.end(`${opening}Connection: Close\r\n\r\nok`);
  else if (ending === 'unsized answer') socket.end('HTTP/1.1 200 OK\r\n\r\nok');
  else if (ending === 'answer and close') socket.end(`${opening}\r\nok`);
  else if (ending === 'two answers') socket.write(`${opening}\r\nok${opening}\r\nno`);
  else if (ending === 'answer behind an empty line') socket.write(`\r\n${opening}\r\nok`);
  else if (ending === 'close') socket.end();
  else if (ending === 'reset') socket.resetAndDestroy();
  else {
    now += 1_100;
    socket.resetAndDestroy();
  }
}

/** Requests are sent again however short their connection was idle, unless a test says more. */
let idleMs = 0;
beforeEach(() => {
  idleMs = 0;
});
let connections: ConnectionPool;

function start(path = '/v1'): RoundTrip {
  const head = formatRequestHead(path, 'host: here\r\n', 2);
  const trip = new RoundTrip({ start: `${head}{}`, rest: undefined });
  connections.start(trip);
  return trip;
}

async function post(path?: string): Promise<string> {
  return (await start(path).response).text();
}

const broken = { code: 'ECONNRESET' };

describe('a request whose connection dies under it', () => {
  test.each(['reset', 'close'] as const)('is sent again on a new one: %s', async (ending) => {
    const { received } = await serverThat('answer', ending);
    expect([await post(), await post()]).toEqual(['ok', 'ok']);
    expect(received).toEqual([
      'connection 1: answer',
      `connection 1: ${ending}`,
      'connection 2: answer',
    ]);
  });

  test('is sent again whatever the path and however many die together', async () => {
    await serverThat('answer', 'answer', 'answer', 'reset', 'reset', 'reset');
    const three = () => Promise.all(['/a', '/b', '/c'].map((path) => post(path)));
    expect([await three(), await three()].flat()).toEqual(Array(6).fill('ok'));
  });

  test('fails when the new one dies, too', async () => {
    const { received } = await serverThat('answer', 'reset', 'reset');
    await post();
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toHaveLength(3);
  });

  test('fails at once when it was a new one', async () => {
    const { received } = await serverThat('reset', 'reset');
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: reset']);
  });

  test.each(['last answer', 'Last Answer', 'unsized answer'] as const)(
    'fails at once when the last one was closed after its answer: %s',
    async (answer) => {
      const { received } = await serverThat(answer, 'reset');
      await post();
      expect(await failureOf(post())).toMatchObject(broken);
      expect(received).toEqual([`connection 1: ${answer}`, 'connection 2: reset']);
    },
  );

  test('fails at once while the answer on the other one is still being read', async () => {
    const { received } = await serverThat('half answer', 'reset');
    const other = start();
    await other.response;
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: half answer', 'connection 2: reset']);
    other.cancel();
  });

  test('fails when its connection was in use just before: it must have been heard', async () => {
    idleMs = 60_000;
    const { received } = await serverThat('answer', 'reset');
    await post();
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: answer', 'connection 1: reset']);
  });

  test('fails when it had been heard: it was worked on for a while', async () => {
    const { received } = await serverThat('answer', 'reset late');
    await post();
    expect(await failureOf(post())).toMatchObject(broken);
    expect(received).toEqual(['connection 1: answer', 'connection 1: reset late']);
  });
});

describe('an idle connection', () => {
  test.each([
    ['answer', 54_999, 55_000],
    ['answer for 5 s', 3_999, 4_000],
  ] as const)('is used again within its time: %s', async (answer, soonMs, lateMs) => {
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

  test('is ended where enough others wait', async () => {
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

  test('is ended after its time though nobody calls, by a timer that then stops', async () => {
    const timers = spyOn(globalThis, 'setInterval');
    const stopped = spyOn(globalThis, 'clearInterval');
    const { ended } = await serverThat();
    await post();
    // Earlier tests may still have timers of their own.
    const at = timers.mock.calls.findIndex(([, everyMs]) => everyMs === 10_000);
    const sweep = timers.mock.calls[at]?.[0];
    const timer: unknown = timers.mock.results[at]?.value;
    const isStopped = () => stopped.mock.calls.some(([it]) => it === timer);
    now += 54_999;
    sweep?.();
    expect(isStopped()).toBe(false);
    now += 1;
    sweep?.();
    await ended;
    expect(isStopped()).toBe(true);
  });
});

describe('where connections are closed right after an answer, without a word', () => {
  beforeEach(() => {
    idleMs = 60_000;
  });
  const written = () =>
    post().then(
      () => true,
      () => false,
    );
  const connectionsIn = (received: readonly string[]) => received.map((line) => Number(line[11]));

  test('none is used again after two requests met that, for half a minute', async () => {
    const { received } = await serverThat('answer', 'reset', 'answer', 'close');
    const one = [await written(), await written(), await written(), await written()];
    expect(one).toEqual([true, false, true, false]);
    await Promise.all([post(), post()]);
    now += 29_999;
    await post();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 3, 4, 5]);
    now += 1;
    await post();
    await post();
    expect(connectionsIn(received).slice(7)).toEqual([6, 6]);
  });

  test('none is used again after two were closed while they waited', async () => {
    const close = 'answer and close';
    const { received, untilClosed } = await serverThat(close, close);
    await Promise.all([post(), post()]);
    await untilClosed(2);
    await post();
    await post();
    expect(connectionsIn(received)).toEqual([1, 2, 3, 4]);
  });

  test('others that wait are left alone, too', async () => {
    const { received } = await serverThat('answer', 'answer', 'answer', 'reset', 'reset');
    await Promise.all([post(), post(), post()]);
    expect([await written(), await written(), await written()]).toEqual([false, false, true]);
    expect(connectionsIn(received).at(-1)).toBe(4);
  });

  test('they go on to be used where one was used again in between', async () => {
    const { received } = await serverThat('answer', 'reset', 'answer', 'answer', 'reset');
    for (let call = 0; call < 7; call += 1) await written();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 2, 3, 3]);
  });

  test('one that was closed later, while its request was worked on, does not count', async () => {
    const { received } = await serverThat('answer', 'reset late', 'answer', 'reset late');
    for (let call = 0; call < 6; call += 1) await written();
    expect(connectionsIn(received)).toEqual([1, 1, 2, 2, 3, 3]);
  });
});

describe('a server that says more than its answer', () => {
  const connectionsIn = (received: readonly string[]) => received.map((line) => Number(line[11]));

  test('has none of its connections used again for ten minutes: the rest is nobody’s', async () => {
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

  test('is reported once, until it has stopped for ten minutes', async () => {
    const reported: string[] = [];
    setOverrunReporter((server) => reported.push(server));
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

  test('is trusted where the surplus is an empty line, whenever it comes', async () => {
    const { received, sockets } = await serverThat('answer', 'answer behind an empty line');
    await post();
    sockets[0]?.write('\r\n');
    expect([await post(), await post()]).toEqual(['ok', 'ok']);
    expect(connectionsIn(received)).toEqual([1, 1, 1]);
  });

  test.each([
    ['and so where it comes late', `${opening}\r\nno`, [3, 4]],
    ['but not where it is told that it took too long', 'HTTP/1.1 408 Late\r\n\r\n', [1, 1]],
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

test('connections are shared by origin', () => {
  const some = poolFor('http://127.0.0.1:1/v1');
  expect(poolFor('http://127.0.0.1:1/v1beta/openai')).toBe(some);
  expect(poolFor('http://127.0.0.1:2/v1')).not.toBe(some);
});

test.each([
  ['http://gpu-1/v1', 'gpu-1', 80, false],
  ['http://gpu-1:8000/v1', 'gpu-1', 8_000, false],
  ['https://api.example.com/v1', 'api.example.com', 443, true],
  ['https://[2001:db8::1]:8443/v1', '2001:db8::1', 8_443, true],
])('%s leads to its host and port', (baseUrl, hostname, port, isSecure) => {
  expect(poolFor(baseUrl).destination).toEqual({ hostname, port, isSecure });
});
