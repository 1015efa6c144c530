/**
 * Unusual HTTP clients: they send invalid Host headers, disconnect during the body, or read nothing
 * until they have sent the full body.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { connect as connectTo } from 'node:net';
import { type Gateway, startGateway } from '../support/gateway.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const startMs = 120_000;
let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
}, startMs);
afterAll(() => gateway.stop(), startMs);

interface Connection {
  send(text: string): void;
  disconnect(): void;
  /** Resolves with the received text once `isEnough` accepts it or the connection is closed. */
  until(isEnough: (text: string) => boolean): Promise<string>;
  readonly closed: Promise<void>;
}

async function connect(): Promise<Connection> {
  const { hostname, port } = new URL(gateway.url);
  const closed = Promise.withResolvers<void>();
  let received = '';
  let wake = () => {};
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data(_, bytes) {
        received += bytes.toString();
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
    disconnect: () => socket.terminate(),
    async until(isEnough) {
      while (!isEnough(received) && !isClosed) {
        const more = new Promise<void>((resolve) => {
          wake = resolve;
        });
        await within(more, `more than ${JSON.stringify(received)} from the gateway`);
      }
      return received;
    },
    closed: closed.promise,
  };
}

const withKey = (lines: string) => `${lines}\r\nAuthorization: Bearer ${gateway.keys.api}\r\n`;

test.each([':80', 'x:99999999', '%00', '[::1]:x', '[[[', 'a b', 'x?y', 'x#y', '', 'é'])(
  'routes a request normally if its Host header is %p',
  async (host) => {
    const connection = await connect();
    connection.send(withKey(`GET /v1/generation?id=none HTTP/1.1\r\nHost: ${host}`));
    connection.send('\r\n');
    const received = await connection.until((text) => text.includes('}}'));
    expect(received).toStartWith('HTTP/1.1 404 ');
    expect(received).toContain('There is no request with this ID.');
    connection.disconnect();
  },
);

test('reads the body as JSON if Content-Type is empty', async () => {
  const connection = await connect();
  connection.send(withKey('POST /v1/chat/completions HTTP/1.1\r\nHost: gateway'));
  connection.send('Content-Type:\r\nContent-Length: 2\r\n\r\n{}');
  const received = await connection.until((text) => text.includes('}}'));
  expect(received).toStartWith('HTTP/1.1 400 ');
  expect(received).toContain('"param":"model"');
  connection.disconnect();
});

const expecting = (expectation: string) =>
  `POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nExpect: ${expectation}`;

// Java's client sends the second one.
test.each(['100-continue', '100-Continue', '100-CONTINUE'])(
  'requests the body from a client that waits with Expect: %s',
  async (expectation) => {
    // Connections of other clients, one of which has the same key.
    const others = await Promise.all([connect(), connect()]);
    const connection = await connect();
    connection.send(`${withKey(expecting(expectation))}Content-Length: 2\r\n\r\n`);
    const received = await connection.until((text) => text.endsWith('\r\n\r\n'));
    expect(received).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    connection.send('{}');
    expect(await connection.until((text) => text.includes('}}'))).toContain('"param":"model"');
    for (const other of [...others, connection]) {
      other.disconnect();
      await other.closed;
    }
    for (const other of others) expect(await other.until(() => false)).toBe('');
  },
);

test('rejects an unknown key before a client that waits sends the body', async () => {
  const connection = await connect();
  connection.send(`${expecting('100-Continue')}\r\nContent-Length: 2\r\n\r\n`);
  expect(await connection.until(() => false)).toStartWith('HTTP/1.1 401 ');
});

