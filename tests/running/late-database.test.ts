/** A gateway that is there before its Postgres: it waits, says so, and needs no second start. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import pg from 'pg';
import { isObject, parseJson } from '../../src/core/json.ts';
import { freePort } from '../support/free-port.ts';
import { run, spawnTollgate } from '../support/gateway.ts';
import { type OwnPostgres, startOwnPostgres } from '../support/postgres.ts';

const testMs = 120_000;
let postgres: OwnPostgres;
beforeAll(async () => {
  postgres = await startOwnPostgres({ durable: false });
}, testMs);
afterAll(() => postgres.stop(), testMs);

/** Patient enough for a busy machine. */
const config = { server: { database_wait_seconds: 600 } };

/** Starts, and waits for the log to say that it waits. */
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
  const found = linesOf(text, 'database_awaited');
  return found.length > 0 ? found : undefined;
}

const asked = { model: 'demo/chat', messages: [{ role: 'user', content: 'Hello!' }] };

async function ask(url: string, path: string, method = 'POST', key = 'sk-tg-any') {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, connection: 'close' },
    ...(method === 'POST' ? { body: JSON.stringify(asked) } : {}),
  });
  const text = await response.text();
  const body = parseJson(text);
  return { status: response.status, headers: response.headers, body: isObject(body) ? body : {} };
}

const readyAt = (text: string) => / is ready at (\S+)\n.*Admin token/s.exec(text)?.[1];
const routingKeyIn = (text: string) => /Routing key +(sk-\S+)/.exec(text)?.[1] ?? '';

/** One connection that is kept over many requests. */
async function keepConnection(url: string) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  let heard = '';
  socket.on('data', (bytes) => {
    heard += bytes;
  });
  await once(socket, 'connect');
  return {
    socket,
    async statusOf(path: string): Promise<string> {
      heard = '';
      socket.write(`GET ${path} HTTP/1.1\r\nhost: tollgate\r\n\r\n`);
      while (!/\r\n\r\n\{.*\}$/s.test(heard)) await once(socket, 'data');
      return heard.split(' ')[1] ?? '';
    },
  };
}

