import { describe, expect, test } from 'bun:test';
import { Secret } from '../core/secret.ts';
import {
  type NewCredential,
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

/** Rows in memory, with a count of how often they were read and a gate to hold a reading back. */
function memoryStore() {
  const rows = new Map<string, StoredCredential>();
  const state = { reads: 0, isAway: false, gate: Promise.resolve(), fingerprint: '' };
  const nameOf = (tenantId: string, provider: string) => `${tenantId} ${provider}`;
  const store: VaultStore = {
    async list(tenantId) {
      state.reads++;
      if (state.isAway) throw new Error('away');
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

describe('credentials', () => {
  test('come back as they were given, and only to their tenant', async () => {
    const { vault } = await openVault();
    await vault.save(acme, 7);
    const [credential] = await vault.credentialsOf('acme');
    expect(credential).toMatchObject({ provider: 'openai', baseUrl: null, mode: 'byok_first' });
    expect(credential?.apiKey?.reveal()).toBe('sk-acme-0123456789');
    expect(await vault.credentialsOf('other')).toEqual([]);
  });

  test('are kept without the key, but for how it ends', async () => {
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
  ])('that were moved to %s do not open', async (_, change) => {
    const { vault, rows, undecryptable } = await openVault();
    const saved = await vault.save(acme, 7);
    rows.clear();
    const moved = { ...saved, ...change };
    rows.set('moved', moved);
    const [credential] = await vault.credentialsOf(moved.tenantId);
    expect(credential?.apiKey).toBeNull();
    expect(undecryptable).toEqual([`${moved.tenantId} ${moved.provider}`]);
  });

  test('that are replaced are another credential for the circuit breaker', async () => {
    const { vault } = await openVault();
    await vault.save(acme, 7);
    const [before] = await vault.credentialsOf('acme');
    await vault.save(acme, 8);
    const [after] = await vault.credentialsOf('acme');
    expect(after?.scope).not.toBe(before?.scope);
  });

  test('of two tenants have circuit breakers of their own, also when saved at once', async () => {
    const { vault } = await openVault();
    for (const tenantId of ['acme', 'other']) await vault.save({ ...acme, tenantId }, 7);
    const [mine] = await vault.credentialsOf('acme');
    const [theirs] = await vault.credentialsOf('other');
    expect(mine?.scope).not.toBe(theirs?.scope);
  });
});

describe('the memory', () => {
  test('answers at once for a tenant seen before, and asks once for a burst', async () => {
    const { vault, state } = await openVault();
    const burst = await Promise.all([1, 2, 3].map(() => vault.credentialsOf('acme')));
    expect(burst).toEqual([[], [], []]);
    expect(vault.credentialsOf('acme')).not.toBeInstanceOf(Promise);
    expect(state.reads).toBe(1);
    vault.forget();
    await vault.credentialsOf('acme');
    expect(state.reads).toBe(2);
  });

  test('does not keep an answer that was under way when things changed', async () => {
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

  test('does not keep a failure', async () => {
    const { vault, state } = await openVault();
    state.isAway = true;
    const refused = await Promise.resolve(vault.credentialsOf('acme')).catch((e: unknown) => e);
    expect(refused).toMatchObject({ symbol: 'service_unavailable', retryAfterSeconds: 2 });
    state.isAway = false;
    expect(await vault.credentialsOf('acme')).toEqual([]);
  });

  test('reads those in use again, so that they go on if the store goes away', async () => {
    const { vault, state } = await openVault();
    await vault.save(acme, 7);
    await vault.credentialsOf('acme');
    vault.forget();
    await vault.refresh(['acme', 'other']);
    state.isAway = true;
    expect((await vault.credentialsOf('acme')).length).toBe(1);
    expect(await vault.credentialsOf('other')).toEqual([]);
    vault.forget();
    await vault.refresh(['acme']);
    state.isAway = false;
    expect((await vault.credentialsOf('acme')).length).toBe(1);
  });

  test('holds 50,000 tenants and then lets the first one go', async () => {
    const { vault, state } = await openVault();
    for (let i = 0; i < 50_000; i++) await vault.credentialsOf(`t${i}`);
    expect(vault.credentialsOf('t0')).not.toBeInstanceOf(Promise);
    await vault.credentialsOf('one more');
    expect(state.reads).toBe(50_001);
    await vault.credentialsOf('t0');
    expect(state.reads).toBe(50_002);
  });
});

describe('the secret key', () => {
  const wrong = new Secret('wrong-0123456789-0123456789-0123');

  async function refusalOf(deps: VaultDeps): Promise<string> {
    return Vault.open(deps).then(
      () => 'none',
      (error: unknown) => String(error),
    );
  }

  test('must be the one that the credentials were encrypted with', async () => {
    const { store } = await openVault();
    // Nothing depends on the first key yet, so a start may bring another one; a command may not.
    expect(await refusalOf({ store, secrets: [wrong], isStart: false })).toContain("doesn't match");
    await Vault.open({ store, secrets: [wrong], isStart: true });
    const vault = await Vault.open({ store, secrets: [secret], isStart: true });
    await vault.save(acme, 7);
    for (const isStart of [true, false]) {
      expect(await refusalOf({ store, secrets: [wrong], isStart })).toContain("doesn't match");
      expect(await refusalOf({ store, secrets: [secret], isStart })).toBe('none');
    }
  });

  test('of a process that was overtaken by another key saves nothing', async () => {
    const { store, vault, rows } = await openVault();
    await Vault.open({ store, secrets: [wrong], isStart: true });
    const refused = await vault.save(acme, 8).catch((e: unknown) => e);
    expect(refused).toMatchObject({ symbol: 'service_unavailable' });
    // What the operator has to do is for the operator's log.
    expect(String(refused)).not.toContain('SECRET');
    expect(refused).toMatchObject({ cause: { message: expect.stringContaining('SECRET_KEY') } });
    expect(rows.size).toBe(0);
  });
});
