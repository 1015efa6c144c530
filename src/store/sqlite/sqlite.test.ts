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
import { toUnreachableError } from '../errors.ts';
import { statementMessage } from './database-file.ts';
import { openSqlite } from './sqlite.ts';

describe('a SQLite database', () => {
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

  test('is durable: write-ahead log, synced at each commit, references checked', async () => {
    const settings = ['journal_mode', 'synchronous', 'foreign_keys'];
    const values = settings.map(async (name) => (await run(`pragma ${name}`)).rows[0]?.[name]);
    expect(await Promise.all(values)).toEqual(['wal', 2, 1]);
  });

  test('answers many plain reads at once, each with its own rows', async () => {
    const reads = Array.from({ length: 100 }, (_, i) => run(`select ${i} as n`, database.read));
    const rows = (await Promise.all(reads)).map((result) => result.rows[0]?.n);
    expect(rows).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  test('works on with more distinct statements than it keeps prepared', async () => {
    for (let i = 0; i < 600; i++) await run(`select ${i % 300} as n`, database.read);
    expect((await run('select 7 as n', database.read)).rows).toEqual([{ n: 7 }]);
  });

  test('names the failure by the engine’s own code', async () => {
    await run("insert into notes (text) values ('a')");
    expect(await failureOf(run("insert into notes (text) values ('a')"))).toMatchObject({
      code: 'SQLITE_CONSTRAINT_UNIQUE',
      message: 'UNIQUE constraint failed: notes.text',
    });
  });

  test('keeps transactions apart: another one starts when the first has ended', async () => {
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

  test('shows readers nothing of a transaction until it is committed', async () => {
    await database.write.transaction().execute(async (change) => {
      await sql`insert into notes (text) values ('a')`.execute(change);
      expect(await count()).toBe(0);
    });
    expect(await count()).toBe(1);
  });

  test('undoes a transaction that throws, and goes on', async () => {
    const attempt = database.write.transaction().execute(async (change) => {
      await sql`insert into notes (text) values ('a')`.execute(change);
      throw new Error('changed my mind');
    });
    expect((await failureOf(attempt)).message).toMatch('changed my mind');
    expect(await count()).toBe(0);
    await run("insert into notes (text) values ('b')");
    expect(await count()).toBe(1);
  });

  test('refuses the rest of a transaction that the engine has rolled back by itself', async () => {
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

  test('reports a full disk by its code, keeps its data and recovers', async () => {
    await run("insert into notes (text) values ('before')");
    const pages = (await run('pragma page_count')).rows[0]?.page_count;
    await run(`pragma max_page_count = ${pages}`);
    const big = 'insert into notes (text) values (hex(randomblob(100000)))';
    expect(await failureOf(run(big))).toMatchObject({ code: 'SQLITE_FULL' });
    expect(await count()).toBe(1);
    await run('pragma max_page_count = 1000000');
    await run(big);
    expect(await count()).toBe(2);
  });

  test('refuses writes and transactions at the readers’ door', async () => {
    const write = run("insert into notes (text) values ('a')", database.read);
    expect(await failureOf(write)).toMatchObject({ code: 'SQLITE_READONLY' });
    const transaction = database.read.transaction().execute(async () => {});
    expect((await failureOf(transaction)).message).toMatch('Transactions belong to the writer.');
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

  test('refuses reads beyond the bound of those who wait, and answers all others', async () => {
    // Kysely takes some turns of the event loop per query, so the thread must be kept busy.
    const slow = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000)
      select count(*) from n`;
    const asked = [slow, ...Array.from({ length: waitingCallsMax + 49 }, () => 'select 1')].map(
      (text) =>
        run(text, database.read).then(
          () => 'answered',
          (error: Error) => error.message,
        ),
    );
    const refused = (await Promise.all(asked)).filter((outcome) => outcome !== 'answered');
    expect(refused).toHaveLength(50);
    expect(new Set(refused)).toEqual(
      new Set([`The database is too busy: ${waitingCallsMax} calls are waiting already.`]),
    );
    await database.ping();
  });

  test('answers requests while a report takes long, which sees what is committed', async () => {
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

  test('leaves no long log behind a change that was large', async () => {
    // As an index over millions of rows, and then the day's work.
    await run('create table large as select zeroblob(50000000) as bytes');
    await run('pragma wal_checkpoint');
    await run("insert into notes (text) values ('a')");
    expect(statSync(`${path}-wal`).size).toBeLessThan(35_000_000);
  });

  test('answers nothing after it was closed, and closes only once', async () => {
    await database.ping();
    await database.close();
    await database.close();
    expect((await failureOf(database.ping())).message).toMatch('The database is closed.');
    expect((await failureOf(count())).message).toMatch('The database is closed.');
    const report = run('select 1', database.report);
    expect((await failureOf(report)).message).toMatch('The database is closed.');
  });
});

describe('a thread that ends by itself is begun again', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  const Usual = globalThis.Worker;
  const threads: Mortal[] = [];
  let database: Database;

  class Mortal extends Usual {
    isFailing = false;

    constructor(url: string | URL) {
      super(url);
      threads.push(this);
    }

    override postMessage(question: unknown): void {
      if (this.isFailing) this.terminate();
      else super.postMessage(question);
    }
  }

  /** Ends the thread at its next question. */
  function fail(thread: Mortal | undefined): void {
    if (thread) thread.isFailing = true;
  }

  function run(text: string, door: 'read' | 'report' | 'write') {
    return sql.raw(text).execute(database[door]);
  }

  beforeAll(async () => {
    globalThis.Worker = Mortal;
    database = await openSqlite(join(folder, 'test.db'));
    await run('create table notes (id integer primary key) strict', 'write');
    await run('select 1', 'report');
  });

  afterAll(async () => {
    await database.close();
    globalThis.Worker = Usual;
    rmSync(folder, { recursive: true });
  });

  test.each([
    ['write', 0],
    ['read', 1],
    ['report', 2],
  ] as const)('%s: whoever asked it hears that the store is away', async (door, thread) => {
    fail(threads[thread]);
    expect(toUnreachableError(await failureOf(run('select 1', door)))?.symbol).toBe(
      'service_unavailable',
    );
    expect((await run('select 7 as n', door)).rows).toEqual([{ n: 7 }]);
    await database.ping();
  });

  test('and what it had begun is undone', async () => {
    const add = 'insert into notes default values';
    const half = database.write.transaction().execute(async (change) => {
      await sql.raw(add).execute(change);
      fail(threads.at(3));
      await sql.raw(add).execute(change);
    });
    expect(toUnreachableError(await failureOf(half))?.symbol).toBe('service_unavailable');
    await run(add, 'write');
    expect((await run('select count(*) as n from notes', 'read')).rows).toEqual([{ n: 1 }]);
  });

  test('and the rest of a transaction does not run on the new thread', async () => {
    const add = 'insert into notes default values';
    const half = database.write.transaction().execute(async (change) => {
      await sql.raw(add).execute(change);
      await new Promise((ended) => {
        threads.at(-1)?.addEventListener('close', ended);
        threads.at(-1)?.terminate();
      });
      await sql.raw(add).execute(change);
    });
    expect(toUnreachableError(await failureOf(half))?.symbol).toBe('service_unavailable');
    expect((await run('select count(*) as n from notes', 'write')).rows).toEqual([{ n: 1 }]);
  });

  test('but not on another file of that name, nor is a new one made', async () => {
    const path = join(folder, 'test.db');
    const moved = `The database file ${path} was moved, deleted or replaced while in use.`;
    await run(`vacuum into '${join(folder, 'copy.db')}'`, 'write');
    renameSync(path, join(folder, 'away.db'));
    for (const thread of [4, -1]) fail(threads.at(thread));
    await Promise.allSettled([run('select 1', 'write'), run('select 1', 'read')]);
    for (const door of ['write', 'read'] as const) {
      const failure = await failureOf(run('select 1', door));
      expect([failure.message, toUnreachableError(failure)?.symbol]).toEqual([
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

test('a file that is deleted while it is open takes no more changes and is not ready', async () => {
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
      `The database file ${path} was moved, deleted or replaced while in use.`,
    );
    expect(toUnreachableError(failure)?.symbol).toBe('service_unavailable');
  }
  await database.close();
});

test('a file that is replaced by another one takes no more changes either', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  const path = join(folder, 'test.db');
  const database = await openSqlite(path);
  await sql.raw('create table notes (id integer primary key)').execute(database.write);
  // As a backup that is put back under a running gateway.
  await sql.raw(`vacuum into '${join(folder, 'copy.db')}'`).execute(database.write);
  renameSync(join(folder, 'copy.db'), path);
  const change = () => sql.raw('insert into notes default values').execute(database.write);
  for (const attempt of [change, () => database.ping()]) {
    const failure = await failureOf(attempt());
    expect(failure.message).toBe(
      `The database file ${path} was moved, deleted or replaced while in use.`,
    );
    expect(toUnreachableError(failure)?.symbol).toBe('service_unavailable');
  }
  await database.close();
  rmSync(folder, { recursive: true });
});

describe('a path that cannot be a SQLite database is refused in one sentence', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-sqlite-'));
  writeFileSync(join(folder, 'text.db'), 'This is no database. '.repeat(100));
  mkdirSync(join(folder, 'folder.db'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([
    ['text.db', 'it is not a SQLite database; restore a backup, or choose another data_dir'],
    ['folder.db', 'the path does not exist, is too long, or may not be written'],
    ['missing/x.db', 'the path does not exist, is too long, or may not be written'],
  ])('%s: %s', async (name, reason) => {
    const path = join(folder, name);
    expect((await failureOf(openSqlite(path))).message).toMatch(
      `The database file ${path} cannot be used: ${reason}.`,
    );
  });
});

test('a start that may only read leaves files that are named beside the database', () => {
  expect(statementMessage('/data/tollgate.db', 'SQLITE_READONLY_DBMOVED', 'gone')).toBe('gone');
  expect(statementMessage('/data/tollgate.db', 'SQLITE_READONLY_RECOVERY', '')).toBe(
    'The database file /data/tollgate.db cannot be used: it, or a file beside it whose name ends ' +
      'in -wal or -shm, may not be written.',
  );
});
