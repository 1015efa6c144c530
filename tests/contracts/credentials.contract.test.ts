import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { StoredCredential, VaultStore } from '../../src/auth/vault.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const first = 'first-fingerprint';
const second = 'second-fingerprint';
const third = 'third-fingerprint';

describe.each([...engines])('the credentials on $name', ({ empty }) => {
  let stores: TwoStores;
  let credentials: VaultStore;
  let elsewhere: VaultStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    credentials = stores.one.credentials;
    elsewhere = stores.other.credentials;
  }, 120_000);

  afterAll(() => stores.close());

  beforeEach(async () => {
    await stores.one.database.write.deleteFrom('byok_credentials').execute();
    await credentials.claimKeys([first], true);
    tenantId = await newTenant();
  });

  const newTenant = () => addTenant(stores.one);

  function credential(change: Partial<StoredCredential> = {}): StoredCredential {
    return {
      tenantId,
      provider: 'openai',
      ciphertext: Uint8Array.from({ length: 256 }, (_, byte) => byte),
      baseUrl: null,
      mode: 'byok_first',
      label: '•••abcd',
      createdAt: 1_700_000_000_000,
      updatedAt: 1_700_000_000_000,
      ...change,
    };
  }

  const save = (store: VaultStore, row: StoredCredential, ...keys: readonly string[]) =>
    store.save(new Map(keys.map((key) => [key, row])));

  const version = () => stores.other.directory.version();

  test('come back byte by byte, by provider, and only to their tenant', async () => {
    const own = { provider: 'anthropic', baseUrl: 'https://proxy.example/v1' };
    const [openai, anthropic] = [credential(), credential({ ...own, mode: 'byok_only' })];
    expect(await save(credentials, openai, first)).toEqual(openai);
    expect(await save(credentials, anthropic, first)).toEqual(anthropic);
    expect(await elsewhere.list(tenantId)).toEqual([anthropic, openai]);
    expect(await elsewhere.list(await newTenant())).toEqual([]);
  });

  test('of thousands of tenants that are asked for at once are each tenant’s own', async () => {
    const [one, two] = [tenantId, await newTenant()];
    await save(credentials, credential(), first);
    await save(credentials, credential({ tenantId: two }), first);
    await save(credentials, credential({ tenantId: two, provider: 'anthropic' }), first);
    const strangers = Array.from({ length: 2_000 }, (_, i) => `ten_stranger${i}`);
    const asked = [one, ...strangers, two];
    const lists = await Promise.all(asked.map((id) => elsewhere.list(id)));
    const told = lists.map((list) => list.map((row) => [row.tenantId, row.provider]));
    expect(told.shift()).toEqual([[one, 'openai']]);
    expect(told.pop()).toEqual([
      [two, 'anthropic'],
      [two, 'openai'],
    ]);
    expect(told.flat()).toEqual([]);
  });

  test('are replaced whole, but for the time of the first one', async () => {
    await save(credentials, credential({ baseUrl: 'https://old.example' }), first);
    const change = { ciphertext: new Uint8Array([1, 0, 2]), mode: 'byok_only' } as const;
    const later = credential({ ...change, label: '•••', createdAt: 9, updatedAt: 9 });
    const saved = await save(credentials, later, first);
    expect(saved).toEqual({ ...later, createdAt: 1_700_000_000_000 });
    expect(await elsewhere.list(tenantId)).toEqual(saved ? [saved] : []);
  });

  test('are removed once, without touching those of others', async () => {
    const other = await newTenant();
    await save(credentials, credential(), first);
    await save(credentials, credential({ tenantId: other }), first);
    expect(await elsewhere.remove(tenantId, 'groq')).toBe(false);
    expect(await elsewhere.remove(tenantId, 'openai')).toBe(true);
    expect(await elsewhere.remove(tenantId, 'openai')).toBe(false);
    expect(await credentials.list(tenantId)).toEqual([]);
    expect((await credentials.list(other)).length).toBe(1);
  });

  test('move the version that other processes watch, and nothing else does', async () => {
    const before = await version();
    await save(credentials, credential(), first);
    expect(await version()).toBe(before + 1);
    await save(credentials, credential(), first);
    expect(await version()).toBe(before + 2);
    await credentials.list(tenantId);
    await credentials.claimKeys([first], true);
    await credentials.remove(tenantId, 'groq');
    expect(await version()).toBe(before + 2);
    await credentials.remove(tenantId, 'openai');
    expect(await version()).toBe(before + 3);
  });

  test('of nobody cannot be saved', async () => {
    const lost = credential({ tenantId: 'nobody' });
    expect((await failureOf(save(credentials, lost, first))).message).toMatch(/foreign key/i);
    expect(await credentials.list('nobody')).toEqual([]);
  });

  test('have a key in use as soon as a process has claimed one', async () => {
    expect(await elsewhere.hasKey()).toBe(true);
    const { write } = stores.one.database;
    await write.deleteFrom('settings').where('name', '=', 'secret_key_fingerprint').execute();
    expect(await elsewhere.hasKey()).toBe(false);
    await credentials.claimKeys([first], false);
    expect(await elsewhere.hasKey()).toBe(true);
  });

  test('bind the key that encrypts them until the last one is gone', async () => {
    await save(credentials, credential(), first);
    for (const isStart of [true, false]) {
      expect(await elsewhere.claimKeys([second], isStart)).toBe(false);
      expect(await elsewhere.claimKeys([first], isStart)).toBe(true);
    }
    expect(await save(elsewhere, credential({ provider: 'groq' }), second)).toBeUndefined();
    expect((await elsewhere.list(tenantId)).map(({ provider }) => provider)).toEqual(['openai']);
    await credentials.remove(tenantId, 'openai');
    expect(await elsewhere.claimKeys([second], false)).toBe(false);
    expect(await elsewhere.claimKeys([second], true)).toBe(true);
    // The first process still runs, with a key that is not in use any more.
    expect(await save(credentials, credential(), first)).toBeUndefined();
    expect(await credentials.list(tenantId)).toEqual([]);
  });

  test('need no former key of a rotation that broke off, once the last one is gone', async () => {
    const { credentials: store } = stores.one;
    expect(await store.switchTo(second, [second, first])).toBe(true);
    expect(await elsewhere.claimKeys([third], true)).toBe(true);
    await save(elsewhere, credential(), third);
    expect(await elsewhere.claimKeys([third], true)).toBe(true);
  });

  test('are kept as the key in use has encrypted them, whichever of two that is', async () => {
    const byKey = [second, first].map((key) => [key, credential({ label: key })] as const);
    expect((await credentials.save(new Map(byKey)))?.label).toBe(first);
    await credentials.remove(tenantId, 'openai');
    await elsewhere.claimKeys([second], true);
    expect((await credentials.save(new Map(byKey)))?.label).toBe(second);
  });

  test('are never encrypted with two keys, however starts and saves race', async () => {
    const providers = Array.from({ length: 10 }, (_, i) => `p${i}`);
    await Promise.all(
      providers.map(async (provider, i) => {
        const [store, key] = i % 2 === 0 ? [credentials, first] : [elsewhere, second];
        await store.claimKeys([key], true);
        await save(store, credential({ provider, label: key }), key);
      }),
    );
    const labels = (await credentials.list(tenantId)).map(({ label }) => label);
    expect(labels.length).toBeGreaterThan(0);
    expect(new Set(labels).size).toBe(1);
  });
});
