/** `serve --workers`: several processes that share a port, managed by a parent process. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { objectsIn } from '../../src/core/json.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import { chatAnswer, gated, startFakeUpstream, words } from '../support/fake-upstream.ts';
import {
  type ChatStream,
  firstStartSecrets,
  type Gateway,
  type GatewayOptions,
  newFolder,
  run,
  spawnTollgate,
  startGateway,
  upstreamConfig,
} from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { longRedisTimeout, startRedis } from '../support/redis.ts';
import { waitUntil, within } from '../support/wait-until.ts';

const testMs = 120_000;
const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const upstreams = { fake: { url: upstream.url, models: { 'test/chat': { name: 'chat' } } } };
const chat = { model: 'test/chat', messages: [{ role: 'user', content: 'Go on.' }] };
/** Uses a new connection per request, because the kernel chooses a worker for each connection. */
const newConnection = { headers: { connection: 'close' } };

function start(workers: number, options: GatewayOptions = {}): Promise<Gateway> {
  return startGateway({ upstreams, args: ['--workers', String(workers)], ...options });
}

/** Returns the process IDs of the gateway's running workers. */
function workersOf(gateway: Gateway): number[] {
  return childrenOf(gateway.process.pid);
}

function childrenOf(pid: number): number[] {
  const path = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split(' ')
    .filter((text) => text !== '')
    .map(Number);
}

/** Returns how many requests are admitted with a key that allows 1 per minute. */
function admitted(gateway: Gateway, requests: number): Promise<number> {
  const fields = { name: 'a', requests_per_minute: 1 };
  return withinOneMinute(async () => {
    const created = await gateway.manage('POST', '/api/v1/keys', fields);
    const key = String(created.body.key);
    let count = 0;
    for (let i = 0; i < requests; i++) {
      const { status } = await gateway.chat(chat, { key, ...newConnection });
      if (status === 200) count++;
      else expect(status).toBe(429);
    }
    return count;
  });
}

/** Checks the startup banner of 3 workers, that each of them answers, and their ledger. */
async function expectThreeServe(gateway: Gateway, env: Record<string, string> = {}) {
  expect(workersOf(gateway)).toHaveLength(3);
  expect(gateway.output().match(/ is ready at /g)).toHaveLength(1);
  expect(gateway.output().match(/first-start-secrets.txt$/gm)).toHaveLength(1);
  expect(gateway.output()).toContain(
    '3 workers counts limits separately, so together they allow up to 3 times each limit. ' +
      'Set REDIS_URL to share the limits.\n',
  );
  // Each worker admits 1 request, which proves that all of them answer.
  expect(await admitted(gateway, 60)).toBe(3);
  const { dataDir } = gateway;
  expect(await run(['ledger', 'verify'], { dataDir, env })).toMatchObject({ exitCode: 0 });
}

describe('3 workers on one SQLite file', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await start(3);
  }, testMs);
  afterAll(() => gateway.stop(), testMs);

  test(
    'all serve on one port, and the startup banner is printed once',
    () => expectThreeServe(gateway),
    testMs,
  );

  test(
    'can look up a request that one of them answered',
    async () => {
      for (let i = 0; i < 12; i++) {
        const { headers } = await gateway.chat(chat, newConnection);
        const id = headers.get('x-request-id');
        const found = await gateway.call('GET', `/v1/generation?id=${id}`, {
          key: gateway.keys.api,
          ...newConnection,
        });
        expect(found).toMatchObject({ status: 200, body: { data: { id } } });
      }
    },
    testMs,
  );

  test(
    'all return the status of a request that runs in one of them',
    async () => {
      upstream.script('chat', gated('half-way', 2, chatAnswer(words(9))));
      const stream = await gateway.stream(chat, newConnection);
      const id = stream.response.headers.get('x-request-id');
      const statuses = new Set<unknown>();
      const look = async () => {
        const key = gateway.keys.api;
        const path = `/v1/generation?id=${id}`;
        const { status, body } = await gateway.call('GET', path, { key, ...newConnection });
        expect(status).toBe(200);
        statuses.add((body.data as { status: unknown }).status);
      };
      // The kernel chooses another worker for most of these connections.
      const lookInAll = () => Promise.all(Array.from({ length: 12 }, look));
      await lookInAll();
      expect([...statuses]).toEqual(['in_progress']);
      upstream.open('half-way');
      await stream.read();
      statuses.clear();
      await lookInAll();
      expect([...statuses]).toEqual(['success']);
    },
    testMs,
  );

  test(
    'keep their port, and another start on it names the port',
    async () => {
      const { port } = new URL(gateway.url);
      const { exitCode, stderr } = await run(['serve', '--port', port, '--workers', '2']);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`Port ${port} on 127.0.0.1 is already in use`);
    },
    testMs,
  );
});

