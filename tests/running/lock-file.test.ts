/** Checks package-lock.json and the images of compose.yaml without a network. */
import { describe, expect, test } from 'bun:test';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import lock from '../../package-lock.json' with { type: 'json' };
import { newFolder } from '../support/gateway.ts';

const root = join(import.meta.dir, '../..');

interface LockEntry {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly hasInstallScript?: boolean;
}

const packages = Object.entries(lock.packages as Readonly<Record<string, LockEntry>>).filter(
  ([folder]) => folder !== '',
);
const foldersWith = (condition: (entry: LockEntry) => unknown) =>
  packages.filter(([, entry]) => condition(entry)).map(([folder]) => folder);

describe('package-lock.json', () => {
  test('has a SHA-512 checksum for every package', () => {
    expect(packages.length).toBeGreaterThan(100);
    const checksum = /^sha512-[A-Za-z0-9+/]{86}==$/;
    expect(foldersWith(({ integrity = '' }) => !checksum.test(integrity))).toEqual([]);
  });

  test('takes no package from a URL, a repository, or a folder', () => {
    expect(foldersWith(({ resolved, link }) => resolved !== undefined || link)).toEqual([]);
  });

  test('has the exact versions that package.json names', () => {
    const named = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
    const wrong = named.filter(([name, version]) => {
      const locked = packages.find(([folder]) => folder === `node_modules/${name}`)?.[1].version;
      return version.replace(/^npm:.+@/, '') !== locked;
    });
    expect(wrong).toEqual([]);
  });

  test('has one production package with an install script: the runtime', () => {
    const withScript = foldersWith(
      ({ hasInstallScript, dev, devOptional }) => hasInstallScript && !dev && !devOptional,
    );
    expect(withScript).toEqual(['node_modules/bun']);
  });
});

test('npm ci prints no warnings', () => {
  const folder = newFolder();
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    cpSync(join(root, file), join(folder, file));
  }
  const command = ['npm', 'ci', '--dry-run', '--offline'];
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: folder, timeout: 60_000 });
  expect(`${exitCode} ${stderr}`).toBe('0 ');
}, 60_000);

test('compose.yaml pins a version of every image', () => {
  const text = readFileSync(join(root, 'compose.yaml'), 'utf8');
  const images = [...text.matchAll(/^\s+image: (\S+)$/gm)].map(([, image = '']) => image);
  expect(images.length).toBe(3);
  expect(images.filter((image) => !/:v?\d/.test(image))).toEqual([]);
});
