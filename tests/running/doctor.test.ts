/** `tollgate doctor`: what it finds on real stores and servers, and that it leaves no trace. */
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
const steps = migrations.length;

/** Numbers that differ from run to run. */
function plain(text: string): string {
  return text
    .replace(/\b\d+ ms\b/g, '# ms')
    .replace(/\b[\d.]+ GiB\b/g, '# GiB')
    .replace(/\b\d+\.\d s\b/g, '# s')
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, '# UTC')
    .replace(/127\.0\.0\.1:\d+/g, 'host');
}

/** The line of one check, without its mark and its name. */
function told({ stdout }: Finished, mark: '✓' | '✗', name: string): string {
  const line = stdout.split('\n').find((one) => one.startsWith(`${mark} ${name} `));
  if (line === undefined) throw new Error(`No ${mark} ${name} in:\n${stdout}`);
  return plain(line.slice(2 + name.length).trim());
}

/** A provider that lists its models for whoever has the key. */
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
  'before the first start all is well, and nothing is made',
  async () => {
    const folder = newFolder();
    const dataDir = join(folder, 'data');
    const { exitCode, stdout, stderr } = await run(['doctor'], { dataDir });
    expect(plain(stdout).split('\n')).toEqual([
      '✓ configuration  Settings from no configuration file: 0 models, and the demo.',
      `✓ data folder    ${dataDir} is not there yet; the first start can make it. # GiB are free.`,
      `✓ store          ${dataDir}/tollgate.db is not there yet; the first start makes it.`,
      '✓ clock          It is # UTC by this machine, whose clock counts.',
      '✓ providers      None has a key, so the demo answers. Set the key of one, such as ' +
        'OPENAI_API_KEY.',
      '✓ journal        No process that has ended left requests behind.',
      'All is well: 6 checks.',
      '',
    ]);
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(readdirSync(folder)).toEqual([]);
  },
  testMs,
);

test(
  'beside a running gateway all is well, and every check has its line',
  async () => {
    await using provider = startProvider();
    const url = provider.url.origin;
    await using gateway = await startGateway({ upstreams: upstreams(url) });
    const { dataDir } = gateway;
    const found = await run(['doctor'], { dataDir, upstreams: upstreams(url) });
    expect(plain(found.stdout).split('\n')).toEqual([
      '✓ configuration  Settings from tollgate.yaml: 1 model.',
      `✓ data folder    ${dataDir} can be written. # GiB are free.`,
      `✓ store          ${dataDir}/tollgate.db answers in # ms; all ${steps} migrations are ` +
        'applied.',
      '✓ clock          It is # UTC by this machine, whose clock counts.',
      '✓ secret key     Tenants have brought no provider keys that it has to open.',
      '✓ provider fake  host answers to the key in # ms.',
      '✓ journal        No process that has ended left requests behind.',
      '✓ books          Nothing is on hold for longer than a day; "tollgate ledger verify" ' +
        'follows every balance.',
      'All is well: 8 checks.',
      '',
    ]);
    expect([found.exitCode, found.stderr]).toEqual([0, '']);
    expect(await gateway.balance()).toBe(10_000_000);
  },
  testMs,
);

describe('a cross', () => {
  test(
    'says what to do, exits with 1, is JSON for programs, and tells no secret',
    async () => {
      await using provider = startProvider();
      const options = { upstreams: upstreams(provider.url.origin, 'sk-wrong-and-secret') };
      const found = await run(['doctor'], options);
      expect(told(found, '✗', 'provider fake')).toBe(
        'host refuses the key (401). Set providers.fake.api_key to a key that it accepts.',
      );
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 6 checks found something wrong.\n']);
      const json = await run(['doctor', '--json'], options);
      const { ok, data } = JSON.parse(json.stdout);
      expect([ok, json.exitCode]).toEqual([false, 1]);
      expect(data[4]).toEqual({
        name: 'provider fake',
        ok: false,
        found: `${provider.url.host} refuses the key (401).`,
        fix: 'Set providers.fake.api_key to a key that it accepts.',
      });
      expect(data[0]).toMatchObject({ name: 'configuration', ok: true, fix: null });
      expect(found.stdout + json.stdout).not.toContain('sk-wrong-and-secret');
    },
    testMs,
  );

  test(
    'at the configuration has its problems as a start has them',
    async () => {
      const options = { config: { server: { port: 'eighty' }, demo: 'maybe' } };
      const [found, start] = [await run(['doctor'], options), await run(['serve'], options)];
      expect(start.stderr).toContain('tollgate.yaml: server.port must be');
      const problems = start.stderr.trimEnd().replaceAll('\n', '\n  ');
      expect(found.stdout).toBe(`✗ configuration  ${problems}\n`);
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 1 check found something wrong.\n']);
    },
    testMs,
  );

  test(
    'is red and a tick green where a person reads it, and only there',
    async () => {
      const command = `${process.execPath} ${program} doctor`;
      const shown = Bun.spawn(['script', '-qec', command, '/dev/null'], {
        cwd: newFolder(),
        env: { PATH: process.env.PATH ?? '', TERM: 'xterm', TOLLGATE_DATA_DIR: program },
        stdin: 'ignore',
      });
      const text = await new Response(shown.stdout).text();
      expect(text).toContain('\u001b[32m✓\u001b[0m configuration');
      expect(text).toContain('\u001b[31m✗\u001b[0m data folder');
    },
    testMs,
  );
});

