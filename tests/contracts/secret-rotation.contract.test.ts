import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { type RotationStore, SecretRotation } from '../../src/auth/secret-rotation.ts';
import { Vault } from '../../src/auth/vault.ts';
import { ConfigVault } from '../../src/control/config-vault.ts';
import { Secret, type SecretKeys } from '../../src/core/secret.ts';
import { allTime } from '../../src/records/period.ts';
import { addTenant, engines, openTwice, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

const testMs = 120_000;
const otherKey = { stored: undefined, omitted: 'remove', sealingKey: 'another' } as const;
const before = new Secret('the-key-before-0123456789-0123456789');
const after = new Secret('the-key-after-0123456789-0123456789');
const both: SecretKeys = [after, before];
const unrelated = new Secret('an-unrelated-key-0123456789-0123456');

describe.each([...engines])('SecretRotation on $name', ({ empty }) => {
  let stores: TwoStores;
  let tenantId: string;

  beforeEach(async () => {
    stores = await openTwice(empty);
    tenantId = await addTenant(stores.one);
  }, testMs);
  afterEach(() => stores.close());

  const open = (...secrets: SecretKeys) =>
    Vault.open({ store: stores.other.credentials, secrets, isStart: true });
  const rotation = (secrets = both, store: RotationStore = stores.one.credentials) =>
    new SecretRotation(store, secrets);
  const nameOf = (index: number) => `p${String(index).padStart(3, '0')}`;

  async function save(vault: Vault, provider: string, apiKey = `sk-${provider}`): Promise<void> {
    await vault.save({ tenantId, provider, apiKey, baseUrl: null, mode: 'byok_first' }, 7);
  }

  async function fill(count: number): Promise<void> {
    const vault = await open(before);
    for (let index = 0; index < count; index++) await save(vault, nameOf(index));
  }

  /** Returns the keys that a process with these secrets reads, by provider. */
  async function readBy(...secrets: SecretKeys): Promise<Record<string, string | undefined>> {
    const credentials = await (await open(...secrets)).credentialsOf(tenantId);
    return Object.fromEntries(
      credentials.map(({ provider, apiKey }) => [provider, apiKey?.reveal()]),
    );
  }

  const allOf = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [nameOf(i), `sk-${nameOf(i)}`]));

  /** The calls for configuration objects, of which these tests have none. */
  const objectCalls = (): Pick<RotationStore, 'sealedObjects' | 'reencryptObjects'> => ({
    sealedObjects: () => stores.one.credentials.sealedObjects(),
    reencryptObjects: (...args) => stores.one.credentials.reencryptObjects(...args),
  });

  /** Returns the store of a process that is killed before it writes its nth batch. */
  function killedAtBatch(nth: number): RotationStore {
    const { credentials } = stores.one;
    let batches = 0;
    return {
      ...objectCalls(),
      page: (last, count) => credentials.page(last, count),
      switchTo: (target, held) => credentials.switchTo(target, held),
      reencrypt: async (rows, inUse) => {
        if (++batches === nth) throw new Error('killed');
        return credentials.reencrypt(rows, inUse);
      },
      finish: (inUse) => credentials.finish(inUse),
    };
  }

  test(
    're-encrypts the secrets of configuration objects',
    async () => {
      const { configObjects } = stores.one;
      const [id, apiKey] = [{ kind: 'provider', name: 'acme' }, 'sk-acme-0123456789'];
      await open(before);
      const vault = new ConfigVault([before]);
      await configObjects.change(7, vault.fingerprint, (_, sealingKey) => {
        const options = { stored: undefined, omitted: 'remove', sealingKey } as const;
        const saved = vault.seal({ ...id, document: { api_key: apiKey } }, options);
        return { saved: [saved], removed: [], audited: [] };
      });
      const openWith = async (secrets: SecretKeys) => {
        const { objects } = await configObjects.read();
        return objects.map((object) => new ConfigVault(secrets).open(object).document);
      };
      expect(await failureOf(open(unrelated))).toBeDefined();
      expect(await rotation().rotate()).toEqual({ current: 0, previous: 1, undecryptable: 0 });
      expect(await openWith([after])).toEqual([{ api_key: apiKey }]);
      expect(await openWith([before])).toEqual([{ api_key: '•••6789' }]);
      expect(() => vault.seal({ ...id, document: { api_key: apiKey } }, otherKey)).toThrow(
        'a different one',
      );
    },
    testMs,
  );

  test(
    're-encrypts all credentials with the new key',
    async () => {
      await fill(3);
      const rows = await stores.one.credentials.list(tenantId);
      expect(await rotation().count()).toEqual({ current: 0, previous: 3, undecryptable: 0 });
      expect(await rotation().rotate()).toEqual({ current: 0, previous: 3, undecryptable: 0 });
      expect(await rotation().count()).toEqual({ current: 3, previous: 0, undecryptable: 0 });
      const filter = { ...allTime, action: 'secret_key.rotate', actor: null, tenantId: null };
      const entries = await stores.one.auditLog.list({ ...filter, target: null }, null, 9);
      expect(entries.length).toBe(1);
      expect(entries[0]?.before).not.toEqual(entries[0]?.after);
      expect(await rotation([before]).count()).toEqual({
        current: 0,
        previous: 0,
        undecryptable: 3,
      });
      expect(await readBy(after)).toEqual(allOf(3));
      expect((await failureOf(open(before))).message).toContain("doesn't match");
      // Everything except the ciphertext is unchanged, including the scope of the circuit breaker.
      const rest = ({ ciphertext, ...others }: (typeof rows)[number]) => others;
      const now = await stores.other.credentials.list(tenantId);
      expect(now.map(rest)).toEqual(rows.map(rest));
      expect(await rotation().rotate()).toEqual({ current: 3, previous: 0, undecryptable: 0 });
    },
    testMs,
  );

  test(
    'requires both keys after an interruption until another run has finished',
    async () => {
      await fill(450);
      const killed = rotation(both, killedAtBatch(2));
      expect((await failureOf(killed.rotate())).message).toBe('killed');
      expect((await failureOf(rotation(both, killedAtBatch(1)).rotate())).message).toBe('killed');
      expect(await rotation().count()).toEqual({ current: 200, previous: 250, undecryptable: 0 });
      for (const secret of [before, after]) {
        expect((await failureOf(open(secret))).message).toContain('TOLLGATE_PREVIOUS_SECRET_KEY');
        expect((await failureOf(rotation([secret]).rotate())).message).toContain(
          'TOLLGATE_PREVIOUS_SECRET_KEY is not set',
        );
      }
      expect(await readBy(...both)).toEqual(allOf(450));
      expect(await rotation().rotate()).toEqual({ current: 200, previous: 250, undecryptable: 0 });
      expect(await readBy(after)).toEqual(allOf(450));
    },
    testMs,
  );

  test(
    're-encrypts the credentials of all tenants once',
    async () => {
      for (let tenants = 0; tenants < 3; tenants++) {
        tenantId = await addTenant(stores.one);
        await fill(2);
      }
      const { credentials } = stores.one;
      const oneByOne = rotation(both, {
        ...objectCalls(),
        page: (last) => credentials.page(last, 1),
        switchTo: (target, held) => credentials.switchTo(target, held),
        reencrypt: (rows, inUse) => credentials.reencrypt(rows, inUse),
        finish: (inUse) => credentials.finish(inUse),
      });
      expect(await oneByOne.rotate()).toEqual({ current: 0, previous: 6, undecryptable: 0 });
    },
    testMs,
  );

  test(
    'can be reverted after an interruption by swapping the keys',
    async () => {
      await fill(250);
      await failureOf(rotation(both, killedAtBatch(2)).rotate());
      const swapped: SecretKeys = [before, after];
      expect(await rotation(swapped).rotate()).toEqual({
        current: 50,
        previous: 200,
        undecryptable: 0,
      });
      expect(await readBy(before)).toEqual(allOf(250));
    },
    testMs,
  );

  test(
    'keeps credentials saved during the rotation, and rejects saves with the old key',
    async () => {
      await fill(2);
      const [old, mixed] = [await open(before), await open(...both)];
      // Before the rotation, both save with the old key, which every process can read.
      await save(mixed, 'p001', 'sk-mixed');
      expect(await readBy(before)).toMatchObject({ p001: 'sk-mixed' });
      const { credentials } = stores.one;
      let saved = 0;
      await rotation(both, {
        ...objectCalls(),
        page: (last, count) => credentials.page(last, count),
        switchTo: (target, held) => credentials.switchTo(target, held),
        reencrypt: async (rows, inUse) => {
          expect((await failureOf(save(old, 'p000', 'sk-late'))).message).toContain('operator');
          await save(mixed, 'p001', 'sk-newest');
          await mixed.save({ tenantId, provider: 'p002', apiKey: 'sk-new', ...ownEndpoint }, 8);
          saved++;
          return credentials.reencrypt(rows, inUse);
        },
        finish: (inUse) => credentials.finish(inUse),
      }).rotate();
      expect(saved).toBe(1);
      expect(await readBy(after)).toEqual({ p000: 'sk-p000', p001: 'sk-newest', p002: 'sk-new' });
    },
    testMs,
  );

  test(
    'keeps and counts credentials that neither key decrypts',
    async () => {
      await fill(2);
      const { write } = stores.one.database;
      const moved = { base_url: 'https://evil.example' };
      await write
        .updateTable('byok_credentials')
        .set(moved)
        .where('provider', '=', 'p000')
        .execute();
      expect(await rotation().rotate()).toEqual({ current: 0, previous: 1, undecryptable: 1 });
      expect(await readBy(after)).toEqual({ p000: undefined, p001: 'sk-p001' });
    },
    testMs,
  );

  test(
    'changes nothing with a key that was never current',
    async () => {
      await fill(1);
      const wrong: SecretKeys = [after, unrelated];
      expect((await failureOf(rotation(wrong).rotate())).message).toContain("doesn't match");
      expect(await readBy(before)).toEqual(allOf(1));
    },
    testMs,
  );

  test(
    'continues after an interruption only with both of its keys',
    async () => {
      await fill(250);
      await failureOf(rotation(both, killedAtBatch(2)).rotate());
      const wrong: SecretKeys = [after, unrelated];
      expect((await failureOf(rotation(wrong).rotate())).message).toContain("doesn't match");
      expect((await failureOf(open(after))).message).toContain('TOLLGATE_PREVIOUS_SECRET_KEY');
      expect(await readBy(...both)).toEqual(allOf(250));
    },
    testMs,
  );

  test.each(['reseal', 'finish'] as const)(
    'fails if another rotation runs before its %s',
    async (step) => {
      await fill(2);
      const { credentials } = stores.one;
      const runOther = (currentStep: string) =>
        currentStep === step ? rotation([before, after]).rotate() : undefined;
      const store: RotationStore = {
        ...objectCalls(),
        page: (last, count) => credentials.page(last, count),
        switchTo: (target, held) => credentials.switchTo(target, held),
        async reencrypt(rows, inUse) {
          await runOther('reseal');
          return credentials.reencrypt(rows, inUse);
        },
        async finish(inUse) {
          await runOther('finish');
          return credentials.finish(inUse);
        },
      };
      expect((await failureOf(rotation(both, store).rotate())).message).toContain("doesn't match");
      expect(await readBy(before)).toEqual(allOf(2));
    },
    testMs,
  );

  const ownEndpoint = { baseUrl: 'https://own.example', mode: 'byok_only' } as const;
});
