/** A gateway that is asked to go. */
import { afterAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { openStore } from '../../src/store/open.ts';
import {
  type FakeUpstream,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  chatAnswer,
  startFakeUpstream,
  words,
} from '../support/fake-upstream.ts';
import {
  type ChatStream,
  type Gateway,
  newFolder,
  spawnTollgate,
  startGateway,
} from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';

const testMs = 120_000;

const started: FakeUpstream[] = [];
afterAll(() => {
  for (const upstream of started) upstream.stop();
});

/** One for each test: some of them run at once, because they wait for the end of a drain. */
function newUpstream() {
  const upstream = startFakeUpstream();
  started.push(upstream);
  const fake = { url: upstream.url, models: { 'test/chat': { name: 'slow' } } };
  return { upstream, upstreams: { fake } };
}

const messages = [{ role: 'user', content: 'Go on.' }];
const ask = { model: 'test/chat', messages };

/** A gateway in the middle of an answer, and the stream on which it comes. */
async function answering({
  upstreams,
}: ReturnType<typeof newUpstream>): Promise<{ gateway: Gateway; stream: ChatStream }> {
  const gateway = await startGateway({ upstreams });
  const stream = await gateway.stream(ask);
  await stream.read(1);
  return { gateway, stream };
}

test(
  'SIGTERM lets a running stream finish, refuses new work meanwhile and exits with 0',
  async () => {
    const rig = newUpstream();
    const { upstream } = rig;
    upstream.script('slow', gated('the rest', 3, chatAnswer(words(12))));
    const { gateway, stream } = await answering(rig);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');

    const ready = await gateway.call('GET', '/readyz');
    expect(ready.status).toBe(503);
    expect(ready.body).toEqual({
      status: 'unavailable',
      reason: 'This Tollgate is shutting down.',
    });
    expect(Number(ready.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(ready.headers.get('retry-after-ms'))).toBeGreaterThanOrEqual(1);
    expect((await gateway.call('GET', '/healthz')).status).toBe(200);

    const refused = await gateway.chat(ask);
    expect(refused.status).toBe(503);
    expect(refused.error.type).toBe('service_unavailable');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(refused.headers.get('retry-after-ms'))).toBeGreaterThanOrEqual(1);
    expect(upstream.requests).toHaveLength(1);

    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(upstream.requests[0]?.outcome).toBe('complete');
    const { exitCode, stderr } = await gateway.finished;
    expect(exitCode).toBe(0);
    expect(stderr).not.toMatch(/\.ts:\d/);
    const failed = gateway.log().filter(({ event }) => event === 'request_failed');
    const line = { level: 'info', request_id: refused.headers.get('x-request-id') };
    expect(failed).toMatchObject([line]);
    expect(gateway.log().filter(({ level }) => level === 'error')).toEqual([]);
  },
  testMs,
);

test(
  'a connection that only waits for its next request is closed while others are still answered',
  async () => {
    const rig = newUpstream();
    const { upstream } = rig;
    upstream.script('slow', gated('the rest', 3, chatAnswer(words(12))));
    const { gateway, stream } = await answering(rig);
    const { hostname, port } = new URL(gateway.url);
    const [answered, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await Bun.connect({
      hostname,
      port: Number(port),
      socket: {
        open: (socket) => void socket.write('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n'),
        data: () => answered.resolve(),
        close: () => closed.resolve(),
      },
    });
    await answered.promise;
    gateway.signal('SIGTERM');
    await closed.promise;
    expect(gateway.process.exitCode).toBeNull();
    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(await gateway.stop()).toBe(0);
  },
  testMs,
);

test(
  'a second SIGTERM ends at once, and the data is sound',
  async () => {
    const rig = newUpstream();
    rig.upstream.script('slow', hangMidStream(3));
    const { gateway, stream } = await answering(rig);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    gateway.signal('SIGTERM');
    // The upstream never answers and the drain would take ten minutes: only the signal can end it.
    expect((await gateway.finished).exitCode).toBe(0);
    await expect(stream.read()).rejects.toThrow();

    await using next = await gateway.another();
    expect(await next.balance()).toBeGreaterThan(0);
  },
  testMs,
);

const shuttingDown = 'The gateway is shutting down. Send the request again.';

test.concurrent.each<[string, object]>([
  ['/v1/chat/completions', { messages }],
  ['/v1/messages', { messages, max_tokens: 100 }],
  ['/v1/responses', { input: 'Go on.' }],
])(
  'a drain ends when its time is up, and an answer that still runs on %s says so',
  async (path, body) => {
    const { upstream, upstreams } = newUpstream();
    upstream.script('slow', hangMidStream(3));
    const gateway = await startGateway({ upstreams, config: { server: { drain_seconds: 1 } } });
    const asked = { model: 'test/chat', stream: true, ...body };
    const answer = await gateway.request('POST', path, { key: gateway.keys.api, body: asked });
    expect(await gateway.stop()).toBe(0);
    const text = await answer.text();
    expect(text).toContain(shuttingDown);
    expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed/);
    await upstream.until((requests) => requests[0]?.outcome === 'client-disconnected');
  },
  testMs,
);

test.concurrent(
  'who has heard nothing by then gets a 503, and nobody else is asked instead',
  async () => {
    const { upstream, upstreams } = newUpstream();
    upstream.script('slow', hangBeforeHeaders());
    const elsewhere = { url: upstream.url, models: { 'test/chat': { name: 'elsewhere' } } };
    const gateway = await startGateway({
      upstreams: { ...upstreams, elsewhere },
      config: { server: { drain_seconds: 1 } },
    });
    const answers = [gateway.chat(ask), gateway.chat({ ...ask, stream: true })];
    await upstream.until((requests) => requests.length === 2);
    expect(await gateway.stop()).toBe(0);
    for (const { status, error, headers } of await Promise.all(answers)) {
      expect(status).toBe(503);
      expect(error).toMatchObject({ type: 'service_unavailable', message: shuttingDown });
      expect(headers.get('retry-after')).toBe('1');
    }
    expect(upstream.requests).toHaveLength(2);
  },
  testMs,
);

test.concurrent(
  'a job goes back into the queue, and that it was broken off is none of its attempts',
  async () => {
    const { upstream, upstreams } = newUpstream();
    upstream.script('slow', hangMidStream(3));
    upstream.script('tts-1', hangBeforeHeaders());
    const provider = { base_url: `${upstream.url}/v1`, api_key: 'sk-upstream-test-key' };
    const gateway = await startGateway({
      upstreams,
      config: {
        catalogue: 'builtin',
        providers: { openai: provider, fake: { dialect: 'openai', ...provider } },
        server: { drain_seconds: 0 },
      },
    });
    const speech = { model: 'openai/tts-1', input: 'Hello.', voice: 'alloy' };
    await gateway.call('POST', '/v1/jobs', { key: gateway.keys.api, body: speech });
    await upstream.until((requests) => requests.length === 1);
    const stream = await gateway.stream(ask);
    expect(await stream.read(2)).toBe('w1');
    expect(await gateway.stop()).toBe(0);
    const { database } = await openStore(`sqlite:${join(gateway.dataDir, 'tollgate.db')}`);
    const jobs = await database.read.selectFrom('jobs').selectAll().execute();
    await database.close();
    expect(jobs).toMatchObject([{ status: 'queued', attempts: 0 }]);
  },
  testMs,
);

test(
  'SIGINT, as a person types it, ends it too',
  async () => {
    const gateway = await startGateway();
    expect(await gateway.stop('SIGINT')).toBe(0);
  },
  testMs,
);

test(
  'SIGTERM in the middle of a start is obeyed after the start, which loses nothing',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const other = new pg.Client({ connectionString: DATABASE_URL });
    await other.connect();
    // Whoever wants to create the same table has to wait for this transaction.
    await other.query('begin; create table migrations (number int)');
    const starting = spawnTollgate(['serve', '--port', '0'], { env: { DATABASE_URL } });
    await waiting(DATABASE_URL);
    starting.process.kill('SIGTERM');
    await other.query('rollback');
    await other.end();
    const { exitCode, stdout, stderr } = await starting.finished;
    expect(exitCode).toBe(0);
    expect(stderr).not.toMatch(/\.ts:\d/);

    const [key = ''] = /sk-tg-\S+/.exec(stdout) ?? [];
    await using gateway = await startGateway({ env: { DATABASE_URL } });
    expect((await gateway.call('GET', '/v1/models', { key })).status).toBe(200);
  },
  testMs,
);

test(
  'SIGTERM before a start has begun ends it, and the next start is a first one',
  async () => {
    // It waits before its first line, however late we are.
    const early = join(newFolder(), 'early.js');
    writeFileSync(early, "process.kill(process.pid, 'SIGSTOP');");
    const env = { BUN_OPTIONS: `--preload ${early}` };
    const starting = spawnTollgate(['serve', '--port', '0'], { env });
    const { pid } = starting.process;
    while (!readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T ')) await Bun.sleep(5);
    starting.process.kill('SIGTERM');
    starting.process.kill('SIGCONT');
    const { stdout, stderr } = await starting.finished;
    expect(stdout + stderr).toBe('');
    await using gateway = await startGateway({ dataDir: starting.dataDir });
    expect(gateway.keys.api).toStartWith('sk-tg-');
  },
  testMs,
);

/** Until somebody waits for a lock in this database. */
async function waiting(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (;;) {
      const { rows } = await client.query(
        'select pid from pg_stat_activity where datname = current_database() ' +
          "and wait_event_type = 'Lock'",
      );
      if (rows.length > 0) return;
      await Bun.sleep(10);
    }
  } finally {
    await client.end();
  }
}
