import { Database } from 'bun:sqlite';
import { afterAll, expect, test } from 'bun:test';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { standingOf } from './migrate.ts';
import { openStore, openToLook } from './open.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-look-'));
afterAll(() => rmSync(folder, { recursive: true }));

async function look(path: string) {
  const seen = await openToLook(`sqlite:${path}`);
  if (!seen) throw new Error(`There is nothing at ${path}.`);
  return seen;
}

test('a file that is not there is not made', async () => {
  const path = join(folder, 'none', 'tollgate.db');
  expect(await openToLook(`sqlite:${path}`)).toBeUndefined();
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
  expect(await standingOf(seen.read, 'sqlite')).toMatchObject({ applied: 1 });
  await seen.close();
  using file = new Database(path);
  expect(file.query('select name from sqlite_schema').values()).toEqual([['migrations']]);
});

test('a file of something else is refused by its name', async () => {
  const path = join(folder, 'letter.db');
  writeFileSync(path, 'Dear reader, '.repeat(1_000));
  const standing = look(path).then((seen) => standingOf(seen.read, 'sqlite'));
  expect(await failureOf(standing)).toMatchObject({
    message: expect.stringContaining(`${path} cannot be used: it is not a SQLite database`),
  });
});
