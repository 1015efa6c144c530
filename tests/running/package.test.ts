/** Checks what `npm pack` packs, and that the package runs after it is installed. */
import { beforeAll, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { newFolder } from '../support/gateway.ts';
import { within } from '../support/wait-until.ts';

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

/** Returns an environment with the npm settings of this machine and no other variables. */
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

describe('the package, installed in an empty folder', () => {
  const project = newFolder();
  const env = cleanEnvironment(newFolder());
  const program = join(project, 'node_modules/.bin/tollgate');

  /** Runs npm without input. */
  function npm(...args: string[]): void {
    const { exitCode, stderr } = Bun.spawnSync(['npm', ...args], {
      cwd: project,
      env,
      stdin: 'ignore',
    });
    expect(`${exitCode} ${stderr}`).toStartWith('0 ');
  }

  beforeAll(() => {
    const folder = newFolder();
    const tarball = join(folder, npmPack('--pack-destination', folder).filename);
    npm('install', '--prefer-offline', '--no-audit', '--ignore-scripts', tarball);
  }, timeoutMs);

  test('runs even if the install script of Bun has not run, as with pnpm', () => {
    const { exitCode, stdout } = Bun.spawnSync([program, '--version'], { cwd: project, env });
    expect(exitCode).toBe(0);
    expect(stdout.toString()).toBe(`${manifest.version}\n`);
  });

  test(
    'starts the gateway when called without arguments',
    async () => {
      npm('rebuild');
      const gateway = Bun.spawn([program], {
        cwd: project,
        env: { ...env, PORT: '0' },
        stdio: ['ignore', 'pipe', 'inherit'],
        timeout: timeoutMs,
      });
      let printed = '';
      for await (const bytes of gateway.stdout) {
        printed += new TextDecoder().decode(bytes);
        if (printed.includes('ready at')) break;
      }
      const [, url = ''] = /ready at (http:\S+)/.exec(printed) ?? [];
      expect((await fetch(`${url}/readyz`)).status).toBe(200);
      gateway.kill('SIGTERM');
      expect(await within(gateway.exited, 'the gateway to exit', 60_000)).toBe(0);
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

const envFiles = ['.env', '.env.local', '.env.development', '.env.production'];

test.each(envFiles)('the command takes no settings from the %s of the current folder', (name) => {
  const cwd = otherProject(name, 'TOLLGATE_CONFIG=/missing.yaml\nMISTRAL_API_KEY=x\n');
  const command = [join(root, 'bin/tollgate'), 'models'];
  const { exitCode, stdout } = Bun.spawnSync(command, {
    cwd,
    env: { PATH: process.env.PATH ?? '' },
  });
  expect(exitCode).toBe(0);
  expect(stdout.toString()).not.toContain('mistral');
});

test('the .env of the current folder cannot run code when the gateway starts', () => {
  // `serve` restarts itself with its environment, so BUN_OPTIONS from the file would apply then.
  const cwd = otherProject('.env', 'BUN_OPTIONS="--preload ./theirs.ts"\nPORT=wrong\n');
  const command = [join(root, 'bin/tollgate'), 'serve', '--port', 'none'];
  const { exitCode, stdout } = Bun.spawnSync(command, {
    cwd,
    env: { PATH: process.env.PATH ?? '' },
  });
  expect(exitCode).toBe(2);
  expect(stdout.toString()).toBe('');
});

test('npm start and npm run tollgate read no .env', () => {
  for (const script of [manifest.scripts.start, manifest.scripts.tollgate]) {
    expect(script).toStartWith('exec bun --no-env-file src/main.ts');
  }
});

test('the dashboard ignores the tsconfig.json of the folder in which the gateway is started', () => {
  const settings = ['--config=/dev/null', `--tsconfig-override=${join(root, 'tsconfig.json')}`];
  const script = `import { packDashboard } from '${root}/src/http/system/dashboard.ts';
    console.log(JSON.parse(await packDashboard()).length);`;
  const command = [process.execPath, ...settings, '-e', script];
  const { stdout } = Bun.spawnSync(command, { cwd: otherProject(...tsconfig) });
  expect(Number(stdout.toString())).toBeGreaterThan(3);
});
