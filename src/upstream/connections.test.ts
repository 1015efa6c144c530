import { afterEach, beforeEach, describe, expect, mock, spyOn, test } from 'bun:test';
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { type Borrower, Connections, connectionsTo } from './connections.ts';
import { callOperatorServer } from './operator-call.ts';

/** What becomes of one request. */
type Ending =
  | 'answer'
  | 'half answer'
  | 'last answer'
  | 'Last Answer'
  | 'unmeasured answer'
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
  const heard: string[] = [];
  let connections = 0;
  server = createServer((socket) => {
    const name = `connection ${++connections}`;
    socket.on('error', () => {});
    socket.on('data', () => {
      const ending = endings.shift() ?? 'answer';
      heard.push(`${name}: ${ending}`);
      end(socket, ending);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return { url: `http://127.0.0.1:${address.port}/v1`, heard };
}

const opening = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n';

function end(socket: Socket, ending: Ending): void {
  if (ending === 'answer') socket.write(`${opening}\r\nok`);
  else if (ending === 'half answer') socket.write(`${opening}\r\no`);
  else if (ending === 'last answer') socket.end(`${opening}Connection: close\r\n\r\nok`);
  else if (ending === 'Last Answer') socket.end(`${opening}Connection: Close\r\n\r\nok`);
  else if (ending === 'unmeasured answer') socket.end('HTTP/1.1 200 OK\r\n\r\nok');
  else if (ending === 'close') socket.end();
  else if (ending === 'reset') socket.resetAndDestroy();
  else {
    now += 1_100;
    socket.resetAndDestroy();
  }
}

let connections: Connections;
beforeEach(() => {
  connections = new Connections(0);
});

async function post(url: string, call: BunFetchRequestInit = { body: '{}' }): Promise<string> {
  return (await connections.post(url, { method: 'POST', ...call })).text();
}

const broken = { code: 'ECONNRESET' };

describe('a request whose connection dies under it', () => {
  test.each(['reset', 'close'] as const)('is sent again on a new one: %s', async (ending) => {
    const { url, heard } = await serverThat('answer', ending);
    expect([await post(url), await post(url)]).toEqual(['ok', 'ok']);
    expect(heard).toEqual([
      'connection 1: answer',
      `connection 1: ${ending}`,
      'connection 2: answer',
    ]);
  });

  test('is sent again whatever the path and however many die together', async () => {
    const { url } = await serverThat('answer', 'answer', 'answer', 'reset', 'reset', 'reset');
    const three = () => Promise.all(['/a', '/b', '/c'].map((path) => post(url + path)));
    expect([await three(), await three()].flat()).toEqual(Array(6).fill('ok'));
  });

  test('fails when the new one dies, too', async () => {
    const { url, heard } = await serverThat('answer', 'reset', 'reset');
    await post(url);
    expect(await failureOf(post(url))).toMatchObject(broken);
    expect(heard).toHaveLength(3);
  });

  test('fails at once when it was a new one', async () => {
    const { url, heard } = await serverThat('reset', 'reset');
    expect(await failureOf(post(url))).toMatchObject(broken);
    expect(heard).toEqual(['connection 1: reset']);
  });

  test.each(['last answer', 'Last Answer', 'unmeasured answer'] as const)(
    'fails at once when the last one was closed after its answer: %s',
    async (answer) => {
      const { url, heard } = await serverThat(answer, 'reset');
      await post(url);
      expect(await failureOf(post(url))).toMatchObject(broken);
      expect(heard).toEqual([`connection 1: ${answer}`, 'connection 2: reset']);
    },
  );

  test('fails at once while the answer on the other one is still being read', async () => {
    const { url, heard } = await serverThat('half answer', 'reset');
    const { signal } = new AbortController();
    const borrower: Borrower = { signal };
    const call = { method: 'POST', body: '{}', signal };
    const other = await connections.post(url, call, borrower);
    expect(await failureOf(post(url))).toMatchObject(broken);
    expect(heard).toEqual(['connection 1: half answer', 'connection 2: reset']);
    expect(borrower.lender).toBe(connections);
    await other.body?.cancel();
  });

  test('fails when its connection was in use just before: it must have been heard', async () => {
    connections = new Connections(60_000);
    const { url, heard } = await serverThat('answer', 'reset');
    await post(url);
    expect(await failureOf(post(url))).toMatchObject(broken);
    expect(heard).toEqual(['connection 1: answer', 'connection 1: reset']);
  });

  test('fails when it had been heard: it was worked on for a while', async () => {
    const { url, heard } = await serverThat('answer', 'reset late');
    await post(url);
    expect(await failureOf(post(url))).toMatchObject(broken);
    expect(heard).toEqual(['connection 1: answer', 'connection 1: reset late']);
  });

  test('fails when its body is read while it is sent', async () => {
    const { url, heard } = await serverThat('answer', 'reset');
    await post(url);
    const body = new Response('{}').body;
    if (body === null) throw new Error('no body');
    expect(await failureOf(post(url, { body, keepalive: false }))).toMatchObject(broken);
    expect(heard).toEqual(['connection 1: answer', 'connection 2: reset']);
  });
});

test('a search that is posted is sent again, too', async () => {
  const { url, heard } = await serverThat('answer', 'reset');
  const search = { method: 'POST', url, headers: {}, body: '{}' } as const;
  for (const pauseMs of [0, 300]) {
    now += pauseMs;
    const response = await callOperatorServer(search, new AbortController().signal);
    expect(await response.text()).toBe('ok');
  }
  expect(heard).toHaveLength(3);
});

test('connections are shared by origin', () => {
  const some = connectionsTo('http://127.0.0.1:1/v1');
  expect(connectionsTo('http://127.0.0.1:1/v1beta/openai')).toBe(some);
  expect(connectionsTo('http://127.0.0.1:2/v1')).not.toBe(some);
});
