import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../core/secret.ts';
import { openStore, type Store } from '../store/open.ts';
import { hashKey } from './api-key.ts';
import { type BootstrapSettings, firstStart, type GeneratedSecrets } from './first-start.ts';

const nothing: BootstrapSettings = {
  apiKey: null,
  managementKey: null,
  adminToken: null,
  credits: 500,
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

function start(brought: Partial<BootstrapSettings> = {}): Promise<GeneratedSecrets | undefined> {
  return firstStart(
    { ...nothing, ...brought },
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

test('the first start makes a tenant, its grant and three secrets that work', async () => {
  const secrets = await start();
  expect(grants).toEqual([['default', 500]]);
  expect(await kindOf(secrets?.apiKey ?? '')).toBe('routing');
  expect(await kindOf(secrets?.managementKey ?? '')).toBe('management');
  expect(await store.directory.adminTokenHash()).toEqual(hashKey(secrets?.adminToken ?? ''));
});

test('the second start makes nothing', async () => {
  await start();
  expect(await start()).toBeUndefined();
  expect(grants).toHaveLength(1);
  expect(await countKeys()).toBe(2);
});

test('of ten starts at once exactly one makes secrets', async () => {
  const starts = await Promise.all(Array.from({ length: 10 }, () => start()));
  expect(starts.filter((secrets) => secrets !== undefined)).toHaveLength(1);
  expect(await countKeys()).toBe(2);
});

test('no credits means no grant, not a grant of nothing', async () => {
  await start({ credits: 0 });
  expect(grants).toEqual([]);
});

test('brought keys are adopted once, however often they come, and none is made', async () => {
  const brought = {
    apiKey: new Secret(`sk-tg-${'a'.repeat(40)}`),
    managementKey: new Secret(`sk-mgmt-${'b'.repeat(40)}`),
    adminToken: new Secret(`sk-admin-${'c'.repeat(40)}`),
  };
  for (let i = 0; i < 3; i++) expect(await start(brought)).toBeUndefined();
  expect(await kindOf(brought.apiKey.reveal())).toBe('routing');
  expect(await kindOf(brought.managementKey.reveal())).toBe('management');
  expect(await store.directory.adminTokenHash()).toEqual(hashKey(brought.adminToken.reveal()));
  expect(await countKeys()).toBe(2);
  expect(grants).toHaveLength(1);
});

test('a start with a key that is known already changes nothing', async () => {
  const apiKey = new Secret(`sk-tg-${'a'.repeat(40)}`);
  await start({ apiKey });
  const version = await store.directory.version();
  await start({ apiKey });
  expect(await store.directory.version()).toBe(version);
});

test('a changed variable replaces the key it brought before, under the same id', async () => {
  const before = `sk-tg-${'a'.repeat(40)}`;
  const after = `sk-tg-${'b'.repeat(40)}`;
  await start({ apiKey: new Secret(before) });
  const first = await store.directory.findKey(hashKey(before));
  await start({ apiKey: new Secret(after) });
  const second = await store.directory.findKey(hashKey(after));
  expect(second?.key.id).toBe(first?.key.id ?? '');
  expect(second?.secretExpiresAt).toBeNull();
  // The old secret ended with the start that brought the new one, whatever clock others go by.
  expect(await store.directory.findKey(hashKey(before))).toBeUndefined();
  expect(await countKeys()).toBe(1);
});

test('a variable that is changed back brings its key back', async () => {
  const [one, two] = [`sk-tg-${'a'.repeat(40)}`, `sk-tg-${'b'.repeat(40)}`];
  for (const key of [one, two, one]) await start({ apiKey: new Secret(key) });
  const back = await store.directory.findKey(hashKey(one));
  expect(back?.secretExpiresAt).toBeNull();
  expect(await store.directory.findKey(hashKey(two))).toBeUndefined();
  expect(await countKeys()).toBe(1);
});

test('a brought key that was deleted since is there again, also under a new secret', async () => {
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

test('what took the place of a deleted key is replaced by a changed variable, too', async () => {
  const [one, two, three] = ['a', 'b', 'c'].map((letter) => `sk-tg-${letter.repeat(40)}`);
  await start({ apiKey: new Secret(one ?? '') });
  const first = await store.directory.findKey(hashKey(one ?? ''));
  await store.directory.deleteKey('default', first?.key.id ?? '', 1_700_000_000_000);
  for (const key of [two, three]) await start({ apiKey: new Secret(key ?? '') });
  const ends = [two, three].map(async (key) => store.directory.findKey(hashKey(key ?? '')));
  expect((await Promise.all(ends)).map((found) => found?.secretExpiresAt)).toEqual([
    undefined,
    null,
  ]);
  expect(await countKeys()).toBe(1);
});

test('of ten starts at once with a new secret, each leaves the one key', async () => {
  const [one, two] = [`sk-tg-${'a'.repeat(40)}`, `sk-tg-${'b'.repeat(40)}`];
  for (const key of [one, two]) {
    const apiKey = new Secret(key);
    await Promise.all(Array.from({ length: 10 }, () => start({ apiKey })));
    expect((await store.directory.findKey(hashKey(key)))?.secretExpiresAt).toBeNull();
    expect(await countKeys()).toBe(1);
  }
});

test('a brought admin token takes the place of an older one', async () => {
  await start();
  const adminToken = new Secret(`sk-admin-${'d'.repeat(40)}`);
  await start({ adminToken });
  expect(await store.directory.adminTokenHash()).toEqual(hashKey(adminToken.reveal()));
});

test('secrets are stored as hashes only', async () => {
  const secrets = await start();
  const rows = await store.database.read.selectFrom('api_keys').selectAll().execute();
  const settings = await store.database.read.selectFrom('settings').selectAll().execute();
  const stored = JSON.stringify([rows, settings]);
  for (const secret of Object.values(secrets ?? {})) {
    expect(stored).not.toContain(secret.split('-').at(-1) ?? secret);
  }
});
