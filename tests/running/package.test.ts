/** What `npm pack` contains, and that it runs where it is installed. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newFolder } from '../support/gateway.ts';

const root = join(import.meta.dir, '../..');
const timeoutMs = 120_000;

interface Pack {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

function npmPack(...options: string[]): Pack {
  const command = ['npm', 'pack', '--json', '--ignore-scripts', ...options];
  const { exitCode, stdout } = Bun.spawnSync(command, { cwd: root, stderr: 'ignore' });
  expect(exitCode).toBe(0);
  const [pack] = JSON.parse(stdout.toString()) as [Pack];
  return pack;
}

/** Npm's settings for this machine, in an environment with no others. */
function cleanEnvironment(home: string): Record<string, string> {
  const command = ['npm', 'config', 'get', 'cache', 'registry', 'userconfig'];
  const printed = Bun.spawnSync(command, { cwd: home, stderr: 'ignore' }).stdout.toString();
  const npm = [...printed.matchAll(/^(\w+) ?= ?(.+)$/gm)].map(([, name = '', value = '']) => [
    `npm_config_${name}`,
    value,
  ]);
  expect(npm.length).toBe(3);
  const proxies = Object.entries(process.env).filter(([name]) => /_proxy$/i.test(name));
  return { ...Object.fromEntries([...npm, ...proxies]), PATH: process.env.PATH ?? '', HOME: home };
}

test(
  'the package contains the program, the dashboard, the docs, and the licenses, but no tests',
  () => {
    const paths = npmPack('--dry-run').files.map(({ path }) => path);
    const folders = paths.filter((path) => path.includes('/')).map((path) => path.split('/')[0]);
    const expected = ['bin', 'dashboard', 'deploy', 'docs', 'examples', 'src'];
    expect([...new Set(folders)].toSorted()).toEqual(expected);
    const program = ['bin/tollgate', 'src/main.ts', 'dashboard/index.html', 'README.md'];
    const licenses = ['LICENSE', 'THIRD_PARTY_NOTICES.md'];
    expect(paths).toEqual(expect.arrayContaining([...program, ...licenses]));
    expect(paths.filter((path) => path.includes('.test.'))).toEqual([]);
  },
  timeoutMs,
);

describe('the installed package', () => {
  const folder = newFolder();
  let tarball = '';

  beforeAll(() => {
    tarball = join(folder, npmPack('--pack-destination', folder).filename);
  }, timeoutMs);

  /** Installs the package in an empty folder, with nobody at the terminal, and starts it. */
  async function installAndStart(...options: string[]) {
    const project = join(folder, ['project', ...options].join(''));
    mkdirSync(project);
    const env = cleanEnvironment(project);
    const command = ['npm', 'install', '--prefer-offline', '--no-audit', ...options, tarball];
    const install = Bun.spawnSync(command, { cwd: project, env, stdin: 'ignore' });
    expect(`${install.exitCode} ${install.stderr}`).toStartWith('0 ');
    return Bun.spawn([join(project, 'node_modules/.bin/tollgate')], {
      cwd: project,
      env: { PATH: env.PATH ?? '', HOME: project, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: timeoutMs,
    });
  }

  // Package managers such as pnpm don't run the install scripts of dependencies.
  test.each([
    { scripts: 'run', options: [] },
    { scripts: "don't run", options: ['--ignore-scripts'] },
  ])(
    'starts the gateway without arguments where install scripts $scripts',
    async ({ options }) => {
      const gateway = await installAndStart(...options);
      let printed = '';
      for await (const bytes of gateway.stdout) {
        printed += new TextDecoder().decode(bytes);
        if (printed.includes('ready at')) break;
      }
      const [, url = ''] = /ready at (http:\S+)/.exec(printed) ?? [];
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      gateway.kill('SIGTERM');
      expect(await gateway.exited).toBe(0);
    },
    timeoutMs,
  );
});

/** A folder of another project, with settings for the same runtime. */
function otherProject(name: string, text: string): string {
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

test.each([bunfig, tsconfig])('the command ignores the %s of the current folder', (name, text) => {
  const command = [join(root, 'bin/tollgate'), '--version'];
  const { exitCode, stdout } = Bun.spawnSync(command, { cwd: otherProject(name, text) });
  expect(exitCode).toBe(0);
  expect(stdout.toString()).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('the dashboard ignores the tsconfig.json of the folder the gateway is started in', () => {
  const settings = ['--config=/dev/null', `--tsconfig-override=${join(root, 'tsconfig.json')}`];
  const script = `import { dashboardAssets } from '${root}/src/http/itself/dashboard-assets.ts';
    console.log((await dashboardAssets()).files.size);`;
  const command = [process.execPath, ...settings, '-e', script];
  const { stdout } = Bun.spawnSync(command, { cwd: otherProject(...tsconfig) });
  expect(Number(stdout.toString())).toBeGreaterThan(2);
});
