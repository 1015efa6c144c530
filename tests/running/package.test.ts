/** What `npm pack` hands out. */
import { expect, test } from 'bun:test';
import { join } from 'node:path';

test('the package carries the program, its pages and its manual, and no test', () => {
  const words = ['npm', 'pack', '--dry-run', '--json', '--ignore-scripts'];
  const packed = Bun.spawnSync(words, { cwd: join(import.meta.dir, '../..'), stderr: 'ignore' });
  expect(packed.exitCode).toBe(0);
  const said: unknown = JSON.parse(packed.stdout.toString());
  const [pack] = said as { files: { path: string }[] }[];
  const paths = pack?.files.map(({ path }) => path) ?? [];
  const folders = paths.filter((path) => path.includes('/')).map((path) => path.split('/')[0]);
  const carried = ['bin', 'dashboard', 'deploy', 'docs', 'examples', 'src'];
  expect([...new Set(folders)].toSorted()).toEqual(carried);
  const needed = ['bin/tollgate', 'src/main.ts', 'dashboard/index.html', 'LICENSE', 'README.md'];
  expect(paths).toEqual(expect.arrayContaining(needed));
  expect(paths.filter((path) => path.includes('.test.'))).toEqual([]);
}, 120_000);
