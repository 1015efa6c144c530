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

test('secretKeysOf creates a key once, readable by this user only', () => {
  const dataDir = newDataDir();
  const [first] = secretKeysOf({ secretKey: null, dataDir });
  expect(first.reveal()).toMatch(/^[0-9a-f]{64}$/);
  expect(secretKeysOf({ secretKey: null, dataDir })[0].reveal()).toBe(first.reveal());
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o777).toBe(0o600);
  expect(readdirSync(dataDir)).toEqual(['secret.key']);
});

test('secretKeysOf uses a configured key and creates no file', () => {
  const dataDir = newDataDir();
  const configured = new Secret('configured-0123456789-0123456789');
  expect(secretKeysOf({ secretKey: configured, dataDir })[0]).toBe(configured);
  expect(() => statSync(dataDir)).toThrow();
});

test('secretKeysOf adds a previous key and rejects one equal to the current key', () => {
  const dataDir = newDataDir();
  const [created] = secretKeysOf({ secretKey: null, dataDir });
  const previous = new Secret('configured-0123456789-0123456789');
  const both = secretKeysOf({ secretKey: null, previousSecretKey: previous, dataDir });
  expect(both.map((key) => key.reveal())).toEqual([created.reveal(), previous.reveal()]);
  expect(() => secretKeysOf({ secretKey: null, previousSecretKey: created, dataDir })).toThrow(
    /^TOLLGATE_PREVIOUS_SECRET_KEY is the same as the current secret key/,
  );
});

test('knownSecretKeys creates no key and returns the previous one if there is no current one', () => {
  const dataDir = newDataDir();
  const previous = new Secret('configured-0123456789-0123456789');
  expect(knownSecretKeys({ secretKey: null, dataDir })).toBeUndefined();
  const settings = { secretKey: null, previousSecretKey: previous, dataDir };
  expect(knownSecretKeys(settings)?.map((key) => key.reveal())).toEqual([previous.reveal()]);
  expect(() => statSync(dataDir)).toThrow();
  const both = secretKeysOf(settings).map((key) => key.reveal());
  expect(knownSecretKeys(settings)?.map((key) => key.reveal())).toEqual(both);
});

test('secretKeysOf creates one key for ten processes that start at once', async () => {
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

test('secretKeysOf creates one key on a file system without hard links', () => {
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
  const command = [process.execPath, '--preload', preload, '-e', script];
  const createdKey = () => Bun.spawnSync(command).stdout.toString();
  const key = createdKey();
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  expect(createdKey()).toBe(key);
  expect(readdirSync(dataDir)).toEqual(['secret.key']);
  expect(statSync(join(dataDir, 'secret.key')).mode & 0o777).toBe(0o600);
});

test('secretKeysOf rejects a damaged key instead of replacing it', () => {
  const dataDir = newDataDir();
  mkdirSync(dataDir);
  const file = join(dataDir, 'secret.key');
  writeFileSync(file, 'short\n');
  expect(() => secretKeysOf({ secretKey: null, dataDir })).toThrow(
    `The secret key file ${file} is damaged: it has fewer than 32 characters.`,
  );
});

test('secretKeysOf reports a data directory that cannot be written', () => {
  const dataDir = newDataDir();
  writeFileSync(dataDir, 'not a folder');
  expect(() => secretKeysOf({ secretKey: null, dataDir })).toThrow(
    /^The secret key file .*secret\.key can't be read or created \(ENOTDIR\)\.$/,
  );
});
