import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../core/secret.ts';
import { openStore, type Store } from '../store/open.ts';
import { hashKey } from './api-key.ts';
import { type BootstrapSettings, firstStart, type GeneratedSecrets } from './first-start.ts';

const emptySettings: BootstrapSettings = {
  apiKey: null,
  managementKey: null,
  adminToken: null,
  credits: 1,
};

let folder: string;
let store: Store;
let grants: [string, number][];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-first-start-'));
  store = await openStore(`sqlite:${join(folder, 'test.db')}`);
  grants = [];
});
afterEach(async () => {
  await store.database.close();
  await rm(folder, { recursive: true });
});

function start(provided: Partial<BootstrapSettings> = {}): Promise<GeneratedSecrets | undefined> {
  return firstStart(
    { ...emptySettings, ...provided },
    {
      directory: store.directory,
      grantOnce: async (tenantId, credits) => void grants.push([tenantId, credits]),
      now: 1_800_000_000_000,
    },
  );
}

async function kindOf(key: string): Promise<string | undefined> {
  return (await store.directory.findKey(hashKey(key)))?.key.kind;
}

const countKeys = () => store.directory.countKeys('default');

describe('firstStart', () => {
  test('creates a tenant with credits and 3 working secrets', async () => {
    const secrets = await start();
    expect(grants).toEqual([['default', 1]]);
    expect(await kindOf(secrets?.apiKey ?? '')).toBe('routing');
    expect(await kindOf(secrets?.managementKey ?? '')).toBe('management');
    expect(await store.directory.adminTokenHash()).toEqual(hashKey(secrets?.adminToken ?? ''));
  });

  test('creates nothing the second time', async () => {
    await start();
    expect(await start()).toBeUndefined();
    expect(grants).toHaveLength(1);
    expect(await countKeys()).toBe(2);
  });

  test('generates secrets in only 1 of 10 concurrent starts', async () => {
    const starts = await Promise.all(Array.from({ length: 10 }, () => start()));
    expect(starts.filter((secrets) => secrets !== undefined)).toHaveLength(1);
    expect(await countKeys()).toBe(2);
  });

  test('makes no grant if the initial credits are 0', async () => {
    await start({ credits: 0 });
    expect(grants).toEqual([]);
  });

  test('adopts keys from the environment once and generates none', async () => {
    const provided = {
      apiKey: new Secret(`sk-tg-${'a'.repeat(40)}`),
      managementKey: new Secret(`sk-mgmt-${'b'.repeat(40)}`),
      adminToken: new Secret(`sk-admin-${'c'.repeat(40)}`),
    };
    for (let i = 0; i < 3; i++) expect(await start(provided)).toBeUndefined();
    expect(await kindOf(provided.apiKey.reveal())).toBe('routing');
    expect(await kindOf(provided.managementKey.reveal())).toBe('management');
    expect(await store.directory.adminTokenHash()).toEqual(hashKey(provided.adminToken.reveal()));
    expect(await countKeys()).toBe(2);
    expect(grants).toHaveLength(1);
  });

  test('changes nothing for a key that it has adopted before', async () => {
    const apiKey = new Secret(`sk-tg-${'a'.repeat(40)}`);
    await start({ apiKey });
    const version = await store.directory.version();
    await start({ apiKey });
    expect(await store.directory.version()).toBe(version);
  });

  test('replaces the secret of the same key when the variable changes', async () => {
    const before = `sk-tg-${'a'.repeat(40)}`;
    const after = `sk-tg-${'b'.repeat(40)}`;
    await start({ apiKey: new Secret(before) });
    const first = await store.directory.findKey(hashKey(before));
    await start({ apiKey: new Secret(after) });
    const second = await store.directory.findKey(hashKey(after));
    expect(second?.key.id).toBe(first?.key.id ?? '');
    expect(second?.secretExpiresAt).toBeNull();
    // The previous secret stops working at once, even for processes with a different clock.
    expect(await store.directory.findKey(hashKey(before))).toBeUndefined();
    expect(await countKeys()).toBe(1);
  });

  test('restores the previous secret when the variable is changed back', async () => {
    const [one, two] = [`sk-tg-${'a'.repeat(40)}`, `sk-tg-${'b'.repeat(40)}`];
    for (const key of [one, two, one]) await start({ apiKey: new Secret(key) });
    const restored = await store.directory.findKey(hashKey(one));
    expect(restored?.secretExpiresAt).toBeNull();
    expect(await store.directory.findKey(hashKey(two))).toBeUndefined();
    expect(await countKeys()).toBe(1);
  });

  test('creates a deleted key again, with the same or a new secret', async () => {
    const [one, two] = [`sk-mgmt-${'a'.repeat(40)}`, `sk-mgmt-${'b'.repeat(40)}`];
    for (const key of [one, one, two, two]) {
      await start({ managementKey: new Secret(key) });
      const found = await store.directory.findKey(hashKey(key));
      expect([found?.key.kind, found?.secretExpiresAt]).toEqual(['management', null]);
      expect(await countKeys()).toBe(1);
      const deleted = store.directory.deleteKey('default', found?.key.id ?? '', 1_700_000_000_000);
      expect(await deleted).toBe(true);
    }
  });

  test('replaces the secret of a key that was created again after a deletion', async () => {
    const [one, two, three] = ['a', 'b', 'c'].map((letter) => `sk-tg-${letter.repeat(40)}`);
    await start({ apiKey: new Secret(one ?? '') });
    const first = await store.directory.findKey(hashKey(one ?? ''));
    await store.directory.deleteKey('default', first?.key.id ?? '', 1_700_000_000_000);
    for (const key of [two, three]) await start({ apiKey: new Secret(key ?? '') });
    const keys = [two, three].map(async (key) => store.directory.findKey(hashKey(key ?? '')));
    expect((await Promise.all(keys)).map((found) => found?.secretExpiresAt)).toEqual([
      undefined,
      null,
    ]);
    expect(await countKeys()).toBe(1);
  });

  test('leaves 1 key after 10 concurrent starts with a new secret', async () => {
    const [one, two] = [`sk-tg-${'a'.repeat(40)}`, `sk-tg-${'b'.repeat(40)}`];
    for (const key of [one, two]) {
      const apiKey = new Secret(key);
      await Promise.all(Array.from({ length: 10 }, () => start({ apiKey })));
      expect((await store.directory.findKey(hashKey(key)))?.secretExpiresAt).toBeNull();
      expect(await countKeys()).toBe(1);
    }
  });

  test('replaces the admin token with the one from the environment', async () => {
    await start();
    const adminToken = new Secret(`sk-admin-${'d'.repeat(40)}`);
    await start({ adminToken });
    expect(await store.directory.adminTokenHash()).toEqual(hashKey(adminToken.reveal()));
  });

  test('stores only hashes of secrets', async () => {
    const secrets = await start();
    const rows = await store.database.read.selectFrom('api_keys').selectAll().execute();
    const settings = await store.database.read.selectFrom('settings').selectAll().execute();
    const stored = JSON.stringify([rows, settings]);
    for (const secret of Object.values(secrets ?? {})) {
      expect(stored).not.toContain(secret.split('-').at(-1) ?? secret);
    }
  });
});
