/** A gateway that is asked to go. */
import { afterAll, beforeEach, expect, test } from 'bun:test';
import pg from 'pg';
import { gated, hangMidStream, say, startFakeUpstream, words } from './support/fake-upstream.ts';
import { type ChatStream, type Gateway, spawnTollgate, startGateway } from './support/gateway.ts';
import { startPostgres } from './support/postgres.ts';

const testMs = 60_000;

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const upstreams = { fake: { url: upstream.url, models: { 'test/chat': { name: 'slow' } } } };
const ask = { model: 'test/chat', messages: [{ role: 'user', content: 'Go on.' }] };

/** A gateway in the middle of an answer, and the stream on which it comes. */
async function answering(config: object = {}): Promise<{ gateway: Gateway; stream: ChatStream }> {
  const gateway = await startGateway({ upstreams, config });
  const stream = await gateway.stream(ask);
  await stream.read(1);
  return { gateway, stream };
}

test(
  'SIGTERM lets a running stream finish, refuses new work meanwhile and exits with 0',
  async () => {
    upstream.script('slow', gated('the rest', 3, say(words(12))));
    const { gateway, stream } = await answering();
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');

    const ready = await gateway.call('GET', '/readyz');
    expect(ready.status).toBe(503);
    expect(ready.body).toEqual({
      status: 'unavailable',
      reason: 'This Tollgate is shutting down.',
    });
    expect((await gateway.call('GET', '/healthz')).status).toBe(200);

    const refused = await gateway.chat(ask);
    expect(refused.status).toBe(503);
    expect(refused.error.type).toBe('service_unavailable');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(Number(refused.headers.get('retry-after-ms'))).toBeGreaterThanOrEqual(1);
    expect(upstream.book).toHaveLength(1);

    upstream.open('the rest');
    expect(await stream.read()).toBe(words(12));
    expect(upstream.book[0]?.outcome).toBe('complete');
    const { exitCode, stderr } = await gateway.finished;
    expect(exitCode).toBe(0);
    expect(stderr).not.toMatch(/\.ts:\d/);
  },
  testMs,
);

test(
  'a second SIGTERM ends at once, and the data is sound',
  async () => {
    upstream.script('slow', hangMidStream(3));
    const { gateway, stream } = await answering();
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

test(
  'a drain ends when its time is up, whatever still runs',
  async () => {
    upstream.script('slow', hangMidStream(3));
    const { gateway, stream } = await answering({ server: { drain_seconds: 1 } });
    expect(await gateway.stop()).toBe(0);
    await expect(stream.read()).rejects.toThrow();
    await upstream.until((book) => book[0]?.outcome === 'client-left');
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
    const starting = spawnTollgate(['serve', '--port', '0']);
    starting.process.kill('SIGTERM');
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
