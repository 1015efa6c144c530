/** A gateway that starts before Postgres waits for the database and logs that it is waiting. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import pg from 'pg';
import { isObject, parseJson } from '../../src/core/json.ts';
import { freePort } from '../support/free-port.ts';
import { firstStartSecrets, run, spawnTollgate } from '../support/gateway.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const testMs = 120_000;
let postgres: OwnPostgres;
beforeAll(async () => {
  postgres = await startOwnPostgres({ durable: false });
}, testMs);
afterAll(() => postgres.stop(), testMs);

/** Long enough for a busy machine. */
const config = { server: { database_wait_seconds: 600 } };

/** Starts a gateway and resolves once it logs that it is waiting for the database. */
async function startWaiting(DATABASE_URL: string, args: readonly string[] = []) {
  const spawned = spawnTollgate(['serve', '--port', '0'], { config, env: { DATABASE_URL }, args });
  const [line] = await spawned.until('stderr', (text) => awaitedIn(text));
  return { ...spawned, reason: line?.reason, url: `http://127.0.0.1:${line?.port}` };
}

type Line = Record<string, unknown>;

function linesOf(text: string, event: string): Line[] {
  const lines = text.split('\n').map(parseJson).filter(isObject);
  return lines.filter((line) => line.event === event);
}

function awaitedIn(text: string): Line[] | undefined {
  const found = linesOf(text, 'database_unreachable');
  return found.length > 0 ? found : undefined;
}

const chat = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

async function send(url: string, path: string, method = 'POST', key = 'sk-tg-any') {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, connection: 'close' },
    ...(method === 'POST' ? { body: JSON.stringify(chat) } : {}),
  });
  const text = await response.text();
  const body = parseJson(text);
  return { status: response.status, headers: response.headers, body: isObject(body) ? body : {} };
}

const readyAt = (text: string) => / is ready at (\S+)\n.*Try it/s.exec(text)?.[1];
const routingKeyIn = (text: string) =>
  /Routing key +(sk-\S+)/.exec(firstStartSecrets(text))?.[1] ?? '';

/** Opens a connection that sends several requests. */
async function openConnection(url: string) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let received = '';
  socket.on('data', (bytes) => {
    received += bytes;
  });
  await once(socket, 'connect');
  return {
    socket,
    async statusOf(path: string): Promise<string> {
      received = '';
      socket.write(`GET ${path} HTTP/1.1\r\nhost: tollgate\r\n\r\n`);
      await waitUntil(() => /\r\n\r\n\{.*\}$/s.test(received));
      return received.split(' ')[1] ?? '';
    },
  };
}

