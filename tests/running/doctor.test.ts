/** Runs `tollgate doctor` on real stores and servers. The command must not change them. */
import { Database } from 'bun:sqlite';
import { describe, expect, test } from 'bun:test';
import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { migrations } from '../../src/store/migrations/migrate.ts';
import { openStore } from '../../src/store/open.ts';
import { type Finished, newFolder, run, startGateway, upstreamConfig } from '../support/gateway.ts';
import { startPostgres } from '../support/postgres.ts';
import { startRedis } from '../support/redis.ts';
import { startS3 } from '../support/s3.ts';

const testMs = 120_000;
const key = 'sk-upstream-test-key';
const program = new URL('../../src/main.ts', import.meta.url).pathname;
const migrationCount = migrations.length;

/** Replaces values that differ between runs. */
function normalize(text: string): string {
  return text
    .replace(/\b\d+ ms\b/g, '# ms')
    .replace(/\b[\d.]+ GiB\b/g, '# GiB')
    .replace(/\b\d+\.\d s\b/g, '# s')
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, '# UTC')
    .replace(/127\.0\.0\.1:\d+/g, 'host');
}

/** Returns the finding of one check, without its mark and name. */
function findingOf({ stdout }: Finished, mark: '✓' | '✗', name: string): string {
  const line = stdout.split('\n').find((one) => one.startsWith(`${mark} ${name} `));
  if (line === undefined) throw new Error(`No ${mark} ${name} in:\n${stdout}`);
  return normalize(line.slice(2 + name.length).trim());
}

/** Starts a provider that lists its models for callers with the key. */
function startProvider() {
  return Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: ({ url, headers }) => {
      if (headers.get('authorization') !== `Bearer ${key}`)
        return new Response('', { status: 401 });
      return new URL(url).pathname === '/v1/models'
        ? Response.json({ data: [] })
        : new Response('', { status: 404 });
    },
  });
}

const upstreams = (url: string, api_key = key) => ({
  fake: { url, api_key, models: { 'test/chat': {} } },
});

test(
  'doctor passes before the first start and creates nothing',
  async () => {
    const folder = newFolder();
    const dataDir = join(folder, 'data');
    const { exitCode, stdout, stderr } = await run(['doctor'], { dataDir });
    expect(normalize(stdout).split('\n')).toEqual([
      '✓ configuration   Settings from no configuration file: 0 models, and the demo.',
      `✓ data directory  ${dataDir} doesn't exist yet; the first start creates it. Its disk has ` +
        '# GiB free.',
      `✓ store           ${dataDir}/tollgate.db doesn't exist yet; the first start creates it.`,
      "✓ clock           This machine's clock says # UTC.",
      "✓ providers       No provider has a key, so the demo is on. Set a provider's key, such as " +
        'OPENAI_API_KEY.',
      '✓ journal         No journals were left behind by processes that have exited.',
      'All 6 checks passed.',
      '',
    ]);
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(readdirSync(folder)).toEqual([]);
  },
  testMs,
);

test(
  'doctor passes while a gateway is running and prints a line for each check',
  async () => {
    await using provider = startProvider();
    const url = provider.url.origin;
    await using gateway = await startGateway({ upstreams: upstreams(url) });
    const { dataDir } = gateway;
    const found = await run(['doctor'], { dataDir, upstreams: upstreams(url) });
    expect(normalize(found.stdout).split('\n')).toEqual([
      '✓ configuration   Settings from tollgate.yaml: 1 model.',
      `✓ data directory  ${dataDir} is writable. Its disk has # GiB free.`,
      `✓ store           ${dataDir}/tollgate.db answers in # ms; all ${migrationCount} migrations ` +
        'are applied.',
      "✓ clock           This machine's clock says # UTC.",
      '✓ secret key      There are no provider keys to decrypt.',
      '✓ provider fake   host accepts the key in # ms.',
      '✓ journal         No journals were left behind by processes that have exited.',
      '✓ ledger          No lease expired more than a day ago. To check every balance, run ' +
        '"tollgate ledger verify".',
      'All 8 checks passed.',
      '',
    ]);
    expect([found.exitCode, found.stderr]).toEqual([0, '']);
    expect(await gateway.balance()).toBe(10_000_000);
  },
  testMs,
);

