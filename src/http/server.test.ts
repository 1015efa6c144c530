import { afterAll, beforeAll, expect, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { connect } from 'node:net';
import { callerOf } from '../../tests/support/caller.ts';
import { Authenticator } from '../auth/authenticate.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, invalidRequest } from '../core/errors.ts';
import { createLog } from '../telemetry/log.ts';
import { json } from './reply.ts';
import type { Exchange } from './routes.ts';
import { type Handlers, HttpServer, StartupServer } from './server.ts';
import { disconnectWhenStalled } from './stalled-client.ts';

/** The runtime counts in steps of four seconds. */
const idleSeconds = 4;
const testMs = 120_000;

class OneKey extends Authenticator {
  constructor() {
    const nobody = async () => undefined;
    super({ findKey: nobody, adminTokenHash: nobody, markUsed: nobody });
  }

  override authenticate(key: string): Caller {
    if (key === 'known') return callerOf('acme');
    throw new GatewayError('invalid_api_key', 'The API key is not valid.');
  }

  override async isAdmin(token: string): Promise<boolean> {
    return token === 'operator';
  }
}

const thought = Promise.withResolvers<void>();

async function think({ request }: Exchange): Promise<Response> {
  if (request.headers.has('x-refuse')) throw invalidRequest('Refused before it was read.');
  await thought.promise;
  return new Response('thought');
}

/** More than the buffers of the system take. */
const long = 'long '.repeat(6_000_000);

/** Says a word whenever its client has taken the last, until it is told that nobody listens. */
class Endless implements AsyncIterableIterator<string> {
  readonly ended = Promise.withResolvers<string>();

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<string>> {
    return { done: false, value: 'word '.repeat(20_000) };
  }

  async return(): Promise<IteratorResult<string>> {
    this.ended.resolve('ended');
    return { done: true, value: undefined };
  }
}

const endless = new Endless();

/** Silent for twice as long as an idle connection lives, and then done. */
async function* slow() {
  yield 'first';
  await Bun.sleep(2_000 * idleSeconds);
  yield 'last';
}

const logged: string[] = [];

async function failAs({ request }: Exchange): Promise<Response> {
  const cause = new Error('timeout exceeded when trying to connect');
  if (request.headers.has('x-fault')) throw cause;
  throw new GatewayError('service_unavailable', 'The key store is away.', { cause });
}

const server = new HttpServer({
  idleSeconds,
  authenticator: new OneKey(),
  log: createLog((line) => void logged.push(line)),
  routes: [
    { method: 'GET', path: '/open', access: 'public', handle: () => new Response('open') },
    { method: 'POST', path: '/think', access: 'routing', handle: think },
    { method: 'GET', path: '/reckon', access: 'admin', handle: think },
    { method: 'GET', path: '/quick', access: 'routing', handle: (it) => json(it, {}) },
    {
      method: 'GET',
      path: '/endless',
      access: 'routing',
      handle: (it) => new Response(disconnectWhenStalled(it, endless, idleSeconds)),
    },
    {
      method: 'GET',
      path: '/slow',
      access: 'routing',
      handle: (it) => new Response(disconnectWhenStalled(it, slow(), idleSeconds)),
    },
    { method: 'GET', path: '/long', access: 'public', handle: (it) => json(it, long) },
    { method: 'GET', path: '/fail', access: 'public', handle: failAs },
  ],
});
let port = 0;
beforeAll(() => {
  port = server.listen('127.0.0.1', 0);
});
afterAll(() => server.drain(0));

/** Sends the first text at once, and then `drip` every second. */
function send(first: string, drip = '') {
  const socket = connect(port, '127.0.0.1');
  let heard = '';
  socket.on('data', (bytes) => {
    heard += bytes.toString();
  });
  socket.on('error', () => undefined);
  socket.write(first);
  const dripping = setInterval(() => drip && socket.write(drip), 1_000);
  const closed = once(socket, 'close').then(() => {
    clearInterval(dripping);
    return heard;
  });
  return { socket, closed, heard: () => heard };
}

const head = (line: string, ...lines: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: gateway', ...lines].join('\r\n')}\r\n\r\n`;
const withKey = 'Authorization: Bearer known';

test.concurrent(
  'connections that lead nowhere are closed, those of callers who wait are not',
  async () => {
    const waiting = [
      send(head('POST /think', withKey, 'Content-Length: 0')),
      send(head('GET /reckon', 'Authorization: Bearer operator')),
    ];
    const nowhere = {
      'between requests': send(head('GET /open')),
      'between requests with a key': send(head('GET /quick', withKey)),
      'behind the last piece': send(head('GET /slow', withKey)),
      'behind the head of pieces': send(head('HEAD /slow', withKey)),
      'in the next head': send(head('GET /open'), 'G'),
      'in a body without a key': send(head('POST /think', 'Content-Length: 1000'), 'x'),
      'in a body that was refused': send(
        head('POST /think', withKey, 'X-Refuse: 1', 'Content-Length: 1000'),
        'x',
      ),
    };
    const firstLines: Record<string, string | undefined> = {};
    for (const [where, { closed }] of Object.entries(nowhere)) {
      [firstLines[where]] = (await closed).split('\r\n');
    }
    expect(firstLines).toEqual({
      'between requests': 'HTTP/1.1 200 OK',
      'between requests with a key': 'HTTP/1.1 200 OK',
      'behind the last piece': 'HTTP/1.1 200 OK',
      'behind the head of pieces': 'HTTP/1.1 200 OK',
      'in the next head': 'HTTP/1.1 200 OK',
      'in a body without a key': 'HTTP/1.1 401 Unauthorized',
      'in a body that was refused': 'HTTP/1.1 400 Bad Request',
    });
    // The last of these connections lived three times as long as an idle one does.
    for (const { heard, socket } of waiting) {
      expect(heard()).toBe('');
      expect(socket.closed).toBe(false);
    }
    thought.resolve();
    for (const { heard, socket } of waiting) {
      while (!heard().endsWith('thought')) await once(socket, 'data');
      socket.destroy();
    }
  },
  testMs,
);

test.concurrent(
  'an answer that nobody takes ends, and one whose upstream is silent does not',
  async () => {
    const stalled = send(head('GET /endless', withKey));
    await once(stalled.socket, 'data');
    stalled.socket.pause();
    const patient = send(head('GET /slow', withKey));
    expect(await endless.ended.promise).toBe('ended');
    while (!patient.heard().includes('last')) await once(patient.socket, 'data');
    stalled.socket.destroy();
    patient.socket.destroy();
  },
  testMs,
);

test.concurrent(
  'a long answer may take longer than an idle connection lives',
  async () => {
    const { socket, closed } = send(head('GET /long', 'Connection: close'));
    await once(socket, 'data');
    socket.pause();
    await send(head('GET /open')).closed;
    await send(head('GET /open')).closed;
    socket.resume();
    expect((await closed).endsWith(`${long}"`)).toBe(true);
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
    '/think',
    'websocket',
    '426 Upgrade Required',
    "WebSocket isn't supported here. Use POST.",
    ['HTTP/1.1', 'Upgrade'],
  ],
  ['/think', 'h2c', '405 Method Not Allowed', "GET isn't supported here. Use POST.", []],
  [
    '/realtime',
    'websocket',
    '404 Not Found',
    'There is no GET /realtime. WebSockets are not supported.',
    [],
  ],
])('an upgrade of GET %s to %s: %s', async (path, protocol, status, message, offered) => {
  const upgrade = ['Connection: Upgrade', `Upgrade: ${protocol}`];
  const { socket, heard } = send(head(`GET ${path}`, ...handshake, ...upgrade));
  while (!heard().endsWith('}')) await once(socket, 'data');
  socket.destroy();
  expect(heard()).toStartWith(`HTTP/1.1 ${status}\r\n`);
  expect(heard()).toContain(JSON.stringify(message));
  const told = ['upgrade', 'connection'].flatMap((name) => {
    return new RegExp(`^${name}: (.*)\r$`, 'im').exec(heard())?.[1] ?? [];
  });
  expect(told).toEqual(offered);
});

/** Notes what the server that it hands over is told. */
class WatchedRoom extends StartupServer {
  readonly patience: number[] = [];
  handlers: Handlers | undefined;

  override handOff(handlers: Handlers): Bun.Server<undefined> | undefined {
    this.handlers = handlers;
    const handedOver = super.handOff(handlers);
    if (handedOver) {
      const note = (_: Request, seconds: number) => void this.patience.push(seconds);
      spyOn(handedOver, 'timeout').mockImplementation(note);
    }
    return handedOver;
  }
}

function listenWatched(): WatchedRoom {
  const room = new WatchedRoom('1.0.0');
  room.listen('127.0.0.1', 0, false, 'not yet');
  const lengthOf = ({ query }: Exchange) => Number(query.get('length'));
  const watched = new HttpServer({
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
  watched.listen('127.0.0.1', 0, false, room);
  return room;
}

test.each([
  [0, 4],
  [1, 5],
  [16_384, 5],
  [16_385, 6],
  [3_866_624, 240],
  // Longer than the runtime can count.
  [3_866_625, 0],
])(
  'a reader of 16 KiB a second may take an answer of %i bytes: %i seconds',
  async (length, seconds) => {
    const room = listenWatched();
    try {
      const serve = room.handlers?.fetch;
      await serve?.(new Request(`http://gateway/answer?length=${length}`));
      expect(room.patience).toEqual([seconds]);
    } finally {
      await room.close();
    }
  },
);

test('an uncaught error is a failure of ours, and its words stay here', async () => {
  const room = listenWatched();
  try {
    const response = room.handlers?.error(new Error('SELECT secret'));
    expect(response?.status).toBe(500);
    const message = 'An internal error occurred.';
    const error = { message, type: 'internal_error', code: 500, param: null };
    expect(await response?.json()).toEqual({ error });
  } finally {
    await room.close();
  }
});

test('failed requests leave a line for what is away, and one for each fault of ours', async () => {
  const fail = async (...more: string[]) => {
    const { socket, heard } = send(head('GET /fail', ...more));
    while (!heard().endsWith('}')) await once(socket, 'data');
    socket.destroy();
  };
  const fault = ['X-Fault: 1'];
  for (const more of [[], [], fault, fault]) await fail(...more);
  const away = 'The key store is away. (timeout exceeded when trying to connect)';
  const toldOf = (lines: readonly string[]): unknown[] => lines.map((line) => JSON.parse(line));
  expect(toldOf(logged)).toMatchObject([
    { event: 'request_failed', symbol: 'service_unavailable', reason: away },
    { symbol: 'internal_error', reason: 'timeout exceeded when trying to connect' },
    { event: 'request_failed', symbol: 'internal_error' },
  ]);
  const counted = { level: 'error', event: 'requests_failed', reason: away };
  await Promise.all(server.periodicTasks().map((chore) => chore.run()));
  expect(toldOf(logged.slice(3))).toMatchObject([{ ...counted, requests: 1 }]);
  for (let times = 0; times < 2; times++) await fail();
  // A stop must not lose the line that the next minute would have logged.
  await server.drain(0);
  expect(toldOf(logged.slice(4))).toMatchObject([{ ...counted, requests: 2 }]);
});