test(
  'a waiting gateway answers probes, rejects requests with 503, and serves once Postgres is up',
  async () => {
    const url = await postgres.createDatabase();
    await postgres.halt('fast');
    const waiting = await startWaiting(url);
    const { url: baseUrl, reason, until, stderr, stdout, process: child, finished } = waiting;
    const port = new URL(url).port;
    expect(reason).toMatch(new RegExp(`^Postgres at 127.0.0.1:${port}/\\w+ cannot be reached: `));
    expect((await send(baseUrl, '/healthz', 'GET')).status).toBe(200);
    const ready = await send(baseUrl, '/readyz', 'GET');
    expect([ready.status, ready.body.status]).toEqual([503, 'unavailable']);
    expect(String(ready.body.reason)).toContain('connection refused');
    const connection = await openConnection(baseUrl);
    expect(await connection.statusOf('/healthz')).toBe('200');

    const message = 'The gateway is waiting for its database. Try again shortly.';
    const name = 'service_unavailable';
    const chat = { error: { message, type: name, code: 503, param: null } };
    const plain = { error: { message, type: name, code: name, param: null } };
    const images = { error: { message, type: 'api_error', code: 'service_unavailable' } };
    const messages = { type: 'error', error: { type: 'overloaded_error', message } };
    for (const [path, body] of [
      ['/v1/chat/completions', chat],
      ['/v1/responses', plain],
      ['/admin/v1/tenants', plain],
      ['/v1/images/generations', images],
      ['/v1/messages', messages],
      ['/anthropic/v1/messages', messages],
    ] as const) {
      const rejected = await send(baseUrl, path);
      expect([path, rejected.status, rejected.body]).toMatchObject([path, 503, body]);
      expect(rejected.headers.get('retry-after')).toBe('2');
      expect(rejected.headers.get('x-should-retry')).toBeNull();
      expect(rejected.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect((await send(baseUrl, '/v1/models', 'GET')).status).toBe(503);
    expect((await send(baseUrl, '/v1/chat/completions', 'OPTIONS')).status).toBe(204);
    expect(stdout.text).toBe('');

    await postgres.start();
    expect(await until('stdout', readyAt)).toBe(baseUrl);
    // The connection stayed open, and the wait was logged only once.
    expect(await connection.statusOf('/readyz')).toBe('200');
    connection.socket.destroy();
    await until('stderr', (text) => linesOf(text, 'database_connected')[0]);
    expect(linesOf(stderr.text, 'database_unreachable')).toHaveLength(1);
    expect(linesOf(stderr.text, 'database_connected')).toHaveLength(1);
    const answer = await send(baseUrl, '/v1/chat/completions', 'POST', routingKeyIn(stdout.text));
    expect([answer.status, answer.body.model]).toEqual([200, 'demo/chat']);
    expect((await send(baseUrl, '/v1/chat/completions')).status).toBe(401);
    child.kill('SIGTERM');
    expect((await within(finished, 'the waiting gateway to exit', 60_000)).exitCode).toBe(0);
  },
  testMs,
);

test(
  'a gateway answers probes while another process migrates the tables',
  async () => {
    const url = await postgres.createDatabase();
    // Another process that migrates the tables holds this lock.
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    await other.query('select pg_advisory_lock(7316205114)');
    const { url: baseUrl, reason, until, process: child, finished } = await startWaiting(url);
    const sentence = 'Its tables are being migrated.';
    expect(reason).toBe(sentence);
    expect((await send(baseUrl, '/healthz', 'GET')).status).toBe(200);
    const ready = await send(baseUrl, '/readyz', 'GET');
    expect([ready.status, ready.body.reason]).toEqual([
      503,
      `The store is unavailable: ${sentence}`,
    ]);
    expect((await send(baseUrl, '/v1/chat/completions')).status).toBe(503);
    await other.end();
    expect(await until('stdout', readyAt)).toBe(baseUrl);
    expect((await send(baseUrl, '/readyz', 'GET')).status).toBe(200);
    child.kill('SIGTERM');
    expect((await within(finished, 'the waiting gateway to exit', 60_000)).exitCode).toBe(0);
  },
  testMs,
);

test(
  'a second signal stops a gateway that is waiting for migrations',
  async () => {
    const url = await postgres.createDatabase();
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    await other.query('select pg_advisory_lock(7316205114)');
    const { process: child, finished } = await startWaiting(url);
    // Uses another signal, because the system may deliver two signals of the same kind as one.
    child.kill('SIGTERM');
    child.kill('SIGINT');
    expect((await within(finished, 'the waiting gateway to exit', 60_000)).exitCode).toBe(0);
    const { rows } = await other.query("select to_regclass('migrations') as found");
    expect(rows).toEqual([{ found: null }]);
    await other.end();
  },
  testMs,
);

/** Starts a server that sends these bytes and closes, or never answers. */
function startServer(reply: Uint8Array | null, onData = () => {}) {
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket) {
        onData();
        if (reply) socket.end(reply);
      },
    },
  });
  const url = `postgres://me:hunter2@127.0.0.1:${server.port}/tollgate`;
  return { url, [Symbol.dispose]: () => server.stop(true) };
}

