import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { connect } from 'node:net';
import { callerOf } from '../../tests/support/caller.ts';
import { waitUntil, within } from '../../tests/support/wait-until.ts';
import { Authenticator } from '../auth/authenticate.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { createLog } from '../telemetry/log.ts';
import type { Handlers } from './listener.ts';
import { json } from './reply.ts';
import type { Exchange } from './routes.ts';
import { HttpServer } from './server.ts';
import { disconnectWhenStalled } from './stalled-client.ts';
import { StartupServer } from './startup-server.ts';

/** The runtime counts in steps of four seconds. */
const idleSeconds = 4;
const testMs = 120_000;

class OneKey extends Authenticator {
  constructor() {
    const notFound = async () => undefined;
    const [findKey, adminTokenHash] = [notFound, notFound];
    super({ findKey, adminTokenHash, markUsed: notFound, purgeUnusedKeys: notFound });
  }

  override authenticate(key: string): Caller {
    if (key === 'known') return callerOf('acme');
    throw new GatewayError('invalid_api_key', "The API key isn't valid.");
  }

  override async isAdmin(token: string): Promise<boolean> {
    return token === 'operator';
  }
}

const answerWaiting = Promise.withResolvers<void>();

/** Answers once the test resolves `answerWaiting`. */
async function wait({ request }: Exchange): Promise<Response> {
  if (request.headers.has('x-reject')) throw invalidRequest('Rejected without reading the body.');
  await within(answerWaiting.promise, 'the request to reach its handler');
  return new Response('done');
}

/** Larger than the socket buffers of the system. */
const longBody = 'long '.repeat(6_000_000);

/** Yields chunks until the consumer returns. */
class Endless implements AsyncIterableIterator<string> {
  readonly ended = Promise.withResolvers<string>();

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    return { done: false, value: 'chunk '.repeat(20_000) };
  }

  async return(): Promise<IteratorResult<string>> {
    this.ended.resolve('ended');
    return { done: true, value: undefined };
  }
}

const endless = new Endless();

/** Pauses for twice the idle timeout before its last chunk. */
async function* slow() {
  yield 'first';
  await Bun.sleep(2_000 * idleSeconds);
  yield 'last';
}

const logLines: string[] = [];

async function fail({ request }: Exchange): Promise<Response> {
  const cause = new Error('timeout exceeded when trying to connect');
  if (request.headers.has('x-internal')) throw cause;
  throw new GatewayError('service_unavailable', 'The key store is unreachable.', { cause });
}

const server = new HttpServer({
  idleSeconds,
  authenticator: new OneKey(),
  log: createLog((line) => void logLines.push(line)),
  routes: [
    { method: 'GET', path: '/public', access: 'public', handle: () => new Response('public') },
    { method: 'POST', path: '/wait', access: 'routing', handle: wait },
    { method: 'GET', path: '/admin-wait', access: 'admin', handle: wait },
    { method: 'GET', path: '/quick', access: 'routing', handle: (exchange) => json(exchange, {}) },
    {
      method: 'GET',
      path: '/endless',
      access: 'routing',
      handle: (exchange) =>
        new Response(disconnectWhenStalled(exchange, endless, { stallSeconds: idleSeconds })),
    },
    {
      method: 'GET',
      path: '/slow',
      access: 'routing',
      handle: (exchange) =>
        new Response(disconnectWhenStalled(exchange, slow(), { stallSeconds: idleSeconds })),
    },
    {
      method: 'GET',
      path: '/long',
      access: 'public',
      handle: (exchange) => json(exchange, longBody),
    },
    { method: 'GET', path: '/fail', access: 'public', handle: fail },
  ],
});
let port = 0;
beforeAll(() => {
  port = server.listen('127.0.0.1', 0);
});
afterAll(() => server.drain(0));

/** Sends the first text at once, then `drip` every second. */
function send(first: string, drip = '') {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.on('data', (bytes) => {
    received += bytes.toString();
  });
  socket.on('error', () => undefined);
  socket.write(first);
  const dripping = setInterval(() => drip && socket.write(drip), 1_000);
  const closed = once(socket, 'close').then(() => {
    clearInterval(dripping);
    return received;
  });
  return { socket, closed, received: () => received };
}

