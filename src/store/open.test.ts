import { afterAll, describe, expect, test } from 'bun:test';
import {
  chmodSync,
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
import { openStore } from './open.ts';

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