test(
  '3 workers serve on one port with Postgres',
  async () => {
    const env = { DATABASE_URL: await (await startPostgres()).createDatabase() };
    await using gateway = await start(3, { env });
    await expectThreeServe(gateway, env);
  },
  testMs,
);

test(
  'workers share limits through Redis',
  async () => {
    await using redis = await startRedis();
    if (!redis) return;
    await using gateway = await start(3, { env: { REDIS_URL: redis.url, ...longRedisTimeout } });
    expect(gateway.output()).toContain('3 workers share their limits through Redis.\n');
    expect(await admitted(gateway, 30)).toBe(1);
  },
  testMs,
);

test(
  'a killed worker is replaced while the others keep serving',
  async () => {
    await using gateway = await start(2);
    const before = workersOf(gateway);
    const [victim = 0, other = 0] = before;
    process.kill(victim, 'SIGKILL');
    await gateway.untilLogged('worker_ended');
    await waitUntil(() => workersOf(gateway).filter((pid) => pid !== victim).length === 2);
    expect(workersOf(gateway)).toContain(other);
    const ended = gateway.log().filter(({ event }) => event === 'worker_ended');
    expect(ended).toHaveLength(1);
    expect(ended[0]).toMatchObject({ level: 'error', signal: 'SIGKILL', restart_ms: 200 });
    for (let i = 0; i < 10; i++) expect((await gateway.chat(chat, newConnection)).status).toBe(200);
  },
  testMs,
);

test(
  'SIGTERM lets every worker finish its streams',
  async () => {
    upstream.script('chat', gated('go', 3, chatAnswer(words(6))));
    const gateway = await start(2);
    const streams: ChatStream[] = [];
    for (let i = 0; i < 12; i++) {
      const stream = await gateway.stream(chat, newConnection);
      await stream.read(5);
      streams.push(stream);
    }
    gateway.signal('SIGTERM');
    await waitUntil(() => gateway.errors().split('"event":"draining"').length === 3);
    upstream.open('go');
    const texts = await Promise.all(streams.map((stream) => stream.read()));
    expect(texts).toEqual(streams.map(() => words(6)));
    expect(await gateway.stop()).toBe(0);
  },
  testMs,
);

test(
  'a second SIGTERM ends workers without waiting for their streams',
  async () => {
    upstream.script('chat', gated('never', 3, chatAnswer(words(6))));
    const gateway = await start(2);
    const stream = await gateway.stream(chat);
    await stream.read(5);
    gateway.signal('SIGTERM');
    await gateway.untilLogged('draining');
    gateway.signal('SIGTERM');
    expect(await gateway.stop()).toBe(0);
  },
  testMs,
);