test(
  'it answers probes, tells everybody else to come again, and serves once Postgres is there',
  async () => {
    const url = await postgres.createDatabase();
    await postgres.halt('fast');
    const waiting = await startWaiting(url);
    const { url: at, reason, until, stderr, stdout, process: child, finished } = waiting;
    const port = new URL(url).port;
    expect(reason).toMatch(new RegExp(`^Postgres at 127.0.0.1:${port}/\\w+ cannot be reached: `));
    expect((await ask(at, '/healthz', 'GET')).status).toBe(200);
    const ready = await ask(at, '/readyz', 'GET');
    expect([ready.status, ready.body.status]).toEqual([503, 'unavailable']);
    expect(String(ready.body.reason)).toContain('connection refused');
    const kept = await keepConnection(at);
    expect(await kept.statusOf('/healthz')).toBe('200');

    const message = 'This Tollgate is waiting for its database. Send the request again shortly.';
    const plain = { error: { message, type: 'service_unavailable', code: 503, param: null } };
    const images = { error: { message, type: 'api_error', code: 'service_unavailable' } };
    const messages = { type: 'error', error: { type: 'overloaded_error', message } };
    for (const [path, body] of [
      ['/v1/chat/completions', plain],
      ['/v1/responses', plain],
      ['/admin/v1/tenants', plain],
      ['/v1/images/generations', images],
      ['/v1/messages', messages],
      ['/anthropic/v1/messages', messages],
    ] as const) {
      const refused = await ask(at, path);
      expect([path, refused.status, refused.body]).toMatchObject([path, 503, body]);
      expect(refused.headers.get('retry-after')).toBe('2');
      expect(refused.headers.get('x-should-retry')).toBeNull();
      expect(refused.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect((await ask(at, '/v1/models', 'GET')).status).toBe(503);
    expect((await ask(at, '/v1/chat/completions', 'OPTIONS')).status).toBe(204);
    expect(stdout.text).toBe('');

    await postgres.start();
    expect(await until('stdout', readyAt)).toBe(at);
    // No connection was lost, and no second line was written about what was waited for.
    expect(await kept.statusOf('/readyz')).toBe('200');
    kept.socket.destroy();
    await until('stderr', (text) => linesOf(text, 'database_reached')[0]);
    expect(linesOf(stderr.text, 'database_awaited')).toHaveLength(1);
    expect(linesOf(stderr.text, 'database_reached')).toHaveLength(1);
    const answer = await ask(at, '/v1/chat/completions', 'POST', routingKeyIn(stdout.text));
    expect([answer.status, answer.body.model]).toEqual([200, 'demo/chat']);
    expect((await ask(at, '/v1/chat/completions')).status).toBe(401);
    child.kill('SIGTERM');
    expect((await finished).exitCode).toBe(0);
  },
  testMs,
);

test(
  'it answers probes while the tables are brought up to date, however long that takes',
  async () => {
    const url = await postgres.createDatabase();
    // As another process that has just begun with the migrations: they take this lock first.
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    await other.query('select pg_advisory_lock(7316205114)');
    const { url: at, reason, until, process: child, finished } = await startWaiting(url);
    const sentence = 'Its tables are being migrated.';
    expect(reason).toBe(sentence);
    expect((await ask(at, '/healthz', 'GET')).status).toBe(200);
    const ready = await ask(at, '/readyz', 'GET');
    expect([ready.status, ready.body.reason]).toEqual([
      503,
      `The store is unavailable: ${sentence}`,
    ]);
    expect((await ask(at, '/v1/chat/completions')).status).toBe(503);
    await other.end();
    expect(await until('stdout', readyAt)).toBe(at);
    expect((await ask(at, '/readyz', 'GET')).status).toBe(200);
    child.kill('SIGTERM');
    expect((await finished).exitCode).toBe(0);
  },
  testMs,
);

test(
  'the second signal ends it at once, though its tables are not up to date yet',
  async () => {
    const url = await postgres.createDatabase();
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    await other.query('select pg_advisory_lock(7316205114)');
    const { process: child, finished } = await startWaiting(url);
    // Of two kinds: two of the same may arrive as one.
    child.kill('SIGTERM');
    child.kill('SIGINT');
    expect((await finished).exitCode).toBe(0);
    const { rows } = await other.query("select to_regclass('migrations') as found");
    expect(rows).toEqual([{ found: null }]);
    await other.end();
  },
  testMs,
);

/** A server that has this to say to whoever comes. */
function strangeServer(greet: Uint8Array | null, onVisit = () => {}) {
  const server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      data(socket) {
        onVisit();
        if (greet) socket.end(greet);
      },
    },
  });
  const url = `postgres://me:hunter2@127.0.0.1:${server.port}/tollgate`;
  return { url, [Symbol.dispose]: () => server.stop(true) };
}

