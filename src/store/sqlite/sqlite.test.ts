import { Database as Connection } from 'bun:sqlite';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { failureOf } from '../../../tests/contracts/failure-of.ts';
import { type Database, waitingCallsMax } from '../database.ts';
import { toOutageError } from '../errors.ts';
import { statementMessage } from './database-file.ts';
import { openSqlite } from './sqlite.ts';

describe('openSqlite', () => {
  let folder: string;
  let path: string;
  let database: Database;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
    path = join(folder, 'test.db');
    database = await openSqlite(path);
    await run('create table notes (id integer primary key, text text unique) strict');
  });

  afterEach(async () => {
    await database.close();
    rmSync(folder, { recursive: true });
  });

  function run(text: string, db = database.write) {
    return sql.raw<Record<string, unknown>>(text).execute(db);
  }

  async function count(): Promise<unknown> {
    return (await run('select count(*) as n from notes', database.read)).rows[0]?.n;
  }

  test('enables WAL, a sync at each commit, and foreign keys', async () => {
    const settings = ['journal_mode', 'synchronous', 'foreign_keys'];
    const values = settings.map(async (name) => (await run(`pragma ${name}`)).rows[0]?.[name]);
    expect(await Promise.all(values)).toEqual(['wal', 2, 1]);
  });

  test('returns each of many concurrent reads its own rows', async () => {
    const reads = Array.from({ length: 100 }, (_, i) => run(`select ${i} as n`, database.read));
    const rows = (await Promise.all(reads)).map((result) => result.rows[0]?.n);
    expect(rows).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  test('runs more distinct statements than it caches', async () => {
    for (let i = 0; i < 600; i++) await run(`select ${i % 300} as n`, database.read);
    expect((await run('select 7 as n', database.read)).rows).toEqual([{ n: 7 }]);
  });

  test('reports errors with the code of SQLite', async () => {
    await run("insert into notes (text) values ('a')");
    expect(await failureOf(run("insert into notes (text) values ('a')"))).toMatchObject({
      code: 'SQLITE_CONSTRAINT_UNIQUE',
      message: 'UNIQUE constraint failed: notes.text',
    });
  });

  test('runs transactions one after the other', async () => {
    const order: string[] = [];
    const transaction = (name: string) =>
      database.write.transaction().execute(async (change) => {
        order.push(`${name} begins`);
        for (let i = 0; i < 3; i++) await sql`select 1`.execute(change);
        order.push(`${name} ends`);
      });
    await Promise.all([transaction('one'), transaction('two')]);
    expect(order).toEqual(['one begins', 'one ends', 'two begins', 'two ends']);
  });

  test('hides a transaction from readers until it is committed', async () => {
    await database.write.transaction().execute(async (change) => {
      await sql`insert into notes (text) values ('a')`.execute(change);
      expect(await count()).toBe(0);
    });
    expect(await count()).toBe(1);
  });

  test('rolls back a transaction that throws, and keeps working', async () => {
    const attempt = database.write.transaction().execute(async (change) => {
      await sql`insert into notes (text) values ('a')`.execute(change);
      throw new Error('abort');
    });
    expect((await failureOf(attempt)).message).toMatch('abort');
    expect(await count()).toBe(0);
    await run("insert into notes (text) values ('b')");
    expect(await count()).toBe(1);
  });

  test('rejects the rest of a transaction that SQLite has rolled back by itself', async () => {
    const attempt = database.write.transaction().execute(async (change) => {
      const twice = "insert or rollback into notes (text) values ('a'), ('a')";
      await sql
        .raw(twice)
        .execute(change)
        .catch(() => {});
      await sql`insert into notes (text) values ('half')`.execute(change);
    });
    expect((await failureOf(attempt)).message).toMatch('The transaction was already rolled back.');
    expect(await count()).toBe(0);
  });

  test('reports a full disk by its code, keeps its data, and recovers', async () => {
    await run("insert into notes (text) values ('before')");
    const pages = (await run('pragma page_count')).rows[0]?.page_count;
    await run(`pragma max_page_count = ${pages}`);
    const big = 'insert into notes (text) values (hex(randomblob(100000)))';
    expect(await failureOf(run(big))).toMatchObject({
      code: 'SQLITE_FULL',
      message: `The database file ${path} can't be used: the disk is full.`,
    });
    expect(await count()).toBe(1);
    await run('pragma max_page_count = 1000000');
    await run(big);
    expect(await count()).toBe(2);
  });

  test('rejects writes and transactions on the read connection', async () => {
    const write = run("insert into notes (text) values ('a')", database.read);
    expect(await failureOf(write)).toMatchObject({ code: 'SQLITE_READONLY' });
    const transaction = database.read.transaction().execute(async () => {});
    expect((await failureOf(transaction)).message).toMatch('Only the writer has transactions.');
  });

  test('waits while another process writes to the same file', async () => {
    const other = new Connection(path);
    other.run('begin immediate');
    other.run("insert into notes (text) values ('theirs')");
    let done = false;
    const ours = run("insert into notes (text) values ('ours')").then(() => {
      done = true;
    });
    expect(await count()).toBe(0);
    expect(done).toBe(false);
    other.run('commit');
    other.close();
    await ours;
    expect(await count()).toBe(2);
  });

  test('rejects reads beyond the queue limit and runs all others', async () => {
    // Kysely takes several event loop turns per query, so keep the thread busy.
    const slow = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000)
      select count(*) from n`;
    const calls = [slow, ...Array.from({ length: waitingCallsMax + 49 }, () => 'select 1')].map(
      (text) =>
        run(text, database.read).then(
          () => 'answered',
          (error: Error) => error.message,
        ),
    );
    const rejected = (await Promise.all(calls)).filter((outcome) => outcome !== 'answered');
    expect(rejected).toHaveLength(50);
    expect(new Set(rejected)).toEqual(
      new Set([`The database is too busy: ${waitingCallsMax} calls are already waiting.`]),
    );
    await database.ping();
  });

  test('serves reads during a long report, which sees committed rows', async () => {
    await run("insert into notes (text) values ('a')");
    const order: string[] = [];
    const long = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000)
      select count(*) as steps, (select count(*) from notes) as notes from n`;
    const report = run(long, database.report).then(({ rows }) => {
      order.push('report');
      return rows;
    });
    await count();
    order.push('request');
    expect(await report).toEqual([{ steps: 3_000_000, notes: 1 }]);
    expect(order).toEqual(['request', 'report']);
    const write = run("insert into notes (text) values ('b')", database.report);
    expect(await failureOf(write)).toMatchObject({ code: 'SQLITE_READONLY' });
  });

  test('truncates the WAL after a large transaction', async () => {
    // Has the size of an index over millions of rows. Normal writes follow.
    await run('create table large as select zeroblob(50000000) as bytes');
    await run('pragma wal_checkpoint');
    await run("insert into notes (text) values ('a')");
    expect(statSync(`${path}-wal`).size).toBeLessThan(35_000_000);
  });

  test('rejects calls after it was closed, and can be closed twice', async () => {
    await database.ping();
    await database.close();
    await database.close();
    expect((await failureOf(database.ping())).message).toMatch('The database is closed.');
    expect((await failureOf(count())).message).toMatch('The database is closed.');
    const report = run('select 1', database.report);
    expect((await failureOf(report)).message).toMatch('The database is closed.');
  });
});

