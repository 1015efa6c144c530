import { afterEach, expect, test } from 'bun:test';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../core/secret.ts';
import { knownSecretKeys, secretKeysOf } from './secret-key.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

function newDataDir(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-secret-'));
  folders.push(folder);
  return join(folder, 'data');
}

test('a key is made once, for this user only, and found again', () => {
  const dataDir = newDataDir();
  const [first] = secretKeysOf({ secretKey: null, dataDir });
  expect(first.reveal()).toMatch(/^[0-9a-f]{64}$/);
  expect(secretKeysOf({ secretKey: null, dataDir })[0].reveal()).toBe(first.reveal());
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o777).toBe(0o600);
  expect(readdirSync(dataDir)).toEqual(['secret.key']);
});

test('a configured key is used instead and leaves no file behind', () => {
  const dataDir = newDataDir();
  const configured = new Secret('configured-0123456789-0123456789');
  expect(secretKeysOf({ secretKey: configured, dataDir })[0]).toBe(configured);
  expect(() => statSync(dataDir)).toThrow();
});

test('a former key goes with either, unless it is the same', () => {
  const dataDir = newDataDir();
  const [made] = secretKeysOf({ secretKey: null, dataDir });
  const former = new Secret('configured-0123456789-0123456789');
  const both = secretKeysOf({ secretKey: null, previousSecretKey: former, dataDir });
  expect(both.map((key) => key.reveal())).toEqual([made.reveal(), former.reveal()]);
  expect(() => secretKeysOf({ secretKey: null, previousSecretKey: made, dataDir })).toThrow(
    /^TOLLGATE_FORMER_SECRET_KEY is the secret key itself/,
  );
});

test('a key is known without being made: the former one where there is no current one', () => {
  const dataDir = newDataDir();
  const former = new Secret('configured-0123456789-0123456789');
  expect(knownSecretKeys({ secretKey: null, dataDir })).toBeUndefined();
  const settings = { secretKey: null, formerSecretKey: former, dataDir };
  expect(knownSecretKeys(settings)?.map((key) => key.reveal())).toEqual([former.reveal()]);
  expect(() => statSync(dataDir)).toThrow();
  const both = secretKeysOf(settings).map((key) => key.reveal());
  expect(knownSecretKeys(settings)?.map((key) => key.reveal())).toEqual(both);
});

test('ten processes that start at once agree on one key', async () => {
  const dataDir = newDataDir();
  const module = join(import.meta.dir, 'secret-key.ts');
  const script = `
    const { secretKeysOf } = await import(${JSON.stringify(module)});
    const settings = { secretKey: null, dataDir: ${JSON.stringify(dataDir)} };
    process.stdout.write(secretKeysOf(settings)[0].reveal());
  `;
  const children = Array.from({ length: 10 }, () =>
    Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' }),
  );
  const keys = await Promise.all(children.map((child) => child.stdout.text()));
  expect(new Set(keys).size).toBe(1);
  expect(keys[0]).toHaveLength(64);
}, 120_000);

test('a key is made once on a disk that has no links, as exFAT and some network shares', () => {
  const dataDir = newDataDir();
  const preload = `${dataDir}-has-no-links.js`;
  writeFileSync(
    preload,
    `require('node:fs').linkSync = () => {
      throw Object.assign(new Error('not permitted'), { code: 'EPERM' });
    };`,
  );
  const script = `import { secretKeysOf } from '${join(import.meta.dir, 'secret-key.ts')}';
    const [key] = secretKeysOf({ secretKey: null, dataDir: '${dataDir}' });
    process.stdout.write(key.reveal());`;
  const words = [process.execPath, '--preload', preload, '-e', script];
  const made = () => Bun.spawnSync(words).stdout.toString();
  const key = made();
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  expect(made()).toBe(key);
  expect(readdirSync(dataDir)).toEqual(['secret.key']);
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o777).toBe(0o600);
});

test('a damaged key is refused in one sentence instead of being replaced', () => {
  const dataDir = newDataDir();
  mkdirSync(dataDir);
  const file = join(dataDir, 'secret.key');
  writeFileSync(file, 'short\n');
  expect(() => secretKeysOf({ secretKey: null, dataDir })).toThrow(
    `The secret key ${file} is damaged: it has fewer than 32 characters.`,
  );
});

test('a data directory that cannot be written is told as such', () => {
  const dataDir = newDataDir();
  writeFileSync(dataDir, 'not a folder');
  expect(() => secretKeysOf({ secretKey: null, dataDir })).toThrow(
    /^The secret key .*secret\.key can neither be read nor made \(ENOTDIR\)\.$/,
  );
});