test.each(['Content-Length: 1000', 'Transfer-Encoding: chunked'])(
  'logs a disconnect during the body as canceled and charges nothing: %s',
  async (framing) => {
    const before = await gateway.balance();
    // Log lines are written in batches, so lines of earlier requests may still arrive.
    const canceledLines = () => gateway.log().filter((line) => line.cancelled);
    const countBefore = canceledLines().length;
    const connection = await connect();
    connection.send(withKey('POST /v1/chat/completions HTTP/1.1\r\nHost: gateway'));
    connection.send(`Content-Type: application/json\r\n${framing}\r\n\r\n3e8\r\n{"model":`);
    // Once this request is answered, the gateway has started to read the partial body.
    await gateway.call('GET', '/v1/models', { key: gateway.keys.api });
    connection.disconnect();
    await within(connection.closed, 'the connection to close');
    // The log line attributes the failure to the client.
    await waitUntil(() => canceledLines().length !== countBefore, { everyMs: 20 });
    expect(canceledLines().at(-1)).toMatchObject({
      event: 'request',
      error: 'invalid_request_error',
      credits: 0,
    });
    expect(gateway.log().map(({ event }) => event)).not.toContain('request_failed');
    expect(await gateway.balance()).toBe(before);
  },
  startMs,
);

/** Sends the full body before it reads anything, as proxies do, with `Connection: close`. */
async function sendBody(
  path: string,
  lines: string,
  body: Buffer,
): Promise<{ received: string; isSent: boolean }> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connectTo(Number(new URL(gateway.url).port), '127.0.0.1');
  let [received, isReset] = ['', false];
  socket.on('data', (bytes) => {
    received += bytes.toString();
  });
  socket.on('error', () => {
    isReset = true;
  });
  socket.on('close', () => resolve());
  const length = `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
  socket.write(`POST ${path} HTTP/1.1\r\nHost: gateway\r\n${lines}${length}`);
  socket.write(body);
  await promise;
  return { received, isSent: socket.bytesWritten > body.length && !isReset };
}

const filler = Buffer.alloc(1_000_000, 'x');

test(
  'reads a rejected form to the end so that the client receives the error',
  async () => {
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.exe"\r\n\r\n';
    const body = Buffer.concat([Buffer.from(part), filler, Buffer.from('\r\n--b--\r\n')]);
    const lines = withKey('Content-Type: multipart/form-data; boundary=b');
    const { received, isSent } = await sendBody('/v1/audio/transcriptions', lines, body);
    expect([received.slice(0, 12), isSent]).toEqual(['HTTP/1.1 400', true]);
  },
  startMs,
);

test.each([
  [401, () => 'Content-Type: application/json\r\n'],
  [415, () => withKey('Content-Type: text/plain')],
])(
  'reads the body to the end if the request was rejected early with %d',
  async (status, lines) => {
    const { received, isSent } = await sendBody('/v1/chat/completions', lines(), filler);
    expect([received.slice(0, 12), isSent]).toEqual([`HTTP/1.1 ${status}`, true]);
  },
  startMs,
);

test.each([
  ['a public route', '/v1/nothing', ''],
  ['an unknown key', '/v1/chat/completions', ''],
  ['a declared length', '/v1/chat/completions', 'key'],
  ['a form', '/v1/audio/transcriptions', 'form'],
])(
  'stops reading a rejected body after 1 MiB: %s',
  async (_, path, kind) => {
    const connection = await connect();
    const type = kind === 'form' ? 'multipart/form-data; boundary=b' : 'application/json';
    const line = `Content-Type: ${type}`;
    const lines = kind === '' ? `${line}\r\n` : withKey(line);
    connection.send(`POST ${path} HTTP/1.1\r\nHost: gateway\r\n${lines}`);
    connection.send(`Content-Length: ${2 ** 40}\r\n\r\n`);
    const chunk = Buffer.alloc(1024 * 1024, 'x').toString();
    let isClosed = false;
    void connection.closed.then(() => {
      isClosed = true;
    });
    // More than both sides' socket buffers.
    for (let sent = 0; sent < 100 && !isClosed; sent += 1) {
      connection.send(chunk);
      await Bun.sleep(5);
    }
    await connection.closed;
  },
  startMs,
);