test(
  'providers are asked all at once, and told in their order',
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
    const lines = plain(stdout)
      .split('\n')
      .filter((line) => line.includes(' provider '));
    expect(lines).toEqual([
      '✓ provider one   host answers to the key in # ms.',
      '✗ provider two   host refuses the key (401). Set providers.two.api_key to a key that it ' +
        'accepts.',
    ]);
  },
  testMs,
);

test(
  'a long name shifts its own line only',
  async () => {
    await using provider = startProvider();
    const long = 'a-name-of-one-hundred-characters'.padEnd(100, '-');
    const [fake] = Object.values(upstreams(provider.url.origin));
    if (!fake) throw new Error('There is no upstream.');
    const { stdout } = await run(['doctor'], { upstreams: { [long]: fake, short: fake } });
    const lines = plain(stdout).split('\n');
    expect(lines).toContain(`✓ provider ${long}  host answers to the key in # ms.`);
    expect(lines).toContain('✓ provider short            host answers to the key in # ms.');
  },
  testMs,
);

describe('a place to write to', () => {
  const asAnybody =
    process.getuid?.() === 0 ? ['setpriv', '--bounding-set', '-dac_override,-dac_read_search'] : [];

  /** Runs the doctor behind another command, which takes rights or room away. */
  async function runBehind(
    words: readonly string[],
    dataDir: string,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Finished> {
    const all = [...words, process.execPath, program, 'doctor', '--data-dir', dataDir];
    const env = { PATH: process.env.PATH ?? '', ...more };
    const child = Bun.spawn(all, { cwd: newFolder(), env, stdin: 'ignore', stderr: 'pipe' });
    const [stdout, stderr] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { exitCode: await child.exited, signal: null, stdout, stderr };
  }

  test(
    'that belongs to another user is named, with the command that gives it away',
    async () => {
      // Only root can make one; for everybody else, the root of the disk is one.
      const isRoot = process.getuid?.() === 0;
      const closed = isRoot ? newFolder() : '/';
      if (isRoot) {
        chmodSync(closed, 0o755);
        chownSync(closed, 65_534, 65_534);
      }
      const found = await runBehind(asAnybody, join(closed, 'data'));
      expect(told(found, '✗', 'data folder')).toBe(
        `This user may not write to ${closed} (EACCES). Give it to the user that runs Tollgate: ` +
          `chown -R "$(id -u)" "${closed}"`,
      );
      expect(found.exitCode).toBe(1);
    },
    testMs,
  );

  test(
    'on a disk that can only be read is told as such',
    async () => {
      const disk = newFolder();
      const mount = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"';
      const apart = ['unshare', '--user', '--map-root-user', '--mount'];
      const readOnly = [...apart, 'sh', '-c', mount, disk];
      expect(told(await runBehind(readOnly, disk), '✗', 'data folder')).toBe(
        `This user may not write to ${disk} (EROFS). Mount its disk so that it can be written, ` +
          'or move data_dir.',
      );
    },
    testMs,
  );

  test(
    'is looked at where the database has one of its own, before the first start and after it',
    async () => {
      const dataDir = newFolder();
      const folder = join(newFolder(), 'books');
      mkdirSync(folder);
      const file = join(folder, 'tollgate.db');
      // What belongs to others in the same folder is none of our business.
      writeFileSync(join(folder, 'of-others'), '', { mode: 0o400 });
      const env = { DATABASE_URL: `sqlite:${file}` };
      const look = () => runBehind(asAnybody, dataDir, env);
      const closed = (path: string) =>
        `This user may not write to ${path} (EACCES). Open it: chmod -R u+rwX "${path}"`;
      expect(told(await look(), '✓', 'store')).toContain('is not there yet');
      chmodSync(folder, 0o500);
      expect(told(await look(), '✗', 'store')).toBe(closed(folder));
      chmodSync(folder, 0o700);
      await (await openStore(`sqlite:${file}`)).database.close();
      expect(told(await look(), '✓', 'store')).toContain('migrations are applied');
      chmodSync(file, 0o400);
      expect(told(await look(), '✗', 'store')).toBe(closed(file));
    },
    testMs,
  );

  test(
    'on a disk that is nearly full is told with what is left',
    async () => {
      const disk = newFolder();
      const mount = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"';
      const small = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mount, disk];
      expect(told(await runBehind(small, disk), '✗', 'data folder')).toBe(
        `Only 8 MiB are free on the disk of ${disk}. Make room for at least 256 MiB, or move ` +
          'data_dir.',
      );
    },
    testMs,
  );
});

