import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, spyOn, test } from 'bun:test';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { migrationStatus } from './migrations/migrate.ts';
import { openReadOnly, openStore, openWhenReachable } from './open.ts';

describe('openStore', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-open-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('creates the folders of a new file, closed to other users', async () => {
    const store = await openStore(`sqlite:${folder}/new/deep/tollgate.db`);
    expect(store.database.engine).toBe('sqlite');
    await store.database.close();
    expect(statSync(join(folder, 'new')).mode & 0o777).toBe(0o700);
  });

  test('creates files that are closed to other users even in an open folder', async () => {
    const open = join(folder, 'open');
    mkdirSync(open);
    chmodSync(open, 0o755);
    const store = await openStore(`sqlite:${open}/tollgate.db`);
    const rights = readdirSync(open).map((name) => statSync(join(open, name)).mode & 0o777);
    await store.database.close();
    expect(rights).toEqual([0o600, 0o600, 0o600]);
  });

  test.each([
    ['a file in place of a folder', 'file', (at: string) => writeFileSync(at, '')],
    ['a broken link', 'link', (at: string) => symlinkSync(join(folder, 'gone'), at)],
  ])('rejects a path with %s', async (_, name, make) => {
    make(join(folder, name));
    const { message } = await failureOf(openStore(`sqlite:${folder}/${name}/tollgate.db`));
    expect(message).toBe(
      `The database file ${folder}/${name}/tollgate.db can't be used: ` +
        'a part of its path is a file, or a broken link.',
    );
  });

  test('rejects a path with a link to itself', async () => {
    symlinkSync('loop', join(folder, 'loop'));
    const { message } = await failureOf(openStore(`sqlite:${folder}/loop/tollgate.db`, true));
    expect(message).toBe(
      `The database file ${folder}/loop/tollgate.db can't be used: ` +
        'its path has a link that points to itself.',
    );
  });

  test.each(['sqlite:', 'sqlite::memory:'])('rejects %p, which names no file', async (url) => {
    expect((await failureOf(openStore(url))).message).toBe('The sqlite: URL must name a file.');
  });

  test('rejects an unknown scheme without repeating the URL', async () => {
    const { message } = await failureOf(openStore('mysql://me:hunter2@host/db'));
    expect(message).toBe('The database URL must start with sqlite: or postgres://.');
  });

  test('works inside a compiled executable', async () => {
    const source = join(import.meta.dir, '..');
    const entry = join(folder, 'entry.ts');
    const program = join(folder, 'program');
    writeFileSync(
      entry,
      `import { openStore } from '${join(source, 'store/open.ts')}';
      const store = await openStore('sqlite:${folder}/compiled.db');
      process.stdout.write('version ' + (await store.directory.version()));
      await store.database.close();`,
    );
    const worker = join(source, 'store/sqlite/worker.ts');
    const build = ['build', '--compile', '--root', source, entry, worker, '--outfile', program];
    const built = Bun.spawnSync([process.execPath, ...build]);
    expect(built.exitCode, String(built.stderr)).toBe(0);
    const ran = Bun.spawnSync([program], { cwd: folder, timeout: 100_000 });
    expect(String(ran.stdout) + String(ran.stderr)).toBe('version 0');
  }, 120_000);
});

const folder = mkdtempSync(join(tmpdir(), 'tollgate-read-only-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function openExisting(path: string) {
  const database = await openReadOnly(`sqlite:${path}`);
  if (!database) throw new Error(`There is no file at ${path}.`);
  return database;
}

test('openReadOnly does not create a missing file', async () => {
  const path = join(folder, 'none', 'tollgate.db');
  expect(await openReadOnly(`sqlite:${path}`)).toBeUndefined();
  expect(existsSync(join(folder, 'none'))).toBe(false);
});

test('openReadOnly reads a file in use and rejects writes', async () => {
  const path = join(folder, 'used.db');
  const { database: used } = await openStore(`sqlite:${path}`);
  const database = await openExisting(path);
  expect(await database.read.selectFrom('tenants').selectAll().execute()).toEqual([]);
  const change = sql`insert into settings values ('a', 'b')`.execute(database.read);
  expect(await failureOf(change)).toMatchObject({ code: 'SQLITE_READONLY' });
  await database.close();
  expect(await used.read.selectFrom('settings').select('name').execute()).toEqual([]);
  await used.close();
});

test('openReadOnly does not migrate a file of an older version', async () => {
  const path = join(folder, 'earlier.db');
  {
    using file = new Database(path);
    file.run('create table migrations (number integer, name text, applied_at integer)');
    file.run("insert into migrations values (1, 'first', 0)");
  }
  const database = await openExisting(path);
  expect(await migrationStatus(database.read, 'sqlite')).toMatchObject({ applied: 1 });
  await database.close();
  using file = new Database(path);
  expect(file.query('select name from sqlite_schema').values()).toEqual([['migrations']]);
});

test('openReadOnly rejects a file that is not a database', async () => {
  const path = join(folder, 'letter.db');
  writeFileSync(path, 'Dear reader, '.repeat(1_000));
  const status = openExisting(path).then((database) => migrationStatus(database.read, 'sqlite'));
  expect(await failureOf(status)).toMatchObject({
    message: expect.stringContaining(`${path} can't be used: it is not a SQLite database`),
  });
});

/** An address where nothing listens. */
const unusedAddress = 'postgres://tollgate@127.0.0.1:1/tollgate';
const waitBudgetMs = 60_000;

/** A promise whose handlers can be counted; each stays in memory until it settles. */
class CountedPromise<Value> extends Promise<Value> {}

test('openWhenReachable adds only one handler to `stopped`, and ends when it resolves', async () => {
  const waits = spyOn(CountedPromise.prototype, 'then');
  let stop = () => {};
  const stopped = new CountedPromise<void>((resolve) => {
    stop = resolve;
  });
  const reasons: string[] = [];
  const opening = openWhenReachable(unusedAddress, {
    waitBudgetMs,
    stopped,
    onUnreachable(reason) {
      reasons.push(reason);
      if (reasons.length === 4) stop();
    },
  });
  expect(await opening).toBeUndefined();
  expect(reasons).toHaveLength(4);
  expect(waits).toHaveBeenCalledTimes(1);
});

test('openWhenReachable returns undefined if it was stopped before the first attempt', async () => {
  const stopped = Promise.resolve();
  expect(
    await openWhenReachable(unusedAddress, { waitBudgetMs, stopped, onUnreachable: () => {} }),
  ).toBeUndefined();
});

test('openWhenReachable rejects when onUnreachable throws', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // Like another process that has just started to migrate.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const taken = new Error('The port is in use.');
  const opening = openWhenReachable(`sqlite:${path}`, {
    waitBudgetMs,
    stopped: new Promise(() => {}),
    onUnreachable() {
      throw taken;
    },
  });
  expect(await failureOf(opening)).toBe(taken);
  other.close();
  rmSync(folder, { recursive: true });
}, 60_000);

test('openWhenReachable waits for a locked file and reports the lock', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // Like a process that migrates for longer than SQLite waits for a lock.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const locked = `The database file ${path} can't be used: another process has locked it.`;
  const reasons: string[] = [];
  const store = await openWhenReachable(`sqlite:${path}`, {
    waitBudgetMs,
    stopped: new Promise(() => {}),
    onUnreachable(reason) {
      reasons.push(reason);
      if (reason === locked) other.close();
    },
  });
  expect(reasons).toContain(locked);
  expect(await store?.directory.version()).toBe(0);
  await store?.database.close();
  rmSync(folder, { recursive: true });
}, 60_000);
