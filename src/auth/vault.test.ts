import { describe, expect, test } from 'bun:test';
import { fc } from '../../tests/support/random.ts';
import { Secret } from '../core/secret.ts';
import {
  type NewCredential,
  SealingKey,
  type StoredCredential,
  Vault,
  type VaultDeps,
  type VaultStore,
} from './vault.ts';

const secret = new Secret('0123456789-0123456789-0123456789');
const acme: NewCredential = {
  tenantId: 'acme',
  provider: 'openai',
  apiKey: 'sk-acme-0123456789',
  baseUrl: null,
  mode: 'byok_first',
};

/** An in-memory store that counts its reads and lets a test delay its answers. */
function memoryStore() {
  const rows = new Map<string, StoredCredential>();
  const state = { reads: 0, isUnreachable: false, gate: Promise.resolve(), fingerprint: '' };
  const nameOf = (tenantId: string, provider: string) => `${tenantId} ${provider}`;
  const store: VaultStore = {
    async list(tenantId) {
      state.reads++;
      if (state.isUnreachable) throw new Error('unreachable');
      const found = [...rows.values()].filter((row) => row.tenantId === tenantId);
      await state.gate;
      return found;
    },
    async save(byKey) {
      await store.claimKeys([...byKey.keys()], false);
      const row = byKey.get(state.fingerprint);
      if (row) rows.set(nameOf(row.tenantId, row.provider), row);
      return row;
    },
    remove: async (tenantId, provider) => rows.delete(nameOf(tenantId, provider)),
    hasKey: async () => state.fingerprint !== '',
    async claimKeys([first = '', ...others], isStart) {
      if (state.fingerprint === '' || (isStart && rows.size === 0)) state.fingerprint = first;
      return [first, ...others].includes(state.fingerprint);
    },
  };
  return { store, rows, state };
}

async function openVault() {
  const memory = memoryStore();
  const undecryptable: string[] = [];
  const vault = await Vault.open({
    store: memory.store,
    secrets: [secret],
    isStart: true,
    onUndecryptable: (tenant, provider) => undecryptable.push(`${tenant} ${provider}`),
  });
  return { ...memory, vault, undecryptable };
}

describe('Vault', () => {
  test('returns credentials as saved, to their tenant only', async () => {
    const { vault } = await openVault();
    await vault.save(acme, 7);
    const [credential] = await vault.credentialsOf('acme');
    expect(credential).toMatchObject({ provider: 'openai', baseUrl: null, mode: 'byok_first' });
    expect(credential?.apiKey?.reveal()).toBe('sk-acme-0123456789');
    expect(await vault.credentialsOf('other')).toEqual([]);
  });

  test('stores no plain text of the key except its last 4 characters', async () => {
    const { vault, rows } = await openVault();
    const saved = await vault.save(acme, 7);
    expect(saved.label).toBe('•••6789');
    const [row] = rows.values();
    expect(JSON.stringify(row)).not.toContain('acme-01');
    expect(Buffer.from(row?.ciphertext ?? []).includes('sk-acme')).toBe(false);
  });

  test.each([
    ['another tenant', { tenantId: 'evil' }],
    ['another provider', { provider: 'groq' }],
    ['another address', { baseUrl: 'https://evil.example/v1' }],
  ])('does not decrypt a row that was moved to %s', async (_, change) => {
    const { vault, rows, undecryptable } = await openVault();
    const saved = await vault.save(acme, 7);
    rows.clear();
    const moved = { ...saved, ...change };
    rows.set('moved', moved);
    const [credential] = await vault.credentialsOf(moved.tenantId);
    expect(credential?.apiKey).toBeNull();
    expect(undecryptable).toEqual([`${moved.tenantId} ${moved.provider}`]);
  });

  test('gives a replaced credential a new credentialVersion', async () => {
    const { vault } = await openVault();
    await vault.save(acme, 7);
    const [before] = await vault.credentialsOf('acme');
    await vault.save(acme, 8);
    const [after] = await vault.credentialsOf('acme');
    expect(after?.credentialVersion).not.toBe(before?.credentialVersion);
  });

  test('gives credentials of different tenants different credentialVersions', async () => {
    const { vault } = await openVault();
    for (const tenantId of ['acme', 'other']) await vault.save({ ...acme, tenantId }, 7);
    const [mine] = await vault.credentialsOf('acme');
    const [theirs] = await vault.credentialsOf('other');
    expect(mine?.credentialVersion).not.toBe(theirs?.credentialVersion);
  });
});

