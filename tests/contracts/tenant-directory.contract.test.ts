import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantDirectory } from '../../src/auth/tenant-directory.ts';
import type { Scope } from '../../src/core/caller.ts';
import { engines, makeKey, makeTenant, openTwice, randomHash, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

describe.each([...engines])('SqlTenantDirectory on $name', ({ empty }) => {
  let stores: TwoStores;
  let directory: TenantDirectory;
  let otherDirectory: TenantDirectory;

  beforeAll(async () => {
    stores = await openTwice(empty);
    directory = stores.one.directory;
    otherDirectory = stores.other.directory;
  }, 120_000);

  afterAll(() => stores.close());

  async function addedTenant() {
    const tenant = makeTenant();
    expect(await directory.addTenant(tenant)).toBe('added');
    return tenant;
  }

  async function addedKey(tenantId: string, change = {}) {
    const key = makeKey(tenantId, change);
    const hash = randomHash();
    expect(await directory.addKey(key, hash)).toBe('added');
    return { key, hash };
  }

  describe('with tenants', () => {
    test('returns a tenant exactly as added, in every process', async () => {
      const tenant = await addedTenant();
      expect(await directory.getTenant(tenant.id)).toEqual(tenant);
      expect(await otherDirectory.getTenant(tenant.id)).toEqual(tenant);
    });

    test('rejects a second tenant with the same ID', async () => {
      const tenant = await addedTenant();
      const version = await directory.version();
      expect(await directory.addTenant({ ...tenant, name: 'Impostor' })).toBe('exists');
      expect(await directory.getTenant(tenant.id)).toEqual(tenant);
      expect(await directory.version()).toBe(version);
    });

    test('adds a tenant once in 20 concurrent calls', async () => {
      const tenant = makeTenant();
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          (i % 2 ? directory : otherDirectory).addTenant(tenant),
        ),
      );
      expect(outcomes.filter((outcome) => outcome === 'added')).toHaveLength(1);
    });

    test('creates an empty wallet for a new tenant', async () => {
      const tenant = await addedTenant();
      expect(await stores.one.creditStore.balance(tenant.id)).toEqual({
        ...{ balance: 0, leased: 0, held: 0 },
      });
    });

    test('changes only the provided fields', async () => {
      const tenant = await addedTenant();
      const changed = await directory.changeTenant(tenant.id, { disabled: true }, 42);
      expect(changed).toEqual({ ...tenant, disabled: true, updatedAt: 42 });
      expect(await directory.getTenant(tenant.id)).toEqual({
        ...tenant,
        disabled: true,
        updatedAt: 42,
      });
    });

    test('removes a limit', async () => {
      const tenant = await addedTenant();
      await directory.changeTenant(tenant.id, { requestsPerMinute: null }, 42);
      expect((await directory.getTenant(tenant.id))?.requestsPerMinute).toBeNull();
    });

    test('returns undefined for an unknown tenant', async () => {
      expect(await directory.getTenant('ten_nobody')).toBeUndefined();
      expect(await directory.changeTenant('ten_nobody', { name: 'x' }, 1)).toBeUndefined();
    });

    test('lists tenants oldest first, with ties sorted by the bytes of their IDs', async () => {
      // These tenants are older than all others of this suite, so that they come first.
      const ids = ['ten_B', 'ten_a', 'ten_C', 'ten_b'];
      for (const id of ids) await directory.addTenant(makeTenant({ id, createdAt: 1 }));
      await directory.addTenant(makeTenant({ id: 'ten_Z', createdAt: 0 }));
      const first = await directory.listTenants({ limit: 2, offset: 0 });
      const second = await directory.listTenants({ limit: 3, offset: 2 });
      const listed = [...first, ...second].map((tenant) => tenant.id);
      expect(listed).toEqual(['ten_Z', 'ten_B', 'ten_C', 'ten_a', 'ten_b']);
    });
  });

  describe('with keys', () => {
    test('returns a key exactly as added', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      expect(await otherDirectory.getKey(tenant.id, key.id)).toEqual(key);
    });

    test('distinguishes absent lists from empty ones', async () => {
      const tenant = await addedTenant();
      const none = { limitCredits: null, limitReset: null, models: null, scopes: null };
      const rest = { requestsPerMinute: null, cacheMode: null, expiresAt: null };
      const { key: unrestricted } = await addedKey(tenant.id, { ...none, ...rest });
      const { key: restricted } = await addedKey(tenant.id, { models: [], scopes: [] });
      expect(await directory.getKey(tenant.id, unrestricted.id)).toEqual(unrestricted);
      expect(await directory.getKey(tenant.id, restricted.id)).toEqual(restricted);
    });

    test('finds the key, tenant, and stored hash of a secret', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const match = await otherDirectory.findKey(hash);
      expect(match).toEqual({ key, tenant, hash, secretExpiresAt: null });
      expect(Object.getPrototypeOf(match?.hash)).toBe(Uint8Array.prototype);
    });

    test('finds the right key for each of thousands of concurrent lookups', async () => {
      const [one, two] = [await addedTenant(), await addedTenant()];
      const [plain, rotated] = [await addedKey(one.id), await addedKey(two.id)];
      const secret = { hash: randomHash(), label: 'sk-tg-cd34…0a', previousSecretExpiresAt: 5_000 };
      await directory.rotateKey(two.id, rotated.key.id, secret, 42);
      const hashes = Array.from({ length: 2_000 }, randomHash);
      hashes.splice(0, 1, plain.hash);
      hashes.splice(700, 1, rotated.hash);
      hashes.splice(1_999, 1, secret.hash);
      const found = await Promise.all(hashes.map((hash) => otherDirectory.findKey(hash)));
      const matches = found.map((match, i) => match && [i, match.key.id, match.tenant.id]);
      expect(matches.filter((match) => match !== undefined)).toEqual([
        [0, plain.key.id, one.id],
        [700, rotated.key.id, two.id],
        [1_999, rotated.key.id, two.id],
      ]);
      expect([found[700]?.secretExpiresAt, found[1_999]?.secretExpiresAt]).toEqual([5_000, null]);
    });

    test('queues 10,000 lookups behind a running one and rejects more', async () => {
      const lookups = Array.from({ length: 10_100 }, () => otherDirectory.findKey(randomHash()));
      const statuses = (await Promise.allSettled(lookups)).map(({ status }) => status);
      expect(statuses.filter((status) => status === 'fulfilled')).toHaveLength(10_001);
      expect(statuses.at(-1)).toBe('rejected');
      expect(await otherDirectory.findKey(randomHash())).toBeUndefined();
    });

    test('finds the other keys of a batch if one key can be read only by a newer version', async () => {
      const tenant = await addedTenant();
      const newer = await addedKey(tenant.id, { scopes: ['video' as Scope] });
      const known = await addedKey(tenant.id);
      // The first lookup runs alone; the others share the next query.
      const lookups = [randomHash(), newer.hash, known.hash].map((hash) =>
        otherDirectory.findKey(hash),
      );
      const [unknown, unreadable, found] = await Promise.allSettled(lookups);
      expect(unknown).toEqual({ status: 'fulfilled', value: undefined });
      expect(unreadable).toMatchObject({ status: 'rejected' });
      expect(found).toMatchObject({ status: 'fulfilled', value: { key: known.key } });
    });

    test('compares every byte of a hash', async () => {
      const tenant = await addedTenant();
      for (let start = 0; start < 256; start += 32) {
        const hash = Uint8Array.from({ length: 32 }, (_, i) => start + i);
        await directory.addKey(makeKey(tenant.id), hash);
        expect((await directory.findKey(hash))?.hash).toEqual(hash);
        expect(await directory.findKey(hash.with(31, start))).toBeUndefined();
      }
    });

    test('rejects a hash of the wrong length in the database', async () => {
      const tenant = await addedTenant();
      const short = new Uint8Array(31);
      expect((await failureOf(directory.addKey(makeKey(tenant.id), short))).message).toMatch(
        /check|CHECK/,
      );
    });

    test('rejects a repeated key ID or secret', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const version = await directory.version();
      expect(await directory.addKey({ ...key, name: 'duplicate' }, randomHash())).toBe('exists');
      expect(await directory.addKey(makeKey(tenant.id), hash)).toBe('exists');
      expect(await directory.countKeys(tenant.id)).toBe(1);
      expect(await directory.getKey(tenant.id, key.id)).toEqual(key);
      expect(await directory.version()).toBe(version);
    });

    test('rejects a key of an unknown tenant in the database', async () => {
      expect(
        (await failureOf(directory.addKey(makeKey('ten_nobody'), randomHash()))).message,
      ).toMatch(/foreign key/i);
    });

    test('changes only the provided fields', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const change = { limitCredits: null, models: ['demo/*'], scopes: null, disabled: true };
      const changed = await directory.changeKey(tenant.id, key.id, change, 42);
      expect(changed).toEqual({ ...key, ...change, updatedAt: 42 });
      expect((await directory.findKey(hash))?.key).toEqual({ ...key, ...change, updatedAt: 42 });
    });

    test("does not find another tenant's key", async () => {
      const owner = await addedTenant();
      const other = await addedTenant();
      const { key, hash } = await addedKey(owner.id);
      const secret = { hash: randomHash(), label: 'stolen', previousSecretExpiresAt: 0 };
      expect(await directory.getKey(other.id, key.id)).toBeUndefined();
      expect(await directory.changeKey(other.id, key.id, { name: 'x' }, 1)).toBeUndefined();
      expect(await directory.rotateKey(other.id, key.id, secret, 1)).toBeUndefined();
      expect(await directory.deleteKey(other.id, key.id, 1)).toBe(false);
      expect(await directory.countKeys(other.id)).toBe(0);
      const page = { limit: 10, offset: 0, includeDisabled: true };
      expect(await directory.listKeys(other.id, page)).toEqual([]);
      expect((await directory.findKey(hash))?.key).toEqual(key);
    });

    test("lists a tenant's keys oldest first, with ties sorted by the bytes of their IDs", async () => {
      const tenant = await addedTenant();
      const suffix = tenant.id;
      for (const name of ['b', 'A', 'a', 'B']) {
        await addedKey(tenant.id, { id: `key_${name}${suffix}`, createdAt: 20 });
      }
      await addedKey(tenant.id, { id: `key_z${suffix}`, createdAt: 10 });
      const pages = [
        await directory.listKeys(tenant.id, { limit: 3, offset: 0, includeDisabled: true }),
        await directory.listKeys(tenant.id, { limit: 3, offset: 3, includeDisabled: true }),
      ];
      const listed = pages.flat().map((key) => key.id.slice(4, 5));
      expect(listed).toEqual(['z', 'A', 'B', 'a', 'b']);
    });

    test('searches keys by words of the name or label, and by the start of the ID', async () => {
      const tenant = await addedTenant();
      const id = `key_begin${tenant.id}`;
      await addedKey(tenant.id, { id, name: 'Acme Ltd', label: 'sk-tg-ab12…9f', createdAt: 1 });
      await addedKey(tenant.id, { name: 'begin 50%_off', label: 'sk-tg-cd34…7e', createdAt: 2 });
      await addedKey(tenant.id, { name: 'Zoë', label: 'sk-mgmt-ef56…AB', createdAt: 3 });
      await addedKey((await addedTenant()).id, { name: 'Acme Ltd' });
      const found = async (search: string) => {
        const page = { limit: 10, offset: 0, includeDisabled: true, search };
        return (await directory.listKeys(tenant.id, page)).map(({ name }) => name);
      };
      expect(await found('aCME')).toEqual(['Acme Ltd']);
      expect(await found('ltd  12…')).toEqual(['Acme Ltd']);
      expect(await found('ltd 34…')).toEqual([]);
      expect(await found('zoë')).toEqual(['Zoë']);
      expect(await found('ab')).toEqual(['Acme Ltd', 'Zoë']);
      expect(await found(id.slice(0, 9))).toEqual(['Acme Ltd']);
      expect(await found('begin')).toEqual(['begin 50%_off']);
      expect(await found('0%_o')).toEqual(['begin 50%_off']);
      expect(await found('5%f')).toEqual([]);
      expect(await found('!')).toEqual([]);
    });

    test('lists disabled keys only on request and always counts them', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      await addedKey(tenant.id, { disabled: true });
      const page = { limit: 10, offset: 0 };
      const live = await directory.listKeys(tenant.id, { ...page, includeDisabled: false });
      const all = await directory.listKeys(tenant.id, { ...page, includeDisabled: true });
      expect(live.map((listed) => listed.id)).toEqual([key.id]);
      expect(all).toHaveLength(2);
      expect(await directory.countKeys(tenant.id)).toBe(2);
    });
  });

  describe('rotateKey', () => {
    test('keeps the previous secret valid until its expiry', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'sk-tg-new…', previousSecretExpiresAt: 5_000 };
      const rotated = await directory.rotateKey(tenant.id, key.id, secret, 42);
      expect(rotated).toEqual({ ...key, label: secret.label, updatedAt: 42 });
      expect(await otherDirectory.findKey(secret.hash)).toMatchObject({
        key: { id: key.id },
        hash: secret.hash,
        secretExpiresAt: null,
      });
      expect(await otherDirectory.findKey(hash)).toMatchObject({
        key: { id: key.id },
        hash,
        secretExpiresAt: 5_000,
      });
    });

    test('invalidates the previous secret immediately if there is no overlap', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', previousSecretExpiresAt: 42 };
      await directory.rotateKey(tenant.id, key.id, secret, 42);
      expect(await otherDirectory.findKey(hash)).toBeUndefined();
      expect((await otherDirectory.findKey(secret.hash))?.key.id).toBe(key.id);
    });

    test('invalidates the first secret after a second rotation', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const second = { hash: randomHash(), label: 'two', previousSecretExpiresAt: 5_000 };
      const third = { hash: randomHash(), label: 'three', previousSecretExpiresAt: 6_000 };
      await directory.rotateKey(tenant.id, key.id, second, 1);
      await directory.rotateKey(tenant.id, key.id, third, 2);
      expect(await directory.findKey(hash)).toBeUndefined();
      expect((await directory.findKey(second.hash))?.secretExpiresAt).toBe(6_000);
      expect((await directory.findKey(third.hash))?.secretExpiresAt).toBeNull();
    });

    test('prefers the key with the current secret over one with the same previous secret', async () => {
      const tenant = await addedTenant();
      const { key: old, hash } = await addedKey(tenant.id, { id: `key_0${tenant.id}` });
      const secret = { hash: randomHash(), label: 'new', previousSecretExpiresAt: 5_000 };
      await directory.rotateKey(tenant.id, old.id, secret, 1);
      const newer = makeKey(tenant.id);
      expect(await directory.addKey(newer, hash)).toBe('added');
      expect(await directory.findKey(hash)).toMatchObject({
        key: { id: newer.id },
        secretExpiresAt: null,
      });
    });
  });

  describe('deleteKey', () => {
    test('removes the key and both of its secrets from every lookup', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = {
        hash: randomHash(),
        label: 'new',
        previousSecretExpiresAt: 9_999_999_999_999,
      };
      await directory.rotateKey(tenant.id, key.id, secret, 1);
      expect(await directory.deleteKey(tenant.id, key.id, 2)).toBe(true);

      expect(await otherDirectory.findKey(hash)).toBeUndefined();
      expect(await otherDirectory.findKey(secret.hash)).toBeUndefined();
      expect(await directory.getKey(tenant.id, key.id)).toBeUndefined();
      expect(await directory.countKeys(tenant.id)).toBe(0);
      const page = { limit: 10, offset: 0, includeDisabled: true };
      expect(await directory.listKeys(tenant.id, page)).toEqual([]);
      expect(await directory.changeKey(tenant.id, key.id, { name: 'x' }, 3)).toBeUndefined();
      expect(await directory.rotateKey(tenant.id, key.id, secret, 3)).toBeUndefined();
    });

    test('deletes a key once and never reuses its ID', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      expect(await directory.deleteKey(tenant.id, key.id, 1)).toBe(true);
      expect(await directory.deleteKey(tenant.id, key.id, 2)).toBe(false);
      expect(await directory.addKey(key, randomHash())).toBe('exists');
    });

    test('keeps the row without its secrets, so that logs can still name the key', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      const secret = {
        hash: randomHash(),
        label: 'new',
        previousSecretExpiresAt: 9_999_999_999_999,
      };
      await directory.rotateKey(tenant.id, key.id, secret, 1);
      await directory.deleteKey(tenant.id, key.id, 77);
      const row = await stores.one.database.read
        .selectFrom('api_keys')
        .select(['name', 'deleted_at', 'secret_hash', 'previous_hash'])
        .where('id', '=', key.id)
        .executeTakeFirst();
      expect(row).toEqual({
        name: key.name,
        deleted_at: 77,
        secret_hash: null,
        previous_hash: null,
      });
    });
  });

  test('addKey keeps to the maximum under concurrent calls of several processes', async () => {
    const tenant = await addedTenant();
    await addedKey(tenant.id);
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        (index % 2 ? directory : otherDirectory).addKey(makeKey(tenant.id), randomHash(), 4),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'added')).toHaveLength(3);
    expect(outcomes.filter((outcome) => outcome === 'full')).toHaveLength(9);
    expect(await directory.countKeys(tenant.id)).toBe(4);
  });

  test("changeKey can't enable a key that the operator disabled at the same time", async () => {
    const tenant = await addedTenant();
    const { key } = await addedKey(tenant.id);
    const byOperator = { disabled: true, disabledByOperator: true };
    await directory.changeKey(tenant.id, key.id, byOperator, 1);
    expect(await directory.changeKey(tenant.id, key.id, { disabled: false }, 2)).toMatchObject(
      byOperator,
    );
    const enabled = { disabled: false, disabledByOperator: false };
    const changed = await directory.changeKey(tenant.id, key.id, enabled, 3);
    expect(changed).toEqual({ ...key, disabled: false, updatedAt: 3 });
  });

  describe('purgeUnusedKeys', () => {
    test('removes keys that were deleted long ago and never used, and no others', async () => {
      const tenant = await addedTenant();
      const add = async () => (await addedKey(tenant.id)).key.id;
      const [unused, recent, used] = [await add(), await add(), await add()];
      const [limited, live] = [await add(), await add()];
      await directory.markUsed(new Map([[used, 5]]));
      await stores.one.database.write
        .insertInto('accounts')
        .values({ tenant_id: tenant.id, owner: `key:${limited}:2026-11-01` })
        .execute();
      for (const id of [unused, used, limited]) await directory.deleteKey(tenant.id, id, 100);
      await directory.deleteKey(tenant.id, recent, 200);
      await directory.purgeUnusedKeys(200);
      const rows = await stores.one.database.read
        .selectFrom('api_keys')
        .select('id')
        .where('tenant_id', '=', tenant.id)
        .execute();
      expect(rows.map(({ id }) => id).toSorted()).toEqual([recent, used, limited, live].toSorted());
    });
  });

  describe('markUsed', () => {
    test('only moves the time of last use forward, and does not change the version', async () => {
      const tenant = await addedTenant();
      const { key: one } = await addedKey(tenant.id);
      const { key: two } = await addedKey(tenant.id, { lastUsedAt: 500 });
      const version = await directory.version();
      await directory.markUsed(
        new Map([
          [one.id, 100],
          [two.id, 400],
          ['key_unknown', 1],
        ]),
      );
      await directory.markUsed(new Map());
      expect((await directory.getKey(tenant.id, one.id))?.lastUsedAt).toBe(100);
      expect((await directory.getKey(tenant.id, two.id))?.lastUsedAt).toBe(500);
      expect((await directory.getKey(tenant.id, one.id))?.updatedAt).toBe(one.updatedAt);
      expect(await directory.version()).toBe(version);
    });

    test('marks more keys than fit into one statement', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      const marks = new Map(Array.from({ length: 2_500 }, (_, i) => [`key_no${i}`, 1]));
      marks.set(key.id, 7);
      await directory.markUsed(marks);
      expect((await directory.getKey(tenant.id, key.id))?.lastUsedAt).toBe(7);
    });
  });

  describe('adminTokenHash', () => {
    test('returns undefined at first, then the hash that was set last', async () => {
      expect(await directory.adminTokenHash()).toBeUndefined();
      const [first, second] = [randomHash(), randomHash()];
      await directory.setAdminTokenHash(first);
      expect(await otherDirectory.adminTokenHash()).toEqual(first);
      await otherDirectory.setAdminTokenHash(second);
      expect(await directory.adminTokenHash()).toEqual(second);
    });
  });

  describe('version', () => {
    test('increases with every change, in every process', async () => {
      const tenant = makeTenant();
      const key = makeKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', previousSecretExpiresAt: 1 };
      const changes = [
        () => directory.addTenant(tenant),
        () => directory.changeTenant(tenant.id, { name: 'new' }, 1),
        () => directory.addKey(key, randomHash()),
        () => directory.changeKey(tenant.id, key.id, { name: 'new' }, 1),
        () => directory.rotateKey(tenant.id, key.id, secret, 1),
        () => directory.deleteKey(tenant.id, key.id, 1),
        () => directory.setAdminTokenHash(randomHash()),
      ];
      for (const change of changes) {
        const before = await otherDirectory.version();
        await change();
        expect(await otherDirectory.version()).toBe(before + 1);
      }
    });

    test('tells which tenants changed between two versions', async () => {
      const [one, two] = [await addedTenant(), await addedTenant()];
      const first = await directory.version();
      const { key } = await addedKey(one.id);
      await directory.changeKey(one.id, key.id, { name: 'new' }, 1);
      await otherDirectory.changeTenant(two.id, { name: 'new' }, 1);
      const last = await directory.version();
      expect(await otherDirectory.tenantsChanged(first, last)).toEqual(new Set([one.id, two.id]));
      expect(await directory.tenantsChanged(first, last - 1)).toEqual(new Set([one.id]));
      await directory.setAdminTokenHash(randomHash());
      expect(await directory.tenantsChanged(first, last + 1)).toBeNull();
    });

    test('concerns all tenants if it was counted by a process of an earlier version', async () => {
      const tenant = await addedTenant();
      const first = await directory.version();
      await stores.one.database.write
        .updateTable('changes')
        .set((eb) => ({ version: eb('version', '+', 1) }))
        .execute();
      await directory.changeTenant(tenant.id, { name: 'new' }, 1);
      expect(await directory.tenantsChanged(first, first + 2)).toBeNull();
    });

    test('does not change if a call changed nothing', async () => {
      const before = await directory.version();
      const secret = { hash: randomHash(), label: 'new', previousSecretExpiresAt: 1 };
      await directory.changeTenant('ten_nobody', { name: 'x' }, 1);
      await directory.changeKey('ten_nobody', 'key_none', { name: 'x' }, 1);
      await directory.rotateKey('ten_nobody', 'key_none', secret, 1);
      await directory.deleteKey('ten_nobody', 'key_none', 1);
      expect(await directory.version()).toBe(before);
    });

    test('counts each of 20 concurrent changes', async () => {
      const before = await directory.version();
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          (i % 2 ? directory : otherDirectory).addTenant(makeTenant()),
        ),
      );
      expect(await directory.version()).toBe(before + 20);
    });
  });
});