describe('a failed doctor check', () => {
  test(
    'exits with 1 and prints what to do, as text or JSON, without secrets',
    async () => {
      await using provider = startProvider();
      const options = { upstreams: upstreams(provider.url.origin, 'sk-wrong-and-secret') };
      const found = await run(['doctor'], options);
      expect(findingOf(found, '✗', 'provider fake')).toBe(
        'host rejects the key (401). Set providers.fake.api_key to a valid key.',
      );
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 6 checks failed.\n']);
      const json = await run(['doctor', '--json'], options);
      const { ok, data } = JSON.parse(json.stdout);
      expect([ok, json.exitCode]).toEqual([false, 1]);
      expect(data[4]).toEqual({
        name: 'provider fake',
        ok: false,
        found: `${provider.url.host} rejects the key (401).`,
        fix: 'Set providers.fake.api_key to a valid key.',
      });
      expect(data[0]).toMatchObject({ name: 'configuration', ok: true, fix: null });
      expect(found.stdout + json.stdout).not.toContain('sk-wrong-and-secret');
    },
    testMs,
  );

  test(
    'lists the same configuration problems as startup',
    async () => {
      const options = { config: { server: { port: 'eighty' }, demo: 'maybe' } };
      const [found, start] = [await run(['doctor'], options), await run(['serve'], options)];
      expect(start.stderr).toContain('tollgate.yaml: server.port must be');
      const problems = start.stderr.trimEnd().replaceAll('\n', '\n  ');
      expect(found.stdout).toBe(`✗ configuration  ${problems}\n`);
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 1 check failed.\n']);
    },
    testMs,
  );

  test(
    'is red at a terminal, where passed checks are green',
    async () => {
      const command = `${process.execPath} ${program} doctor`;
      const shown = Bun.spawn(['script', '-qec', command, '/dev/null'], {
        cwd: newFolder(),
        env: { PATH: process.env.PATH ?? '', TERM: 'xterm', TOLLGATE_DATA_DIR: program },
        stdin: 'ignore',
      });
      const text = await new Response(shown.stdout).text();
      expect(text).toContain('\u001b[32m✓\u001b[0m configuration');
      expect(text).toContain('\u001b[31m✗\u001b[0m data directory');
    },
    testMs,
  );
});

test(
  'doctor checks providers concurrently and prints them in order',
  async () => {
    const second = Promise.withResolvers<void>();
    await using provider = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch({ url }) {
        if (url.includes('/second/')) second.resolve();
        await second.promise;
        return new Response('', { status: url.includes('/second/') ? 401 : 200 });
      },
    });
    const { origin } = provider.url;
    const models = { 'test/chat': {} };
    const { stdout } = await run(['doctor'], {
      upstreams: {
        one: { url: `${origin}/first`, models },
        two: { url: `${origin}/second`, models },
      },
    });
    const lines = normalize(stdout)
      .split('\n')
      .filter((line) => line.includes(' provider '));
    expect(lines).toEqual([
      '✓ provider one    host accepts the key in # ms.',
      '✗ provider two    host rejects the key (401). Set providers.two.api_key to a valid key.',
    ]);
  },
  testMs,
);

test(
  'doctor changes the alignment only in the line of a provider with a long name',
  async () => {
    await using provider = startProvider();
    const long = 'a-name-of-one-hundred-characters'.padEnd(100, '-');
    const [fake] = Object.values(upstreams(provider.url.origin));
    if (!fake) throw new Error('There is no upstream.');
    const { stdout } = await run(['doctor'], { upstreams: { [long]: fake, short: fake } });
    const lines = normalize(stdout).split('\n');
    expect(lines).toContain(`✓ provider ${long}  host accepts the key in # ms.`);
    expect(lines).toContain('✓ provider short            host accepts the key in # ms.');
  },
  testMs,
);