/** Returns the message with which Postgres rejects a session. */
function fatal(code: string, message: string): Uint8Array {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

// These tests are concurrent, because each one only waits for its own server.
describe.concurrent('a gateway waits and can be stopped if the database', () => {
  test.each([
    ['is starting up', fatal('57P03', 'the database system is starting up'), 'starting up'],
    ['has no connection left', fatal('53300', 'too many clients'), 'too many connections'],
    ['does not answer', null, 'timeout'],
  ])(
    '%s',
    async (_, reply, cause) => {
      using server = startServer(reply);
      const { reason, process: child, finished, url } = await startWaiting(server.url);
      expect(String(reason)).toContain(cause);
      expect((await send(url, '/healthz', 'GET')).status).toBe(200);
      child.kill('SIGTERM');
      const { exitCode, stdout, stderr } = await within(
        finished,
        'the waiting gateway to exit',
        60_000,
      );
      expect([exitCode, stdout]).toEqual([0, '']);
      expect(stderr).not.toContain('hunter2');
    },
    testMs,
  );

  test(
    'has a host name that cannot be resolved',
    async () => {
      const {
        reason,
        process: child,
        finished,
      } = await startWaiting('postgres://me:hunter2@database.invalid/tollgate');
      expect(String(reason)).toContain('the host name');
      child.kill('SIGINT');
      expect((await within(finished, 'the waiting gateway to exit', 60_000)).exitCode).toBe(0);
    },
    testMs,
  );
});

test(
  'a gateway exits with 1 and one sentence after database_wait_seconds',
  async () => {
    const env = { DATABASE_URL: 'postgres://me:hunter2@127.0.0.1:1/tollgate' };
    const shortWait = { server: { database_wait_seconds: 1 } };
    const ended = await run(['serve', '--port', '0'], { config: shortWait, env });
    const [awaited, sentence, rest] = ended.stderr.split('\n');
    expect([ended.exitCode, ended.stdout, rest]).toEqual([1, '', '']);
    expect(linesOf(awaited ?? '', 'database_unreachable')).toHaveLength(1);
    const expected = 'Postgres at 127.0.0.1:1/tollgate cannot be reached: connection refused.';
    expect(sentence).toBe(expected);
  },
  testMs,
);

describe('exits immediately with 1 and one sentence for', () => {
  async function configured(change: (url: URL) => void): Promise<string> {
    const url = new URL(await postgres.createDatabase());
    change(url);
    return url.href;
  }

  async function withAsynchronousCommit(): Promise<string> {
    const url = await postgres.createDatabase();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const name = new URL(url).pathname.slice(1);
    await client.query(`alter database ${name} set synchronous_commit = off`);
    await client.end();
    return url;
  }

  test.each<[string, () => Promise<string>, string]>([
    [
      'a wrong password',
      () =>
        configured((url) => {
          url.password = 'hunter2';
        }),
      'wrong user or password',
    ],
    [
      'a database that does not exist',
      () =>
        configured((url) => {
          url.pathname = '/missing';
        }),
      'the database does not exist',
    ],
    ['a database with synchronous_commit off', withAsynchronousCommit, 'synchronous_commit off'],
  ])(
    '%s',
    async (_, address, cause) => {
      const env = { DATABASE_URL: await address() };
      const { exitCode, stdout, stderr } = await run(['serve', '--port', '0'], { env });
      expect([exitCode, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^Postgres at [^\n]+\.\n$/);
      expect(stderr).toContain(cause);
      expect(stderr).not.toContain('hunter2');
    },
    testMs,
  );

  test(
    'a port that another process occupied before the wait',
    async () => {
      const port = freePort();
      let occupant: { stop(closesAll: boolean): void } | undefined;
      using server = startServer(fatal('57P03', 'the database system is starting up'), () => {
        occupant ??= Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } });
      });
      const env = { DATABASE_URL: server.url };
      const { exitCode, stderr } = await run(['serve', '--port', String(port)], { env });
      occupant?.stop(true);
      const other = `"npm run tollgate -- serve --port ${port + 1}"`;
      const sentence = `Port ${port} on 127.0.0.1 is already in use. Choose another: ${other}.\n`;
      expect([exitCode, stderr]).toEqual([1, sentence]);
    },
    testMs,
  );

  test(
    'a command other than serve',
    async () => {
      using server = startServer(fatal('57P03', 'the database system is starting up'));
      const env = { DATABASE_URL: server.url };
      const { exitCode, stderr } = await run(['tenants', 'list'], { env });
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/^Postgres at [^\n]+ starting up or shutting down\.\n$/);
    },
    testMs,
  );
});

describe('workers that wait for the database', () => {
  function childrenOf(pid: number): number[] {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  }

  test(
    'start after the first one has connected, and a replacement does not listen while it waits',
    async () => {
      const url = await postgres.createDatabase();
      await postgres.halt('fast');
      const waiting = await startWaiting(url, ['--workers', '2']);
      const { url: baseUrl, process: child, until, finished } = waiting;
      expect((await send(baseUrl, '/')).status).toBe(503);
      expect(childrenOf(child.pid)).toHaveLength(1);
      await postgres.start();
      expect(await until('stdout', readyAt)).toBe(baseUrl);
      expect(childrenOf(child.pid)).toHaveLength(2);

      await postgres.halt('fast');
      const [victim = 0] = childrenOf(child.pid);
      process.kill(victim, 'SIGKILL');
      const lines = await until('stderr', (text) => {
        const found = awaitedIn(text) ?? [];
        return found.length > 1 ? found : undefined;
      });
      expect(lines.map((line) => 'port' in line)).toEqual([true, false]);
      // The remaining worker can serve this page without the database.
      for (let i = 0; i < 20; i++) expect((await send(baseUrl, '/', 'GET')).status).toBe(200);
      await postgres.start();
      await until('stderr', (text) => linesOf(text, 'database_connected')[1]);
      child.kill('SIGTERM');
      expect((await within(finished, 'the waiting gateway to exit', 60_000)).exitCode).toBe(0);
    },
    testMs,
  );

  test(
    'exit cleanly if stopped while the first one waits',
    async () => {
      using server = startServer(fatal('57P03', 'the database system is starting up'));
      const { process: child, finished } = await startWaiting(server.url, ['--workers', '2']);
      child.kill('SIGTERM');
      const { exitCode, stdout } = await within(finished, 'the waiting gateway to exit', 60_000);
      expect([exitCode, stdout]).toEqual([0, '']);
    },
    testMs,
  );
});