const head = (line: string, ...lines: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: gateway', ...lines].join('\r\n')}\r\n\r\n`;
const withKey = 'Authorization: Bearer known';

test.concurrent(
  'HttpServer closes idle connections but not those with a running request',
  async () => {
    const waiting = [
      send(head('POST /wait', withKey, 'Content-Length: 0')),
      send(head('GET /admin-wait', 'Authorization: Bearer operator')),
    ];
    const idle = {
      'after a public request': send(head('GET /public')),
      'after a request with a key': send(head('GET /quick', withKey)),
      'after the last chunk': send(head('GET /slow', withKey)),
      'after the head of a chunked answer': send(head('HEAD /slow', withKey)),
      'within the next head': send(head('GET /public'), 'G'),
      'within a body without a key': send(head('POST /wait', 'Content-Length: 1000'), 'x'),
      'within a rejected body': send(
        head('POST /wait', withKey, 'X-Reject: 1', 'Content-Length: 1000'),
        'x',
      ),
    };
    const statusLines: Record<string, string | undefined> = {};
    for (const [moment, { closed }] of Object.entries(idle)) {
      [statusLines[moment]] = (await closed).split('\r\n');
    }
    expect(statusLines).toEqual({
      'after a public request': 'HTTP/1.1 200 OK',
      'after a request with a key': 'HTTP/1.1 200 OK',
      'after the last chunk': 'HTTP/1.1 200 OK',
      'after the head of a chunked answer': 'HTTP/1.1 200 OK',
      'within the next head': 'HTTP/1.1 200 OK',
      'within a body without a key': 'HTTP/1.1 401 Unauthorized',
      'within a rejected body': 'HTTP/1.1 400 Bad Request',
    });
    // The last of these connections stayed open for 3 times the idle timeout.
    for (const { received, socket } of waiting) {
      expect(received()).toBe('');
      expect(socket.closed).toBe(false);
    }
    answerWaiting.resolve();
    for (const { received, socket } of waiting) {
      await waitUntil(() => received().endsWith('done'));
      socket.destroy();
    }
  },
  testMs,
);

test.concurrent(
  'HttpServer ends an answer that the client stops reading, but not one with a slow upstream',
  async () => {
    const stalled = send(head('GET /endless', withKey));
    await once(stalled.socket, 'data');
    stalled.socket.pause();
    const slowUpstream = send(head('GET /slow', withKey));
    expect(await within(endless.ended.promise, 'the endless answer to end')).toBe('ended');
    await waitUntil(() => slowUpstream.received().includes('last'));
    stalled.socket.destroy();
    slowUpstream.socket.destroy();
  },
  testMs,
);

test.concurrent(
  'HttpServer allows a long answer to take longer than the idle timeout',
  async () => {
    const { socket, closed } = send(head('GET /long', 'Connection: close'));
    await once(socket, 'data');
    socket.pause();
    await send(head('GET /public')).closed;
    await send(head('GET /public')).closed;
    socket.resume();
    expect((await closed).endsWith(`${longBody}"`)).toBe(true);
  },
  testMs,
);

const handshake = [
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits',
];

test.each([
  [
    '/wait',
    'websocket',
    '426 Upgrade Required',
    "WebSocket isn't supported here. Use POST.",
    ['HTTP/1.1', 'Upgrade'],
  ],
  ['/wait', 'h2c', '405 Method Not Allowed', "GET isn't supported here. Use POST.", []],
  [
    '/realtime',
    'websocket',
    '404 Not Found',
    'Unknown route: GET /realtime. WebSockets are not supported.',
    [],
  ],
])(
  'HttpServer answers an upgrade of GET %s to %s with %s',
  async (path, protocol, status, message, offered) => {
    const upgrade = ['Connection: Upgrade', `Upgrade: ${protocol}`];
    const { socket, received } = send(head(`GET ${path}`, ...handshake, ...upgrade));
    await waitUntil(() => received().endsWith('}'));
    socket.destroy();
    expect(received()).toStartWith(`HTTP/1.1 ${status}\r\n`);
    expect(received()).toContain(JSON.stringify(message));
    const headers = ['upgrade', 'connection'].flatMap((name) => {
      return new RegExp(`^${name}: (.*)\r$`, 'im').exec(received())?.[1] ?? [];
    });
    expect(headers).toEqual(offered);
  },
);

/** Records the idle timeouts that are set on the server after the hand-off. */
class RecordingStartupServer extends StartupServer {
  readonly idleTimeouts: number[] = [];
  handlers: Handlers | undefined;

  override handOff(handlers: Handlers): Bun.Server<undefined> | undefined {
    this.handlers = handlers;
    const handedOver = super.handOff(handlers);
    if (handedOver) {
      const record = (_: Request, seconds: number) => void this.idleTimeouts.push(seconds);
      spyOn(handedOver, 'timeout').mockImplementation(record);
    }
    return handedOver;
  }
}

function listenRecording(): RecordingStartupServer {
  const startup = new RecordingStartupServer('1.0.0');
  startup.listen('127.0.0.1', 0, false, 'starting');
  const lengthOf = ({ query }: Exchange) => Number(query.get('length'));
  const httpServer = new HttpServer({
    idleSeconds,
    authenticator: new OneKey(),
    log: createLog(() => undefined),
    routes: [
      {
        method: 'GET',
        path: '/answer',
        access: 'public',
        handle(exchange) {
          exchange.responseLength = lengthOf(exchange);
          return new Response();
        },
      },
    ],
  });
  httpServer.listen('127.0.0.1', 0, false, startup);
  return startup;
}

test.each([
  [0, 4],
  [1, 5],
  [16_384, 5],
  [16_385, 6],
  [3_866_624, 240],
  // Longer than the runtime's maximum.
  [3_866_625, 0],
])(
  'HttpServer gives a client that reads 16 KiB/s enough time for %i bytes: %i seconds',
  async (length, seconds) => {
    const startup = listenRecording();
    try {
      const serve = startup.handlers?.fetch;
      await serve?.(new Request(`http://gateway/answer?length=${length}`));
      expect(startup.idleTimeouts).toEqual([seconds]);
    } finally {
      await startup.close();
    }
  },
);

test('HttpServer answers an uncaught error with 500 without revealing its message', async () => {
  const startup = listenRecording();
  try {
    const response = startup.handlers?.error(new Error('SELECT secret'));
    expect(response?.status).toBe(500);
    const message = 'An internal error occurred.';
    const error = { message, type: 'internal_error', code: 'internal_error', param: null };
    expect(await response?.json()).toEqual({ error });
  } finally {
    await startup.close();
  }
});

test('HttpServer logs repeated outages once and every internal error', async () => {
  const sendFailing = async (...more: string[]) => {
    const { socket, received } = send(head('GET /fail', ...more));
    await waitUntil(() => received().endsWith('}'));
    socket.destroy();
  };
  const internal = ['X-Internal: 1'];
  for (const more of [[], [], internal, internal]) await sendFailing(...more);
  const outage = 'The key store is unreachable. (timeout exceeded when trying to connect)';
  const parseLines = (lines: readonly string[]): unknown[] => lines.map((line) => JSON.parse(line));
  expect(parseLines(logLines)).toMatchObject([
    { event: 'request_failed', symbol: 'service_unavailable', reason: outage },
    { symbol: 'internal_error', reason: 'timeout exceeded when trying to connect' },
    { event: 'request_failed', symbol: 'internal_error' },
  ]);
  const summary = { level: 'error', event: 'requests_failed', reason: outage };
  await Promise.all(server.periodicTasks().map((task) => task.run()));
  expect(parseLines(logLines.slice(3))).toMatchObject([{ ...summary, requests: 1 }]);
  for (let count = 0; count < 2; count++) await sendFailing();
  // A shutdown must not lose the line that the next minute would have logged.
  await server.drain(0);
  expect(parseLines(logLines.slice(4))).toMatchObject([{ ...summary, requests: 2 }]);
});