describe('the doctor checks of folders', () => {
  const asUnprivileged =
    process.getuid?.() === 0 ? ['setpriv', '--bounding-set', '-dac_override,-dac_read_search'] : [];

  /** Runs the doctor inside a command that restricts its permissions or disk space. */
  async function runInside(
    wrapper: readonly string[],
    dataDir: string,
    variables: Readonly<Record<string, string>> = {},
  ): Promise<Finished> {
    const command = [...wrapper, process.execPath, program, 'doctor', '--data-dir', dataDir];
    const env = { PATH: process.env.PATH ?? '', ...variables };
    const child = Bun.spawn(command, { cwd: newFolder(), env, stdin: 'ignore', stderr: 'pipe' });
    const [stdout, stderr] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { exitCode: await child.exited, signal: null, stdout, stderr };
  }

  test(
    'fail for a folder of another user, with the command that changes its owner',
    async () => {
      // Only root can create a folder of another user. For other users, `/` is such a folder.
      const isRoot = process.getuid?.() === 0;
      const closed = isRoot ? newFolder() : '/';
      if (isRoot) {
        chmodSync(closed, 0o755);
        chownSync(closed, 65_534, 65_534);
      }
      const found = await runInside(asUnprivileged, join(closed, 'data'));
      expect(findingOf(found, '✗', 'data directory')).toBe(
        `This user can't write to ${closed} (EACCES). Change its owner to the user that runs ` +
          `Tollgate: chown -R "$(id -u)" "${closed}"`,
      );
      expect(found.exitCode).toBe(1);
    },
    testMs,
  );

  test(
    'fail for a read-only disk',
    async () => {
      const disk = newFolder();
      const mount = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"';
      const isolated = ['unshare', '--user', '--map-root-user', '--mount'];
      const readOnly = [...isolated, 'sh', '-c', mount, disk];
      expect(findingOf(await runInside(readOnly, disk), '✗', 'data directory')).toBe(
        `This user can't write to ${disk} (EROFS). Remount its disk as writable, or set data_dir ` +
          'to a folder on another disk.',
      );
    },
    testMs,
  );

  test(
    'include a database folder outside the data directory, before and after the first start',
    async () => {
      const dataDir = newFolder();
      const folder = join(newFolder(), 'database');
      mkdirSync(folder);
      const file = join(folder, 'tollgate.db');
      // Other programs' files in the same folder are not checked.
      writeFileSync(join(folder, 'unrelated'), '', { mode: 0o400 });
      const env = { DATABASE_URL: `sqlite:${file}` };
      const runDoctor = () => runInside(asUnprivileged, dataDir, env);
      const unwritable = (path: string) =>
        `This user can't write to ${path} (EACCES). Make it writable: chmod -R u+rwX "${path}"`;
      expect(findingOf(await runDoctor(), '✓', 'store')).toContain("doesn't exist yet");
      chmodSync(folder, 0o500);
      expect(findingOf(await runDoctor(), '✗', 'store')).toBe(unwritable(folder));
      chmodSync(folder, 0o700);
      await (await openStore(`sqlite:${file}`)).database.close();
      expect(findingOf(await runDoctor(), '✓', 'store')).toContain('migrations are applied');
      chmodSync(file, 0o400);
      expect(findingOf(await runDoctor(), '✗', 'store')).toBe(unwritable(file));
    },
    testMs,
  );

  test(
    'fail for a nearly full disk, with the free space',
    async () => {
      const disk = newFolder();
      const mount = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"';
      const small = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mount, disk];
      expect(findingOf(await runInside(small, disk), '✗', 'data directory')).toBe(
        `The disk that holds ${disk} has only 8 MiB free. Free at least 256 MiB, or set data_dir ` +
          'to a folder on another disk.',
      );
    },
    testMs,
  );
});