test(
  'SIGHUP reloads every worker, and an invalid file is logged once and changes nothing',
  async () => {
    await using gateway = await start(2);
    const file = join(gateway.folder, 'tollgate.yaml');
    const models = { 'test/chat': {}, 'test/new': { name: 'chat' } };
    const reloaded = () => gateway.log().filter(({ event }) => event === 'config_reloaded').length;

    writeFileSync(file, 'limits: { requests_per_minute: many }\nmodels: 7\n');
    gateway.signal('SIGHUP');
    await gateway.untilLogged('config_rejected');
    writeFileSync(file, stringify(upstreamConfig({ fake: { url: upstream.url, models } })));
    gateway.signal('SIGHUP');
    await waitUntil(() => reloaded() === 2);
    const rejected = gateway.log().filter(({ event }) => event === 'config_rejected');
    expect(rejected.map(({ problem }) => String(problem).split(' ')[1])).toEqual([
      'limits.requests_per_minute',
      'models',
    ]);
    const statuses = new Set<number>();
    for (let i = 0; i < 20; i++) {
      statuses.add((await gateway.chat({ ...chat, model: 'test/new' }, newConnection)).status);
    }
    expect([...statuses]).toEqual([200]);
    const audited = await waitUntil(async () => {
      const { body } = await gateway.admin('GET', '/admin/v1/audit?action=settings.reload');
      return objectsIn(body.data).length > 0 && objectsIn(body.data);
    });
    expect(audited).toMatchObject([{ actor: 'operator', before: {} }]);
  },
  testMs,
);

test(
  'a replacement uses the same store and the same reloaded configuration as the other workers',
  async () => {
    await using gateway = await start(2);
    const file = join(gateway.folder, 'tollgate.yaml');
    const write = (name: string, options: object = {}) => {
      const models = { 'test/chat': {}, [name]: { name: 'chat' } };
      const config = upstreamConfig({ fake: { url: upstream.url, models } });
      writeFileSync(file, stringify({ ...config, ...options }));
    };
    write('test/new', { database: 'sqlite:{data_dir}/other.db', credits_per_usd: 5 });
    gateway.signal('SIGHUP');
    await waitUntil(() => gateway.errors().split('"event":"config_reloaded"').length === 3);
    // The gateway doesn't reload this version of the file.
    write('test/later', { models: 7 });
    const before = workersOf(gateway);
    for (const pid of before) process.kill(pid, 'SIGKILL');
    await waitUntil(() => workersOf(gateway).filter((pid) => !before.includes(pid)).length === 2);
    await waitUntil(() => gateway.errors().split('"event":"worker_ended"').length >= 3);
    await waitUntil(
      async () => (await fetch(`${gateway.url}/readyz`).catch(() => null))?.ok === true,
    );
    const statuses = new Set<number>();
    for (let i = 0; i < 20; i++) {
      statuses.add((await gateway.chat({ ...chat, model: 'test/new' }, newConnection)).status);
    }
    expect([...statuses]).toEqual([200]);
    expect(existsSync(join(gateway.dataDir, 'other.db'))).toBe(false);
    expect(gateway.errors().split('"event":"worker_ended"').length).toBe(3);
  },
  testMs,
);

test(
  'SIGHUP during startup does not end the workers',
  async () => {
    const starting = spawnTollgate(['serve', '--port', '0', '--workers', '2']);
    // SIGHUP would end the program before it has installed its signal handler.
    const { process: parent } = starting;
    await waitUntil(() => childrenOf(parent.pid).length > 0 || parent.exitCode !== null);
    const isReady = () => {
      parent.kill('SIGHUP');
      return / is ready at /.test(starting.stdout.text);
    };
    await waitUntil(isReady, { everyMs: 20 });
    parent.kill('SIGTERM');
    const { exitCode, stderr } = await within(starting.finished, 'the workers to exit', 60_000);
    expect({ exitCode, died: stderr.includes('worker_ended') }).toEqual({
      exitCode: 0,
      died: false,
    });
  },
  testMs,
);

test(
  'workers exit after their parent is killed',
  async () => {
    const gateway = await start(2);
    const pids = workersOf(gateway);
    expect(pids).toHaveLength(2);
    await gateway.kill9();
    await waitUntil(() => pids.every((pid) => !existsSync(`/proc/${pid}`)));
  },
  testMs,
);

