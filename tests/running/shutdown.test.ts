/** Shutdown by SIGTERM and SIGINT. */
import { afterAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { openStore } from '../../src/store/open.ts';
import {
  chatAnswer,
  type FakeUpstream,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  startFakeUpstream,
  words,
} from '../support/fake-upstream.ts';
import {
  type ChatStream,
  firstStartSecrets,
  type Gateway,
  newFolder,
  spawnTollgate,
  startGateway,
} from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { readStreamText } from '../support/sse-client.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const testMs = 120_000;

const started: FakeUpstream[] = [];
afterAll(() => {
  for (const upstream of started) upstream.stop();
});

/** Starts an upstream per test, because some tests run concurrently. */
function newUpstream() {
  const upstream = startFakeUpstream();
  started.push(upstream);
  const fake = { url: upstream.url, models: { 'test/chat': { name: 'slow' } } };
  return { upstream, upstreams: { fake } };
}

const messages = [{ role: 'user', content: 'Go on.' }];
const chat = { model: 'test/chat', messages };

/** Starts a gateway with a running stream. */
async function startStreaming({
  upstreams,
}: ReturnType<typeof newUpstream>): Promise<{ gateway: Gateway; stream: ChatStream }> {
  const gateway = await startGateway({ upstreams });
  const stream = await gateway.stream(chat);
  await stream.read(1);
  return { gateway, stream };
}

test(
  'SIGTERM lets a running stream finish, rejects new requests, and exits with 0',
  async () => {
    const fixture = newUpstream();
    const { upstream } = fixture;
    upstream.script('slow', gated('the rest', 3, chatAnswer(words(12))));
    const { gateway, stream } = await startStreaming(fixture);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');

    const ready = await gateway.call('GET', '/readyz');
    expect(ready.status).toBe(503);
    expect(ready.body).toEqual({
      status: 'unavailable',
      reason: 'The gateway is shutting down.',
    });
    expect(Number(ready.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(ready.headers.get('retry-after-ms'))).toBeGreaterThanOrEqual(1);
    expect((await gateway.call('GET', '/healthz')).status).toBe(200);

    const rejected = await gateway.chat(chat);
    expect(rejected.status).toBe(503);
    expect(rejected.error.type).toBe('service_unavailable');
    expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(rejected.headers.get('retry-after-ms'))).toBeGreaterThanOrEqual(1);
    expect(upstream.requests).toHaveLength(1);

    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(upstream.requests[0]?.outcome).toBe('complete');
    const { exitCode, stderr } = await within(gateway.finished, 'the gateway to exit', 60_000);
    expect(exitCode).toBe(0);
    expect(stderr).not.toMatch(/\.ts:\d/);
    const failed = gateway.log().filter(({ event }) => event === 'request_failed');
    const line = { level: 'info', request_id: rejected.headers.get('x-request-id') };
    expect(failed).toMatchObject([line]);
    expect(gateway.log().filter(({ level }) => level === 'error')).toEqual([]);
  },
  testMs,
);

test(
  'SIGTERM closes idle connections while running requests are still answered',
  async () => {
    const fixture = newUpstream();
    const { upstream } = fixture;
    upstream.script('slow', gated('the rest', 3, chatAnswer(words(12))));
    const { gateway, stream } = await startStreaming(fixture);
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
    await within(answered.promise, 'the answer');
    gateway.signal('SIGTERM');
    await within(closed.promise, 'the connection to close');
    expect(gateway.process.exitCode).toBeNull();
    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(await gateway.stop()).toBe(0);
  },
  testMs,
);

test(
  'a second SIGTERM ends the gateway immediately without damaging its data',
  async () => {
    const fixture = newUpstream();
    fixture.upstream.script('slow', hangMidStream(3));
    const { gateway, stream } = await startStreaming(fixture);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    gateway.signal('SIGTERM');
    // The upstream never answers and a drain takes 10 minutes, so only the signal can end it.
    expect((await within(gateway.finished, 'the gateway to exit', 60_000)).exitCode).toBe(0);
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
  'a running stream of %s ends with an error after drain_seconds',
  async (path, body) => {
    const { upstream, upstreams } = newUpstream();
    upstream.script('slow', hangMidStream(3));
    const gateway = await startGateway({ upstreams, config: { server: { drain_seconds: 1 } } });
    const streaming = { model: 'test/chat', stream: true, ...body };
    const answer = await gateway.request('POST', path, { key: gateway.keys.api, body: streaming });
    const reading = readStreamText(answer);
    expect(await gateway.stop()).toBe(0);
    const text = await within(reading, 'the error event', 20_000);
    expect(text).toContain(shuttingDown);
    expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed/);
    await upstream.until((requests) => requests[0]?.outcome === 'client-disconnected');
  },
  testMs,
);

test.concurrent(
  'a request without output after drain_seconds gets 503, without trying other providers',
  async () => {
    const { upstream, upstreams } = newUpstream();
    upstream.script('slow', hangBeforeHeaders());
    const fallback = { url: upstream.url, models: { 'test/chat': { name: 'fallback' } } };
    const gateway = await startGateway({
      upstreams: { ...upstreams, fallback },
      config: { server: { drain_seconds: 1 } },
    });
    const answers = [gateway.chat(chat), gateway.chat({ ...chat, stream: true })];
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
  'an interrupted job returns to the queue without counting an attempt',
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
    const stream = await gateway.stream(chat);
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
  'SIGINT also ends the gateway',
  async () => {
    const gateway = await startGateway();
    expect(await gateway.stop('SIGINT')).toBe(0);
  },
  testMs,
);

test(
  'SIGTERM during startup ends the gateway after startup has finished and saved its secrets',
  async () => {
    const DATABASE_URL = await (await startPostgres()).createDatabase();
    const other = new pg.Client({ connectionString: DATABASE_URL });
    await other.connect();
    // The gateway creates the same table, so it has to wait for this transaction.
    await other.query('begin; create table migrations (number int)');
    const starting = spawnTollgate(['serve', '--port', '0'], { env: { DATABASE_URL } });
    await untilLockWait(DATABASE_URL);
    starting.process.kill('SIGTERM');
    await other.query('rollback');
    await other.end();
    const { exitCode, stdout, stderr } = await within(
      starting.finished,
      'the process to exit',
      60_000,
    );
    expect(exitCode).toBe(0);
    expect(stderr).not.toMatch(/\.ts:\d/);

    const [key = ''] = /sk-tg-\S+/.exec(firstStartSecrets(stdout)) ?? [];
    await using gateway = await startGateway({ env: { DATABASE_URL } });
    expect((await gateway.call('GET', '/v1/models', { key })).status).toBe(200);
  },
  testMs,
);

test(
  "SIGTERM before the gateway's code runs ends the process, and the next start is a first start",
  async () => {
    // The process stops itself before it runs any of our code.
    const early = join(newFolder(), 'early.js');
    writeFileSync(early, "process.kill(process.pid, 'SIGSTOP');");
    const env = { BUN_OPTIONS: `--preload ${early}` };
    const starting = spawnTollgate(['serve', '--port', '0'], { env });
    const { pid } = starting.process;
    await waitUntil(() => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') T '));
    starting.process.kill('SIGTERM');
    starting.process.kill('SIGCONT');
    const { stdout, stderr } = await within(starting.finished, 'the process to exit', 60_000);
    expect(stdout + stderr).toBe('');
    await using gateway = await startGateway({ dataDir: starting.dataDir });
    expect(gateway.keys.api).toStartWith('sk-tg-');
  },
  testMs,
);

/** Resolves when a session waits for a lock in this database. */
async function untilLockWait(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await waitUntil(async () => {
      const { rows } = await client.query(
        'select pid from pg_stat_activity where datname = current_database() ' +
          "and wait_event_type = 'Lock'",
      );
      return rows.length > 0;
    });
  } finally {
    await client.end();
  }
}
