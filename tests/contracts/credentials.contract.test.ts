import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import type { StoredCredential, VaultStore } from '../../src/auth/vault.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const first = 'first-fingerprint';
const second = 'second-fingerprint';
const third = 'third-fingerprint';

describe.each([...engines])('SqlCredentials on $name', ({ empty }) => {
  let stores: TwoStores;
  let credentials: VaultStore;
  let otherCredentials: VaultStore;
  let tenantId: string;

  beforeAll(async () => {
    stores = await openTwice(empty);
    credentials = stores.one.credentials;
    otherCredentials = stores.other.credentials;
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

  test("returns a tenant's credentials unchanged, sorted by provider", async () => {
    const own = { provider: 'anthropic', baseUrl: 'https://proxy.example/v1' };
    const [openai, anthropic] = [credential(), credential({ ...own, mode: 'byok_only' })];
    expect(await save(credentials, openai, first)).toEqual(openai);
    expect(await save(credentials, anthropic, first)).toEqual(anthropic);
    expect(await otherCredentials.list(tenantId)).toEqual([anthropic, openai]);
    expect(await otherCredentials.list(await newTenant())).toEqual([]);
  });

  test("returns only the tenant's own credentials in thousands of concurrent reads", async () => {
    const [one, two] = [tenantId, await newTenant()];
    await save(credentials, credential(), first);
    await save(credentials, credential({ tenantId: two }), first);
    await save(credentials, credential({ tenantId: two, provider: 'anthropic' }), first);
    const others = Array.from({ length: 2_000 }, (_, i) => `ten_other${i}`);
    const tenantIds = [one, ...others, two];
    const lists = await Promise.all(tenantIds.map((id) => otherCredentials.list(id)));
    const names = lists.map((list) => list.map((row) => [row.tenantId, row.provider]));
    expect(names.shift()).toEqual([[one, 'openai']]);
    expect(names.pop()).toEqual([
      [two, 'anthropic'],
      [two, 'openai'],
    ]);
    expect(names.flat()).toEqual([]);
  });

  test('replaces a credential but keeps its creation time', async () => {
    await save(credentials, credential({ baseUrl: 'https://old.example' }), first);
    const change = { ciphertext: new Uint8Array([1, 0, 2]), mode: 'byok_only' } as const;
    const later = credential({ ...change, label: '•••', createdAt: 9, updatedAt: 9 });
    const saved = await save(credentials, later, first);
    expect(saved).toEqual({ ...later, createdAt: 1_700_000_000_000 });
    expect(await otherCredentials.list(tenantId)).toEqual(saved ? [saved] : []);
  });

  test('removes a credential once, without affecting other tenants', async () => {
    const other = await newTenant();
    await save(credentials, credential(), first);
    await save(credentials, credential({ tenantId: other }), first);
    expect(await otherCredentials.remove(tenantId, 'groq')).toBe(false);
    expect(await otherCredentials.remove(tenantId, 'openai')).toBe(true);
    expect(await otherCredentials.remove(tenantId, 'openai')).toBe(false);
    expect(await credentials.list(tenantId)).toEqual([]);
    expect((await credentials.list(other)).length).toBe(1);
  });

  test('increases the directory version only if something changed', async () => {
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

  test('rejects a credential of an unknown tenant', async () => {
    const orphan = credential({ tenantId: 'nobody' });
    expect((await failureOf(save(credentials, orphan, first))).message).toMatch(/foreign key/i);
    expect(await credentials.list('nobody')).toEqual([]);
  });

  test('has a current key as soon as a process has claimed one', async () => {
    expect(await otherCredentials.hasKey()).toBe(true);
    const { write } = stores.one.database;
    await write.deleteFrom('settings').where('name', '=', 'secret_key_fingerprint').execute();
    expect(await otherCredentials.hasKey()).toBe(false);
    await credentials.claimKeys([first], false);
    expect(await otherCredentials.hasKey()).toBe(true);
  });

  test('rejects other keys until the last credential is removed', async () => {
    await save(credentials, credential(), first);
    for (const isStart of [true, false]) {
      expect(await otherCredentials.claimKeys([second], isStart)).toBe(false);
      expect(await otherCredentials.claimKeys([first], isStart)).toBe(true);
    }
    expect(await save(otherCredentials, credential({ provider: 'groq' }), second)).toBeUndefined();
    expect((await otherCredentials.list(tenantId)).map(({ provider }) => provider)).toEqual([
      'openai',
    ]);
    await credentials.remove(tenantId, 'openai');
    expect(await otherCredentials.claimKeys([second], false)).toBe(false);
    expect(await otherCredentials.claimKeys([second], true)).toBe(true);
    // The first process is still running with a key that is no longer current.
    expect(await save(credentials, credential(), first)).toBeUndefined();
    expect(await credentials.list(tenantId)).toEqual([]);
  });

  test('does not require the previous key after an interrupted rotation if no credentials exist', async () => {
    const { credentials: store } = stores.one;
    expect(await store.switchTo(second, [second, first])).toBe(true);
    expect(await otherCredentials.claimKeys([third], true)).toBe(true);
    await save(otherCredentials, credential(), third);
    expect(await otherCredentials.claimKeys([third], true)).toBe(true);
  });

  test('stores the version that the current key encrypted', async () => {
    const byKey = [second, first].map((key) => [key, credential({ label: key })] as const);
    expect((await credentials.save(new Map(byKey)))?.label).toBe(first);
    await credentials.remove(tenantId, 'openai');
    await otherCredentials.claimKeys([second], true);
    expect((await credentials.save(new Map(byKey)))?.label).toBe(second);
  });

  test('never stores credentials encrypted with 2 different keys when starts and saves race', async () => {
    const providers = Array.from({ length: 10 }, (_, i) => `p${i}`);
    await Promise.all(
      providers.map(async (provider, i) => {
        const [store, key] = i % 2 === 0 ? [credentials, first] : [otherCredentials, second];
        await store.claimKeys([key], true);
        await save(store, credential({ provider, label: key }), key);
      }),
    );
    const labels = (await credentials.list(tenantId)).map(({ label }) => label);
    expect(labels.length).toBeGreaterThan(0);
    expect(new Set(labels).size).toBe(1);
  });
});