describe('the doctor checks of Postgres', () => {
  test(
    'print migrations and clock skew, and create no tables',
    async () => {
      const DATABASE_URL = await (await startPostgres()).createDatabase();
      const env = { DATABASE_URL };
      const before = await run(['doctor'], { env });
      expect(findingOf(before, '✓', 'store')).toBe(
        `Postgres answers in # ms; 0 of ${migrationCount} migrations are applied, and the next ` +
          `start applies the other ${migrationCount}.`,
      );
      const inSync = "This machine's clock differs from the database's by # s.";
      expect(findingOf(before, '✓', 'clock')).toBe(inSync);
      await using db = await connect(DATABASE_URL);
      expect(await db.rows("select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
      await (await startGateway({ env })).stop();
      const after = await run(['doctor'], { env });
      expect(findingOf(after, '✓', 'store')).toBe(
        `Postgres answers in # ms; all ${migrationCount} migrations are applied.`,
      );
      expect(findingOf(after, '✓', 'ledger')).toStartWith('No lease expired');
      await db.rows('alter table webhooks rename to hooks');
      const incomplete = await run(['doctor'], { env });
      expect(findingOf(incomplete, '✗', 'store')).toStartWith(
        'The database has no table webhooks. ',
      );
      expect(incomplete.stdout).not.toContain('ledger');
      await db.rows('alter table hooks rename to webhooks');
      await db.rows(`insert into migrations values (${migrationCount + 1}, 'later', 0)`);
      const newer = await run(['doctor'], { env });
      expect(findingOf(newer, '✗', 'store')).toBe(
        `The database is at schema ${migrationCount + 1}, but this version of Tollgate only supports ` +
          `schemas up to ${migrationCount}. Start the version that wrote it, or a newer one.`,
      );
      expect(newer.stdout).not.toContain('ledger');
    },
    testMs,
  );

  test(
    'fail once if it is unreachable, without printing its password',
    async () => {
      const env = { DATABASE_URL: 'postgres://me:hunter2@127.0.0.1:1/ledger' };
      const found = await run(['doctor'], { env });
      expect(findingOf(found, '✗', 'store')).toBe(
        'Postgres at host/ledger cannot be reached: connection refused. Check the database ' +
          'option (DATABASE_URL), and make sure that this machine can reach the server.',
      );
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 5 checks failed.\n']);
      expect(found.stdout).not.toContain('hunter2');
    },
    testMs,
  );
});

test(
  'doctor fails if Redis is unreachable or rejects commands',
  async () => {
    const redis = await startRedis();
    if (!redis) return;
    const options = { env: { REDIS_URL: redis.url } };
    expect(findingOf(await run(['doctor'], options), '✓', 'redis')).toBe('Redis answers in # ms.');
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    expect(findingOf(await run(['doctor'], options), '✗', 'redis')).toMatch(
      /^Redis can't be used: OOM .*\. Redis is running but rejects the command\. .* maxmemory .*\.$/,
    );
    await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    const outOfRange = await run(['doctor'], { env: { REDIS_URL: `${redis.url}/99` } });
    expect(findingOf(outOfRange, '✗', 'redis')).toMatch(
      /^Redis can't be used: ERR DB index is out of range\. Redis is running but rejects the command/,
    );
    await redis[Symbol.asyncDispose]();
    const found = await run(['doctor'], options);
    expect(findingOf(found, '✗', 'redis')).toMatch(
      /^Redis can't be used: \S.*\. Start Redis, or set the redis option \(REDIS_URL\) to its URL\.$/,
    );
    expect(found.exitCode).toBe(1);
  },
  testMs,
);

test(
  'doctor writes, reads, and deletes an object on S3, and fails for wrong credentials',
  async () => {
    const s3 = await startS3();
    try {
      const OBJECTS_URL = `s3://${s3.bucket}/jobs?endpoint=${s3.endpoint}`;
      const env = { OBJECTS_URL, AWS_ACCESS_KEY_ID: s3.accessKey };
      const right = { env: { ...env, AWS_SECRET_ACCESS_KEY: s3.secretKey } };
      expect(findingOf(await run(['doctor'], right), '✓', 'objects')).toBe(
        'An object was written, read, and deleted in # ms.',
      );
      expect(s3.objects()).toEqual([]);
      const anonymous = await run(['doctor'], { env: { OBJECTS_URL } });
      expect(findingOf(anonymous, '✗', 'objects')).toBe(
        'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or add ' +
          'credentials=aws or credentials=aws_instance to the URL.',
      );
      const wrong = { env: { ...env, AWS_SECRET_ACCESS_KEY: 'guessed-secret' } };
      const found = await run(['doctor'], wrong);
      expect(findingOf(found, '✗', 'objects')).toMatch(
        /^Objects can't be stored: \S.*\. Check the objects option \(OBJECTS_URL\), AWS_ACCESS_KEY_ID, and /,
      );
      expect(found.stdout).not.toContain('guessed-secret');
    } finally {
      await s3.stop();
    }
  },
  testMs,
);

test(
  'doctor fails for a secret key that does not decrypt stored keys, before startup rejects it',
  async () => {
    const first = await startGateway({ config: { demo: true } });
    await first.stop();
    const { dataDir } = first;
    const env = { TOLLGATE_SECRET_KEY: 'another-secret-key-0123456789-abc' };
    const config = upstreamConfig(upstreams('http://127.0.0.1:1'));
    const words = ['byok', 'set', 'fake', '--api-key', 'sk-of-a-tenant'];
    const own = { TOLLGATE_SECRET_KEY: '' };
    expect((await run(words, { dataDir, config, env: own })).stderr).toBe('');
    const matching = await run(['doctor'], { dataDir, config });
    const decrypts = 'The secret key can decrypt all provider keys (1).';
    expect(findingOf(matching, '✓', 'secret key')).toBe(decrypts);
    const found = await run(['doctor'], { dataDir, config, env });
    expect(findingOf(found, '✗', 'secret key')).toStartWith(
      'The secret key can decrypt only 0 of 1 provider key. ' +
        "The secret key doesn't match the stored provider keys.",
    );
    expect((await run(['serve', '--port', '0'], { dataDir, config, env })).exitCode).toBe(1);
  },
  testMs,
);

test(
  'doctor reports the journals and leases of a killed gateway without changing them',
  async () => {
    const gateway = await startGateway({ config: { demo: true } });
    await gateway.kill9();
    const { dataDir } = gateway;
    {
      using db = new Database(join(dataDir, 'tollgate.db'));
      db.run(`insert into leases (account_id, process_id, number, credits, until)
        select id, 'killed', 1, 700, 0 from accounts where owner like 'tenant:%'`);
    }
    const config = { demo: true };
    const found = await run(['doctor'], { dataDir, config });
    expect(findingOf(found, '✗', 'journal')).toBe(
      "Processes that have exited left 1 journal, which may contain charges that aren't in the " +
        'ledger yet. To record these charges, start a gateway with this data directory: ' +
        '"tollgate serve".',
    );
    expect(findingOf(found, '✗', 'ledger')).toBe(
      '1 lease with 700 credits expired more than a day ago. To return the credits, start a ' +
        'gateway: "tollgate serve".',
    );
    expect(readdirSync(join(dataDir, 'journal'))).toHaveLength(2);
    const otherRate = await run(['doctor'], {
      dataDir,
      config: { demo: true, credits_per_usd: 1000 },
    });
    expect(findingOf(otherRate, '✗', 'ledger')).toBe(
      'The ledger has 1000000 credits per dollar, but the configuration has 1000. ' +
        'Set credits_per_usd to 1000000.',
    );
    const other = await startGateway({ config });
    await other.stop();
    const database = `sqlite:${join(other.dataDir, 'tollgate.db')}`;
    const mismatched = await run(['doctor'], { dataDir, config: { ...config, database } });
    expect(findingOf(mismatched, '✗', 'journal')).toStartWith(
      `The journal folder ${join(dataDir, 'journal')} contains requests from another database. Start once with`,
    );
  },
  testMs,
);

interface Connected extends AsyncDisposable {
  rows(text: string): Promise<readonly unknown[]>;
}

async function connect(url: string): Promise<Connected> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    rows: async (text) => (await client.query(text)).rows,
    [Symbol.asyncDispose]: () => client.end(),
  };
}