describe('openSqlite, when a thread ends unexpectedly,', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  const OriginalWorker = globalThis.Worker;
  const threads: FailingWorker[] = [];
  let database: Database;

  class FailingWorker extends OriginalWorker {
    isFailing = false;

    constructor(url: string | URL) {
      super(url);
      threads.push(this);
    }

    override postMessage(message: unknown): void {
      if (this.isFailing) this.terminate();
      else super.postMessage(message);
    }
  }

  /** Ends the thread at its next request. */
  function fail(thread: FailingWorker | undefined): void {
    if (thread) thread.isFailing = true;
  }

  function run(text: string, connection: 'read' | 'report' | 'write') {
    return sql.raw(text).execute(database[connection]);
  }

  beforeAll(async () => {
    globalThis.Worker = FailingWorker;
    database = await openSqlite(join(folder, 'test.db'));
    await run('create table notes (id integer primary key) strict', 'write');
    await run('select 1', 'report');
  });

  afterAll(async () => {
    await database.close();
    globalThis.Worker = OriginalWorker;
    rmSync(folder, { recursive: true });
  });

  test.each([
    ['write', 0],
    ['read', 1],
    ['report', 2],
  ] as const)(
    'reports the store as unreachable to the caller of %s and restarts the thread',
    async (connection, thread) => {
      fail(threads[thread]);
      expect(toOutageError(await failureOf(run('select 1', connection)))?.symbol).toBe(
        'service_unavailable',
      );
      expect((await run('select 7 as n', connection)).rows).toEqual([{ n: 7 }]);
      await database.ping();
    },
  );

  test('rolls back the open transaction', async () => {
    const add = 'insert into notes default values';
    const half = database.write.transaction().execute(async (change) => {
      await sql.raw(add).execute(change);
      fail(threads.at(3));
      await sql.raw(add).execute(change);
    });
    expect(toOutageError(await failureOf(half))?.symbol).toBe('service_unavailable');
    await run(add, 'write');
    expect((await run('select count(*) as n from notes', 'read')).rows).toEqual([{ n: 1 }]);
  });

  test('does not run the rest of a transaction on the new thread', async () => {
    const add = 'insert into notes default values';
    const half = database.write.transaction().execute(async (change) => {
      await sql.raw(add).execute(change);
      await new Promise((ended) => {
        threads.at(-1)?.addEventListener('close', ended);
        threads.at(-1)?.terminate();
      });
      await sql.raw(add).execute(change);
    });
    expect(toOutageError(await failureOf(half))?.symbol).toBe('service_unavailable');
    expect((await run('select count(*) as n from notes', 'write')).rows).toEqual([{ n: 1 }]);
  });

  test('does not reopen a replaced file or create a new one', async () => {
    const path = join(folder, 'test.db');
    const moved = `The database file ${path} was moved, deleted, or replaced while in use.`;
    await run(`vacuum into '${join(folder, 'copy.db')}'`, 'write');
    renameSync(path, join(folder, 'away.db'));
    for (const thread of [4, -1]) fail(threads.at(thread));
    await Promise.allSettled([run('select 1', 'write'), run('select 1', 'read')]);
    for (const connection of ['write', 'read'] as const) {
      const failure = await failureOf(run('select 1', connection));
      expect([failure.message, toOutageError(failure)?.symbol]).toEqual([
        moved,
        'service_unavailable',
      ]);
    }
    expect(existsSync(path)).toBe(false);
    renameSync(join(folder, 'copy.db'), path);
    await expect(database.ping()).rejects.toThrow(moved);
    renameSync(join(folder, 'away.db'), path);
    await database.ping();
  });
});