describe('Postgres', () => {
  test(
    'is told with its migrations and its clock, and gets no tables before the first start',
    async () => {
      const DATABASE_URL = await (await startPostgres()).createDatabase();
      const env = { DATABASE_URL };
      const before = await run(['doctor'], { env });
      expect(told(before, '✓', 'store')).toBe(
        `Postgres answers in # ms; 0 of ${steps} migrations are applied, the next start applies ` +
          `the other ${steps}.`,
      );
      expect(told(before, '✓', 'clock')).toBe("It is # s apart from the store's.");
      await using db = await connect(DATABASE_URL);
      expect(await db.rows("select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
      await (await startGateway({ env })).stop();
      const after = await run(['doctor'], { env });
      expect(told(after, '✓', 'store')).toBe(
        `Postgres answers in # ms; all ${steps} migrations are applied.`,
      );
      expect(told(after, '✓', 'books')).toStartWith('Nothing is on hold');
      await db.rows('alter table webhooks rename to hooks');
      const torn = await run(['doctor'], { env });
      expect(told(torn, '✗', 'store')).toStartWith('The database has no table webhooks. ');
      expect(torn.stdout).not.toContain('books');
      await db.rows('alter table hooks rename to webhooks');
      await db.rows(`insert into migrations values (${steps + 1}, 'later', 0)`);
      const newer = await run(['doctor'], { env });
      expect(told(newer, '✗', 'store')).toBe(
        `The database is at schema ${steps + 1}, but this Tollgate only knows schemas up to ` +
          `${steps}: start the version that wrote it, or a newer one.`,
      );
      expect(newer.stdout).not.toContain('books');
    },
    testMs,
  );

  test(
    'that is away is told once, without its password',
    async () => {
      const env = { DATABASE_URL: 'postgres://me:hunter2@127.0.0.1:1/books' };
      const found = await run(['doctor'], { env });
      expect(told(found, '✗', 'store')).toBe(
        'Postgres at host/books cannot be reached: connection refused. Check database ' +
          '(DATABASE_URL), and that this machine may reach it.',
      );
      expect([found.exitCode, found.stderr]).toEqual([1, '1 of 5 checks found something wrong.\n']);
      expect(found.stdout).not.toContain('hunter2');
    },
    testMs,
  );
});

test(
  'Redis is asked, and told when it is away',
  async () => {
    const redis = await startRedis();
    if (!redis) return;
    const options = { env: { REDIS_URL: redis.url } };
    expect(told(await run(['doctor'], options), '✓', 'redis')).toBe('It answers in # ms.');
    await redis.command('CONFIG', 'SET', 'maxmemory', '1');
    expect(told(await run(['doctor'], options), '✗', 'redis')).toMatch(
      /^It cannot be used: OOM .*\. It runs, and refuses this itself: .* maxmemory, .*\.$/,
    );
    await redis.command('CONFIG', 'SET', 'maxmemory', '0');
    const far = await run(['doctor'], { env: { REDIS_URL: `${redis.url}/99` } });
    expect(told(far, '✗', 'redis')).toMatch(
      /^It cannot be used: ERR DB index is out of range\. It runs, and refuses this itself: /,
    );
    await redis[Symbol.asyncDispose]();
    const found = await run(['doctor'], options);
    expect(told(found, '✗', 'redis')).toMatch(
      /^It cannot be used: \S.*\. Start it, or set redis \(REDIS_URL\) to where it runs\.$/,
    );
    expect(found.exitCode).toBe(1);
  },
  testMs,
);

test(
  'an object goes to S3 and back and is removed, if the key is right',
  async () => {
    const s3 = await startS3();
    try {
      const OBJECTS_URL = `s3://${s3.bucket}/jobs?endpoint=${s3.endpoint}`;
      const env = { OBJECTS_URL, AWS_ACCESS_KEY_ID: s3.accessKey };
      const right = { env: { ...env, AWS_SECRET_ACCESS_KEY: s3.secretKey } };
      expect(told(await run(['doctor'], right), '✓', 'objects')).toBe(
        'One was written, read and removed in # ms.',
      );
      expect(s3.objects()).toEqual([]);
      const nobody = await run(['doctor'], { env: { OBJECTS_URL } });
      expect(told(nobody, '✗', 'objects')).toBe(
        'Objects on S3 need credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
      );
      const wrong = { env: { ...env, AWS_SECRET_ACCESS_KEY: 'guessed-secret' } };
      const found = await run(['doctor'], wrong);
      expect(told(found, '✗', 'objects')).toMatch(
        /^They cannot be kept: \S.*\. Check objects \(OBJECTS_URL\), AWS_ACCESS_KEY_ID and /,
      );
      expect(found.stdout).not.toContain('guessed-secret');
    } finally {
      await s3.stop();
    }
  },
  testMs,
);

test(
  'a secret key that opens nothing of what is stored is found before a start refuses it',
  async () => {
    const first = await startGateway({ config: { demo: true } });
    await first.stop();
    const { dataDir } = first;
    const env = { TOLLGATE_SECRET_KEY: 'a'.repeat(64) };
    const config = upstreamConfig(upstreams('http://127.0.0.1:1'));
    const words = ['byok', 'set', 'fake', '--api-key', 'sk-of-a-tenant'];
    const own = { TOLLGATE_SECRET_KEY: '' };
    expect((await run(words, { dataDir, config, env: own })).stderr).toBe('');
    const fits = await run(['doctor'], { dataDir, config });
    expect(told(fits, '✓', 'secret key')).toBe('It opens 1 provider key of tenants.');
    const found = await run(['doctor'], { dataDir, config, env });
    expect(told(found, '✗', 'secret key')).toStartWith(
      "It opens 0 of 1 provider key. The secret key doesn't match the stored provider keys.",
    );
    expect((await run(['serve', '--port', '0'], { dataDir, config, env })).exitCode).toBe(1);
  },
  testMs,
);

test(
  'what a killed gateway left behind is found, and left to the next start',
  async () => {
    const gateway = await startGateway({ config: { demo: true } });
    await gateway.kill9();
    const { dataDir } = gateway;
    {
      using db = new Database(join(dataDir, 'tollgate.db'));
      db.run(`insert into leases (account_id, process_id, number, credits, until)
        select id, 'gone', 1, 700, 0 from accounts where owner like 'tenant:%'`);
    }
    const config = { demo: true };
    const found = await run(['doctor'], { dataDir, config });
    expect(told(found, '✗', 'journal')).toBe(
      '1 journal left by processes that do not run any more. Start a gateway on this folder, ' +
        'which books them: "tollgate serve".',
    );
    expect(told(found, '✗', 'books')).toBe(
      '700 credits are on hold for longer than a day, in 1 lease. Start a gateway, which gives ' +
        'them back: "tollgate serve".',
    );
    expect(readdirSync(join(dataDir, 'journal'))).toHaveLength(2);
    const dearer = await run(['doctor'], {
      dataDir,
      config: { demo: true, credits_per_usd: 1000 },
    });
    expect(told(dearer, '✗', 'books')).toBe(
      'They are kept in 1000000 credits per dollar, not in 1000. Set credits_per_usd to 1000000.',
    );
    const other = await startGateway({ config });
    await other.stop();
    const database = `sqlite:${join(other.dataDir, 'tollgate.db')}`;
    const mixed = await run(['doctor'], { dataDir, config: { ...config, database } });
    expect(told(mixed, '✗', 'journal')).toStartWith(
      `The journal ${join(dataDir, 'journal')} has requests of another database. Start once with`,
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
