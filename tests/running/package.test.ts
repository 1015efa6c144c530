/** What `npm pack` hands out. */
import { expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../support/gateway.ts';

const root = join(import.meta.dir, '../..');

test('the package carries the program, its pages and its manual, and no test', () => {
  const words = ['npm', 'pack', '--dry-run', '--json', '--ignore-scripts'];
  const packed = Bun.spawnSync(words, { cwd: root, stderr: 'ignore' });
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

/** A folder of somebody else's program, with settings for the same runtime. */
function project(name: string, text: string): string {
  const folder = newFolder();
  writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, 'theirs.ts'), 'console.log("theirs");');
  return folder;
}

const bunfig = ['bunfig.toml', 'preload = ["./theirs.ts"]'] as const;
const tsconfig = [
  'tsconfig.json',
  '{"compilerOptions": {"paths": {"*": ["./theirs.ts"]}}}',
] as const;

test.each([bunfig, tsconfig])(
  'the command takes nothing from the %s of the folder it is called in',
  (name, text) => {
    const words = [join(root, 'bin/tollgate'), '--version'];
    const { exitCode, stdout } = Bun.spawnSync(words, { cwd: project(name, text) });
    expect(exitCode).toBe(0);
    expect(stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
  },
);

test('the dashboard takes nothing from the folder in which the gateway was started', () => {
  const settings = ['--config=/dev/null', `--tsconfig-override=${join(root, 'tsconfig.json')}`];
  const script = `import { dashboardAssets } from '${root}/src/http/itself/dashboard-assets.ts';
    console.log((await dashboardAssets()).files.size);`;
  const words = [process.execPath, ...settings, '-e', script];
  const { stdout } = Bun.spawnSync(words, { cwd: project(...tsconfig) });
  expect(Number(stdout.toString())).toBeGreaterThan(2);
});
