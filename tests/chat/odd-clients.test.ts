/** Clients that no library would make: half requests, silence, hosts that are none. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { connect as connectTo } from 'node:net';
import { type Gateway, startGateway } from '../support/gateway.ts';

const startMs = 120_000;
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

interface Connection {
  send(text: string): void;
  hangUp(): void;
  /** All that came, once `isEnough` of it did, or the gateway has closed. */
  until(isEnough: (text: string) => boolean): Promise<string>;
  readonly closed: Promise<void>;
}

async function connect(): Promise<Connection> {
  const { hostname, port } = new URL(gateway.url);
  const closed = Promise.withResolvers<void>();
  let heard = '';
  let wake = () => {};
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data(_, bytes) {
        heard += bytes.toString();
        wake();
      },
      close() {
        closed.resolve();
        wake();
      },
    },
  });
  let isClosed = false;
  void closed.promise.then(() => {
    isClosed = true;
  });
  return {
    send: (text) => void socket.write(text),
    hangUp: () => socket.terminate(),
    async until(isEnough) {
      while (!isEnough(heard) && !isClosed) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return heard;
    },
    closed: closed.promise,
  };
}

const withKey = (lines: string) => `${lines}\r\nAuthorization: Bearer ${gateway.keys.api}\r\n`;

test.each([':80', 'x:99999999', '%00', '[::1]:x', '[[[', 'a b', 'x?y', 'x#y', '', 'é'])(
  'a Host of %p is no failure of ours',
  async (host) => {
    const connection = await connect();
    connection.send(withKey(`GET /v1/generation?id=none HTTP/1.1\r\nHost: ${host}`));
    connection.send('\r\n');
    const heard = await connection.until((text) => text.includes('}}'));
    expect(heard).toStartWith('HTTP/1.1 404 ');
    expect(heard).toContain('There is no request with this id.');
    connection.hangUp();
  },
);

test('a Content-Type with nothing in it says nothing: the body is read as JSON', async () => {
  const connection = await connect();
  connection.send(withKey('POST /v1/chat/completions HTTP/1.1\r\nHost: gateway'));
  connection.send('Content-Type:\r\nContent-Length: 2\r\n\r\n{}');
  const heard = await connection.until((text) => text.includes('}}'));
  expect(heard).toStartWith('HTTP/1.1 400 ');
  expect(heard).toContain('"param":"model"');
  connection.hangUp();
});

test.each(['Content-Length: 1000', 'Transfer-Encoding: chunked'])(
  'a client that leaves in the middle of its body costs nobody anything: %s',
  async (framing) => {
    const before = await gateway.balance();
    // Lines are written in batches: those of earlier requests may still be on their way.
    const cancelled = () => gateway.log().filter((line) => line.cancelled);
    const cancelledBefore = cancelled().length;
    const connection = await connect();
    connection.send(withKey('POST /v1/chat/completions HTTP/1.1\r\nHost: gateway'));
    connection.send(`Content-Type: application/json\r\n${framing}\r\n\r\n3e8\r\n{"model":`);
    // The next request is answered behind the half one: then that one is being read.
    await gateway.call('GET', '/v1/models', { key: gateway.keys.api });
    connection.hangUp();
    await connection.closed;
    // The line of the request says whose fault it was.
    while (cancelled().length === cancelledBefore) await Bun.sleep(20);
    expect(cancelled().at(-1)).toMatchObject({
      event: 'request',
      error: 'invalid_request_error',
      credits: 0,
    });
    expect(gateway.log().map(({ event }) => event)).not.toContain('request_failed');
    expect(await gateway.balance()).toBe(before);
  },
  startMs,
);

/** Sends all of a body before it listens, as proxies do, on a connection that is to be closed. */
async function sendWhole(
  path: string,
  lines: string,
  body: Buffer,
): Promise<{ heard: string; isSent: boolean }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connectTo(Number(new URL(gateway.url).port), '127.0.0.1');
  let [heard, isReset] = ['', false];
  socket.on('data', (bytes) => {
    heard += bytes.toString();
  });
  socket.on('error', () => {
    isReset = true;
  });
  socket.on('close', () => resolve());
  const length = `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  socket.write(`POST ${path} HTTP/1.1\r\nHost: gateway\r\n${lines}${length}`);
  socket.write(body);
  await promise;
  return { heard, isSent: socket.bytesWritten > body.length && !isReset };
}

const long = Buffer.alloc(16 * 1024 * 1024, 'x');

test(
  'a form that is refused in the middle is let finish, so that its sender hears why',
  async () => {
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.exe"\r\n\r\n';
    const body = Buffer.concat([Buffer.from(part), long, Buffer.from('\r\n--b--\r\n')]);
    const lines = withKey('Content-Type: multipart/form-data; boundary=b');
    const { heard, isSent } = await sendWhole('/v1/audio/transcriptions', lines, body);
    expect([heard.slice(0, 12), isSent]).toEqual(['HTTP/1.1 400', true]);
  },
  startMs,
);

test.each([
  [401, () => 'Content-Type: application/json\r\n'],
  [413, () => withKey('Content-Type: application/json')],
  [415, () => withKey('Content-Type: text/plain')],
])(
  'a body that is refused with %d before it is read is let finish, too',
  async (status, lines) => {
    const body = Buffer.concat([long, long]);
    const { heard, isSent } = await sendWhole('/v1/chat/completions', lines(), body);
    expect([heard.slice(0, 12), isSent]).toEqual([`HTTP/1.1 ${status}`, true]);
  },
  startMs,
);
