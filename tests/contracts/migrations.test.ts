import { describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { sql } from 'kysely';
import { migrate, migrations } from '../../src/store/migrations/migrate.ts';
import { openStore } from '../../src/store/open.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import { engines } from './engines.ts';
import { failureOf } from './failure-of.ts';

const script = join(import.meta.dir, 'open-on-signal.ts');

function startProcess(url: string) {
  return Bun.spawn([process.execPath, script, url], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  });
}

describe.each([...engines])('migrations on $name', ({ empty }) => {
  test('run once when 10 processes start on an empty database', async () => {
    const { url, remove } = await empty();
    const processes = Array.from({ length: 10 }, () => startProcess(url));
    for (const { stdout } of processes) await stdout.getReader().read();
    for (const { stdin } of processes) {
      stdin.write('go\n');
      stdin.end();
    }
    for (const { exited, stderr } of processes) {
      expect(await new Response(stderr).text()).toBe('');
      expect(await exited).toBe(0);
    }

    const store = await openStore(url);
    const rows = await store.database.read.selectFrom('migrations').selectAll().execute();
    await store.database.close();
    remove();
    expect(rows.map((row) => [row.number, row.name])).toEqual(
      migrations.map((step) => [step.number, step.name]),
    );
  }, 120_000);

  test('keep existing data when the database is opened again', async () => {
    const { url, remove } = await empty();
    const first = await openStore(url);
    await first.directory.setAdminTokenHash(new Uint8Array(32).fill(7));
    await first.database.close();
    const second = await openStore(url);
    expect(await second.directory.adminTokenHash()).toEqual(new Uint8Array(32).fill(7));
    expect(await second.directory.version()).toBe(1);
    await second.database.close();
    remove();
  });

  test('reject a database that has lost a table', async () => {
    const { url, remove } = await empty();
    const store = await openStore(url);
    await sql`drop table usage_daily`.execute(store.database.write);
    await store.database.close();
    const { message } = await failureOf(openStore(url));
    expect(message).toMatch(/^The database has no table usage_daily\. Restore [^.]+\.$/);
    remove();
  });

  test('reject a database of a newer version', async () => {
    const { url, remove } = await empty();
    const store = await openStore(url);
    const newer = { number: 9_999, name: 'newer', applied_at: 1 };
    await store.database.write.insertInto('migrations').values(newer).execute();
    await store.database.close();
    expect((await failureOf(openStore(url))).message).toMatch(
      /^The database is at schema 9999, but this version .+ only supports schemas up to \d+\. [^.]+\.$/,
    );
    remove();
  });

  test('reject a database of a pre-release version', async () => {
    const { url, remove } = await empty();
    const store = await openStore(url);
    const { write } = store.database;
    await sql`alter table request_log add column operation text`.execute(write);
    await write.deleteFrom('migrations').where('number', '>', 3).execute();
    await store.database.close();
    expect((await failureOf(openStore(url))).message).toBe(
      "The database is from a pre-release of Tollgate 0.1.0 and can't be migrated. Choose " +
        'another data_dir or database.',
    );
    remove();
  });

  test.each([
    ['migrations', 'id bigint primary key, migration text, batch bigint'],
    ['jobs', 'id bigint primary key'],
  ])('reject a database in which another program has a table named %s', async (table, columns) => {
    const { url, remove } = await empty();
    const open = () =>
      url.startsWith('sqlite:') ? openSqlite(url.slice('sqlite:'.length)) : openPostgres(url);
    const before = await open();
    await sql.raw(`create table ${table} (${columns})`).execute(before.write);
    await before.close();
    expect((await failureOf(openStore(url))).message).toBe(
      'The database has tables of another program with names that Tollgate needs. Choose ' +
        'another data_dir, database, or schema.',
    );
    const after = await open();
    const tables = await after.read.introspection.getTables();
    expect(tables.map(({ name }) => name)).toEqual([table]);
    await after.close();
    remove();
  });

  test('run completely or not at all', async () => {
    const { url, remove } = await empty();
    const { database } = await openStore(url);
    const step = (number: number, statements: string[]) => ({
      number,
      name: `step ${number}`,
      statements: () => statements,
    });
    const good = step(migrations.length + 1, ['create table good (id bigint)']);
    const bad = step(migrations.length + 2, ['create table half (id bigint)', 'not SQL']);
    const attempt = migrate(database.write, database.engine, [...migrations, good, bad]);
    expect((await failureOf(attempt)).message).toMatch(/syntax error/);

    const numbers = await database.read.selectFrom('migrations').select('number').execute();
    expect(Math.max(...numbers.map((row) => row.number))).toBe(migrations.length);
    const tables = await database.read.introspection.getTables();
    const names = tables.map(({ name }) => name);
    expect([names.includes('good'), names.includes('half')]).toEqual([false, false]);
    await database.close();
    remove();
  });
});