/** As Postgres refuses a session. */
function fatal(code: string, message: string): Uint8Array {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.from('E\0\0\0\0');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

// Each has a database of its own, or none, and waits for it.
describe.concurrent('it waits, and a stop ends that in good order, where the database', () => {
  test.each([
    ['is starting up', fatal('57P03', 'the database system is starting up'), 'starting up'],
    ['has no connection left', fatal('53300', 'too many clients'), 'too many connections'],
    ['does not answer', null, 'timeout'],
  ])(
    '%s',
    async (_, greet, why) => {
      using server = strangeServer(greet);
      const { reason, process: child, finished, url } = await startWaiting(server.url);
      expect(String(reason)).toContain(why);
      expect((await ask(url, '/healthz', 'GET')).status).toBe(200);
      child.kill('SIGTERM');
      const { exitCode, stdout, stderr } = await finished;
      expect([exitCode, stdout]).toEqual([0, '']);
      expect(stderr).not.toContain('hunter2');
    },
    testMs,
  );

  test(
    'has a name that nobody knows yet',
    async () => {
      const {
        reason,
        process: child,
        finished,
      } = await startWaiting('postgres://me:hunter2@database.invalid/tollgate');
      expect(String(reason)).toContain('the host name');
      child.kill('SIGINT');
      expect((await finished).exitCode).toBe(0);
    },
    testMs,
  );
});

test(
  'it ends with one sentence and exit code 1 where it was in vain',
  async () => {
    const env = { DATABASE_URL: 'postgres://me:hunter2@127.0.0.1:1/tollgate' };
    const impatient = { server: { database_wait_seconds: 1 } };
    const ended = await run(['serve', '--port', '0'], { config: impatient, env });
    const [awaited, sentence, rest] = ended.stderr.split('\n');
    expect([ended.exitCode, ended.stdout, rest]).toEqual([1, '', '']);
    expect(linesOf(awaited ?? '', 'database_awaited')).toHaveLength(1);
    const why = 'Postgres at 127.0.0.1:1/tollgate cannot be reached: connection refused.';
    expect(sentence).toBe(why);
  },
  testMs,
);

describe('one sentence and exit code 1, at once, for', () => {
  async function configured(change: (url: URL) => void): Promise<string> {
    const url = new URL(await postgres.createDatabase());
    change(url);
    return url.href;
  }

  async function forgetful(): Promise<string> {
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
          url.pathname = '/nowhere';
        }),
      'the database does not exist',
    ],
    ['a database that forgets what it commits', forgetful, 'synchronous_commit off'],
  ])(
    '%s',
    async (_, address, why) => {
      const env = { DATABASE_URL: await address() };
      const { exitCode, stdout, stderr } = await run(['serve', '--port', '0'], { env });
      expect([exitCode, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^Postgres at [^\n]+\.\n$/);
      expect(stderr).toContain(why);
      expect(stderr).not.toContain('hunter2');
    },
    testMs,
  );

  test(
    'a port that somebody took before it began to wait',
    async () => {
      const port = freePort();
      let taken: { stop(closesAll: boolean): void } | undefined;
      using server = strangeServer(fatal('57P03', 'the database system is starting up'), () => {
        taken ??= Bun.listen({ hostname: '127.0.0.1', port, socket: { data() {} } });
      });
      const env = { DATABASE_URL: server.url };
      const { exitCode, stderr } = await run(['serve', '--port', String(port)], { env });
      taken?.stop(true);
      const other = `"npm run tollgate -- serve --port ${port + 1}"`;
      const sentence = `Port ${port} on 127.0.0.1 is already in use; choose another: ${other}.\n`;
      expect([exitCode, stderr]).toEqual([1, sentence]);
    },
    testMs,
  );

  test(
    'another command than serve',
    async () => {
      using server = strangeServer(fatal('57P03', 'the database system is starting up'));
      const env = { DATABASE_URL: server.url };
      const { exitCode, stderr } = await run(['tenants', 'list'], { env });
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/^Postgres at [^\n]+ starting up or shutting down\.\n$/);
    },
    testMs,
  );
});

describe('with several workers', () => {
  function childrenOf(pid: number): number[] {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return text.split(' ').filter(Boolean).map(Number);
  }

  test(
    'the first waits for all, and one that comes later leaves the port to those that serve',
    async () => {
      const url = await postgres.createDatabase();
      await postgres.halt('fast');
      const waiting = await startWaiting(url, ['--workers', '2']);
      const { url: at, process: child, until, finished } = waiting;
      expect((await ask(at, '/')).status).toBe(503);
      expect(childrenOf(child.pid)).toHaveLength(1);
      await postgres.start();
      expect(await until('stdout', readyAt)).toBe(at);
      expect(childrenOf(child.pid)).toHaveLength(2);

      await postgres.halt('fast');
      const [doomed = 0] = childrenOf(child.pid);
      process.kill(doomed, 'SIGKILL');
      const lines = await until('stderr', (text) => {
        const found = awaitedIn(text) ?? [];
        return found.length > 1 ? found : undefined;
      });
      expect(lines.map((line) => 'port' in line)).toEqual([true, false]);
      // The one that is left needs no database to say hello.
      for (let i = 0; i < 20; i++) expect((await ask(at, '/', 'GET')).status).toBe(200);
      await postgres.start();
      await until('stderr', (text) => linesOf(text, 'database_reached')[1]);
      child.kill('SIGTERM');
      expect((await finished).exitCode).toBe(0);
    },
    testMs,
  );

  test(
    'a stop while the first waits ends them in good order',
    async () => {
      using server = strangeServer(fatal('57P03', 'the database system is starting up'));
      const { process: child, finished } = await startWaiting(server.url, ['--workers', '2']);
      child.kill('SIGTERM');
      const { exitCode, stdout } = await finished;
      expect([exitCode, stdout]).toEqual([0, '']);
    },
    testMs,
  );
});