test(
  'SIGTERM during startup leaves no worker behind',
  async () => {
    const delaysMs = [50, 300, 600, 900, 1_200];
    const leftovers = delaysMs.map(async (delayMs) => {
      const starting = spawnTollgate(['serve', '--port', '0', '--workers', '3']);
      await Bun.sleep(delayMs);
      const workers = childrenOf(starting.process.pid);
      starting.process.kill('SIGTERM');
      await within(starting.finished, 'the workers to exit', 60_000);
      return workers.filter((pid) => existsSync(`/proc/${pid}`));
    });
    expect((await Promise.all(leftovers)).flat()).toEqual([]);
  },
  testMs,
);

describe('a first start with workers saves its secrets even if', () => {
  const secrets = / Routing key +sk-tg-.* Management key +sk-mgmt-.* Admin token +sk-admin-/s;

  /** Resolves when the second worker exists: the first is ready and has created the secrets. */
  async function startOthers(env: Record<string, string> = {}) {
    const starting = spawnTollgate(['serve', '--port', '0', '--workers', '2'], { env });
    const { pid } = starting.process;
    await waitUntil(() => childrenOf(pid).length === 2 || starting.process.exitCode !== null);
    const [, second] = childrenOf(pid);
    if (second === undefined) throw new Error('Startup ended before it had 2 workers.');
    return { ...starting, second };
  }

  test(
    'it is stopped before the others are ready',
    async () => {
      const { process: parent, finished } = await startOthers();
      parent.kill('SIGTERM');
      const { exitCode, stdout } = await within(finished, 'the workers to exit', 60_000);
      expect([exitCode, firstStartSecrets(stdout).match(secrets)?.length]).toEqual([0, 1]);
    },
    testMs,
  );

  test(
    'another worker fails to start',
    async () => {
      // The second worker stops itself before it runs any of our code.
      const early = join(newFolder(), 'early.js');
      const stop = "process.kill(process.pid, 'SIGSTOP')";
      writeFileSync(early, `if (process.argv.includes('--joining')) ${stop};`);
      const { second, finished } = await startOthers({ BUN_OPTIONS: `--preload ${early}` });
      process.kill(second, 'SIGKILL');
      const { exitCode, stdout, stderr } = await within(finished, 'the workers to exit', 60_000);
      expect([exitCode, firstStartSecrets(stdout).match(secrets)?.length]).toEqual([1, 1]);
      expect(stderr).toEndWith('The workers failed to start. The log says why.\n');
    },
    testMs,
  );
});

describe('a failed startup with workers', () => {
  const countRule = 'command line: --workers must be a whole number from 1 to 64.\n';

  test.each<[string, string, string]>([
    ['--workers', '0', countRule],
    ['--workers', '65', countRule],
    ['--workers', 'two', countRule],
    ['--workers', '1.5', countRule],
    ['--worker', '1', 'command line: --worker is for internal use. Use --workers instead.\n'],
  ])(
    'because of %s %s prints one sentence',
    async (option, value, sentence) => {
      const { exitCode, stdout, stderr } = await run(['serve', option, value]);
      expect({ exitCode, stdout, stderr }).toEqual({ exitCode: 2, stdout: '', stderr: sentence });
    },
    testMs,
  );

  test(
    "prints the worker's error and leaves no worker behind",
    async () => {
      const address = new URL((await startPostgres()).url);
      address.password = 'secret';
      const finished = await run(['serve', '--port', '0', '--workers', '2'], {
        env: { DATABASE_URL: address.href },
      });
      expect(finished.exitCode).toBe(1);
      expect(finished.stdout).toBe('');
      expect(finished.stderr).toContain('cannot be reached: wrong user or password.\n');
      expect(finished.stderr).toEndWith('The workers failed to start. The log says why.\n');
      expect(finished.stderr).not.toContain('secret');
    },
    testMs,
  );
});