test('openSqlite rejects writes and pings after its file was deleted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  const path = join(folder, 'test.db');
  const database = await openSqlite(path);
  await sql.raw('create table notes (id integer primary key)').execute(database.write);
  await database.ping();
  rmSync(folder, { recursive: true });
  const change = () => sql.raw('insert into notes default values').execute(database.write);
  const inTransaction = () => database.write.transaction().execute(change);
  for (const attempt of [change, inTransaction, () => database.ping()]) {
    const failure = await failureOf(attempt());
    expect(failure.message).toBe(
      `The database file ${path} was moved, deleted, or replaced while in use.`,
    );
    expect(toOutageError(failure)?.symbol).toBe('service_unavailable');
  }
  await database.close();
});

test('openSqlite rejects writes and pings after its file was replaced', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  const path = join(folder, 'test.db');
  const database = await openSqlite(path);
  await sql.raw('create table notes (id integer primary key)').execute(database.write);
  // Like a backup that is restored while a gateway is running.
  await sql.raw(`vacuum into '${join(folder, 'copy.db')}'`).execute(database.write);
  renameSync(join(folder, 'copy.db'), path);
  const change = () => sql.raw('insert into notes default values').execute(database.write);
  for (const attempt of [change, () => database.ping()]) {
    const failure = await failureOf(attempt());
    expect(failure.message).toBe(
      `The database file ${path} was moved, deleted, or replaced while in use.`,
    );
    expect(toOutageError(failure)?.symbol).toBe('service_unavailable');
  }
  await database.close();
  rmSync(folder, { recursive: true });
});

describe('openSqlite rejects', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  writeFileSync(join(folder, 'text.db'), 'Not a database. '.repeat(100));
  mkdirSync(join(folder, 'folder.db'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([
    ['text.db', 'it is not a SQLite database; restore a backup, or choose another data_dir'],
    ['folder.db', 'the path does not exist, is too long, or is not writable'],
    ['missing/x.db', 'the path does not exist, is too long, or is not writable'],
  ])('%s because %s', async (name, reason) => {
    const path = join(folder, name);
    expect((await failureOf(openSqlite(path))).message).toMatch(
      `The database file ${path} can't be used: ${reason}.`,
    );
  });
});

test('statementMessage mentions the -wal and -shm files that a read-only startup leaves', () => {
  expect(statementMessage('/data/tollgate.db', 'SQLITE_READONLY_DBMOVED', 'gone')).toBe('gone');
  expect(statementMessage('/data/tollgate.db', 'SQLITE_READONLY_RECOVERY', '')).toBe(
    "The database file /data/tollgate.db can't be used: it, or the file next to it whose name " +
      'ends in -wal or -shm, is not writable.',
  );
});