describe('Vault cache', () => {
  test('reads the store once for concurrent requests, then returns synchronously', async () => {
    const { vault, state } = await openVault();
    const burst = await Promise.all([1, 2, 3].map(() => vault.credentialsOf('acme')));
    expect(burst).toEqual([[], [], []]);
    expect(vault.credentialsOf('acme')).not.toBeInstanceOf(Promise);
    expect(state.reads).toBe(1);
    vault.forget();
    await vault.credentialsOf('acme');
    expect(state.reads).toBe(2);
  });

  test('does not cache a read that started before a change', async () => {
    const { vault, state } = await openVault();
    const gate = Promise.withResolvers<void>();
    state.gate = gate.promise;
    const early = vault.credentialsOf('acme');
    state.gate = Promise.resolve();
    await vault.save(acme, 7);
    gate.resolve();
    expect(await early).toEqual([]);
    expect((await vault.credentialsOf('acme')).length).toBe(1);
  });

  test('does not cache a failure', async () => {
    const { vault, state } = await openVault();
    state.isUnreachable = true;
    const rejected = await Promise.resolve(vault.credentialsOf('acme')).catch((e: unknown) => e);
    expect(rejected).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 2 });
    state.isUnreachable = false;
    expect(await vault.credentialsOf('acme')).toEqual([]);
  });

  test('keeps refreshed credentials usable while the store is unreachable', async () => {
    const { vault, state } = await openVault();
    await vault.save(acme, 7);
    await vault.credentialsOf('acme');
    vault.forget();
    await vault.refresh(['acme', 'other']);
    state.isUnreachable = true;
    expect((await vault.credentialsOf('acme')).length).toBe(1);
    expect(await vault.credentialsOf('other')).toEqual([]);
    vault.forget();
    await vault.refresh(['acme']);
    state.isUnreachable = false;
    expect((await vault.credentialsOf('acme')).length).toBe(1);
  });

  test('holds 50,000 tenants and then evicts the oldest', async () => {
    const { vault, state } = await openVault();
    for (let i = 0; i < 50_000; i++) await vault.credentialsOf(`t${i}`);
    expect(vault.credentialsOf('t0')).not.toBeInstanceOf(Promise);
    await vault.credentialsOf('one more');
    expect(state.reads).toBe(50_001);
    await vault.credentialsOf('t0');
    expect(state.reads).toBe(50_002);
  });
});

describe('Vault secret key', () => {
  const wrong = new Secret('wrong-0123456789-0123456789-0123');

  async function rejectionReason(deps: VaultDeps): Promise<string> {
    return Vault.open(deps).then(
      () => 'none',
      (error: unknown) => String(error),
    );
  }

  test('is rejected unless it is the key that encrypted the credentials', async () => {
    const { store } = await openVault();
    // Nothing is encrypted yet, so startup may set another key, but a command may not.
    expect(await rejectionReason({ store, secrets: [wrong], isStart: false })).toContain(
      "doesn't match",
    );
    await Vault.open({ store, secrets: [wrong], isStart: true });
    const vault = await Vault.open({ store, secrets: [secret], isStart: true });
    await vault.save(acme, 7);
    for (const isStart of [true, false]) {
      expect(await rejectionReason({ store, secrets: [wrong], isStart })).toContain(
        "doesn't match",
      );
      expect(await rejectionReason({ store, secrets: [secret], isStart })).toBe('none');
    }
  });

  test('saves nothing after another process has set a different key', async () => {
    const { store, vault, rows } = await openVault();
    await Vault.open({ store, secrets: [wrong], isStart: true });
    const rejected = await vault.save(acme, 8).catch((e: unknown) => e);
    expect(rejected).toMatchObject({ symbol: 'service_unavailable' });
    // The cause is for the operator's log; tenants don't need it.
    expect(String(rejected)).not.toContain('SECRET');
    expect(rejected).toMatchObject({ cause: { message: expect.stringContaining('SECRET_KEY') } });
    expect(rows.size).toBe(0);
  });
});

describe('SealingKey', () => {
  const key = new SealingKey(new Secret('0123456789-0123456789-0123456789'));
  const other = new SealingKey(new Secret('another-0123456789-0123456789-01'));

  test('opens only what the same key sealed for the same purpose', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.string(),
        fc.string(),
        (text, purpose, wrong) => {
          const sealed = key.seal(text, purpose);
          expect(key.open(sealed, purpose)).toBe(Buffer.from(text).toString());
          expect(other.open(sealed, purpose)).toBeUndefined();
          if (wrong !== purpose) expect(key.open(sealed, wrong)).toBeUndefined();
        },
      ),
    );
  });

  test('rejects sealed text with a changed byte or a missing end', () => {
    const sealed = key.seal('sk-secret', 'a');
    sealed.forEach((byte, index) => {
      const changed = sealed.with(index, byte ^ 1);
      expect(key.open(changed, 'a')).toBeUndefined();
      expect(key.open(sealed.subarray(0, index), 'a')).toBeUndefined();
    });
  });

  test('uses a new nonce each time and does not reveal the text', () => {
    const seals = Array.from({ length: 100 }, () => Buffer.from(key.seal('sk-secret', 'a')));
    const nonces = new Set(seals.map((sealed) => sealed.subarray(1, 13).toString('hex')));
    expect(nonces.size).toBe(100);
    expect(seals.some((sealed) => sealed.includes('sk-secret'))).toBe(false);
  });

  test('has a fingerprint that differs between keys', () => {
    expect(key.fingerprint).toMatch(/^[0-9a-f]{32}$/);
    expect(key.fingerprint).not.toBe(other.fingerprint);
  });
});
