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
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { migrationStatus } from './migrations/migrate.ts';
import { openReadOnly, openStore, openWhenReachable } from './open.ts';

describe('opening a store', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-open-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test('creates the folders above a new file, closed to other users', async () => {
    const store = await openStore(`sqlite:${folder}/new/deep/tollgate.db`);
    expect(store.database.engine).toBe('sqlite');
    await store.database.close();
    expect(statSync(join(folder, 'new')).mode & 0o777).toBe(0o700);
  });

  test('keeps its files from other users, also in a folder that is open to them', async () => {
    const open = join(folder, 'open');
    mkdirSync(open);
    chmodSync(open, 0o755);
    const store = await openStore(`sqlite:${open}/tollgate.db`);
    const rights = readdirSync(open).map((name) => statSync(join(open, name)).mode & 0o777);
    await store.database.close();
    expect(rights).toEqual([0o600, 0o600, 0o600]);
  });

  test.each([
    ['a file stands where a folder is needed', 'file', (at: string) => writeFileSync(at, '')],
    ['a link leads nowhere', 'link', (at: string) => symlinkSync(join(folder, 'gone'), at)],
  ])('says in one sentence that %s', async (_, name, make) => {
    make(join(folder, name));
    const { message } = await failureOf(openStore(`sqlite:${folder}/${name}/tollgate.db`));
    expect(message).toBe(
      `The database file ${folder}/${name}/tollgate.db cannot be used: ` +
        'a part of its path is a file, or a link that leads nowhere.',
    );
  });

  test('says in one sentence that a file cannot even be looked for', async () => {
    symlinkSync('loop', join(folder, 'loop'));
    const { message } = await failureOf(openStore(`sqlite:${folder}/loop/tollgate.db`, true));
    expect(message).toBe(
      `The database file ${folder}/loop/tollgate.db cannot be used: ` +
        'its path is a link that leads back to itself.',
    );
  });

  test.each(['sqlite:', 'sqlite::memory:'])('%p names no file and is refused', async (url) => {
    expect((await failureOf(openStore(url))).message).toBe('The sqlite: address must name a file.');
  });

  test('an unknown scheme is refused without repeating the address', async () => {
    const { message } = await failureOf(openStore('mysql://me:hunter2@host/db'));
    expect(message).toBe('The database address must start with sqlite: or postgres://.');
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

const folder = mkdtempSync(join(tmpdir(), 'tollgate-look-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function look(path: string) {
  const seen = await openReadOnly(`sqlite:${path}`);
  if (!seen) throw new Error(`There is nothing at ${path}.`);
  return seen;
}

test('a file that is not there is not made', async () => {
  const path = join(folder, 'none', 'tollgate.db');
  expect(await openReadOnly(`sqlite:${path}`)).toBeUndefined();
  expect(existsSync(join(folder, 'none'))).toBe(false);
});

test('beside its user a file can be read and not changed', async () => {
  const path = join(folder, 'used.db');
  const { database: used } = await openStore(`sqlite:${path}`);
  const seen = await look(path);
  expect(await seen.read.selectFrom('tenants').selectAll().execute()).toEqual([]);
  const change = seen.write.insertInto('settings').values({ name: 'a', value: 'b' }).execute();
  expect(await failureOf(change)).toMatchObject({ code: 'SQLITE_READONLY' });
  await seen.close();
  expect(await used.read.selectFrom('settings').select('name').execute()).toEqual([]);
  await used.close();
});

test('a file of an earlier version is not migrated', async () => {
  const path = join(folder, 'earlier.db');
  {
    using file = new Database(path);
    file.run('create table migrations (number integer, name text, applied_at integer)');
    file.run("insert into migrations values (1, 'first', 0)");
  }
  const seen = await look(path);
  expect(await migrationStatus(seen.read, 'sqlite')).toMatchObject({ applied: 1 });
  await seen.close();
  using file = new Database(path);
  expect(file.query('select name from sqlite_schema').values()).toEqual([['migrations']]);
});

test('a file of something else is refused by its name', async () => {
  const path = join(folder, 'letter.db');
  writeFileSync(path, 'Dear reader, '.repeat(1_000));
  const standing = look(path).then((seen) => migrationStatus(seen.read, 'sqlite'));
  expect(await failureOf(standing)).toMatchObject({
    message: expect.stringContaining(`${path} cannot be used: it is not a SQLite database`),
  });
});

/** Nothing listens there: port 1 is nobody's. */
const nowhere = 'postgres://tollgate@127.0.0.1:1/tollgate';
const patienceMs = 60_000;

/** A promise whose handlers can be counted: each stays in memory until it is settled. */
class Awaited<Value> extends Promise<Value> {}

test('waiting adds one handler to the stop, however long it takes, and ends with it', async () => {
  const waits = spyOn(Awaited.prototype, 'then');
  let stop = () => {};
  const stopped = new Awaited<void>((resolve) => {
    stop = resolve;
  });
  const reasons: string[] = [];
  const opening = openWhenReachable(nowhere, {
    waitBudgetMs: patienceMs,
    stopped,
    onUnreachable(why) {
      reasons.push(why);
      if (reasons.length === 4) stop();
    },
  });
  expect(await opening).toBeUndefined();
  expect(reasons).toHaveLength(4);
  expect(waits).toHaveBeenCalledTimes(1);
});

test('a stop that came before the first attempt ends the wait', async () => {
  const onAway = () => {};
  const stopped = Promise.resolve();
  expect(
    await openWhenReachable(nowhere, { waitBudgetMs: patienceMs, stopped, onUnreachable: onAway }),
  ).toBeUndefined();
});

test('a process that cannot have its port does not wait for the tables', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // As another process that has just begun with the migrations.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const taken = new Error('The port is in use.');
  const opening = openWhenReachable(`sqlite:${path}`, {
    waitBudgetMs: patienceMs,
    stopped: new Promise(() => {}),
    onUnreachable() {
      throw taken;
    },
  });
  expect(await failureOf(opening)).toBe(taken);
  other.close();
  rmSync(folder, { recursive: true });
}, 60_000);

test('a file that another process locks for long is waited for, and that is told', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-late-'));
  const path = join(folder, 'tollgate.db');
  // As one that has been at the migrations for longer than SQLite waits for a lock.
  const other = new Database(path);
  other.run('pragma journal_mode = wal');
  other.run('begin immediate');
  const locked = `The database file ${path} cannot be used: another process keeps it locked.`;
  const reasons: string[] = [];
  const store = await openWhenReachable(`sqlite:${path}`, {
    waitBudgetMs: patienceMs,
    stopped: new Promise(() => {}),
    onUnreachable(why) {
      reasons.push(why);
      if (why === locked) other.close();
    },
  });
  expect(reasons).toContain(locked);
  expect(await store?.directory.version()).toBe(0);
  await store?.database.close();
  rmSync(folder, { recursive: true });
}, 60_000);
