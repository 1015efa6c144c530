import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { Directory } from '../../src/auth/directory.ts';
import type { Scope } from '../../src/core/caller.ts';
import { engines, makeKey, makeTenant, openTwice, randomHash, type TwoStores } from './engines.ts';
import { failureOf } from './failure-of.ts';

describe.each([...engines])('the directory on $name', ({ empty }) => {
  let stores: TwoStores;
  let directory: Directory;
  let elsewhere: Directory;

  beforeAll(async () => {
    stores = await openTwice(empty);
    directory = stores.one.directory;
    elsewhere = stores.other.directory;
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

  describe('tenants', () => {
    test('a tenant comes back exactly as it was added, in every process', async () => {
      const tenant = await addedTenant();
      expect(await directory.getTenant(tenant.id)).toEqual(tenant);
      expect(await elsewhere.getTenant(tenant.id)).toEqual(tenant);
    });

    test('a second tenant of the same id is refused and changes nothing', async () => {
      const tenant = await addedTenant();
      const version = await directory.version();
      expect(await directory.addTenant({ ...tenant, name: 'Impostor' })).toBe('exists');
      expect(await directory.getTenant(tenant.id)).toEqual(tenant);
      expect(await directory.version()).toBe(version);
    });

    test('twenty processes adding the same tenant at once add it once', async () => {
      const tenant = makeTenant();
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) => (i % 2 ? directory : elsewhere).addTenant(tenant)),
      );
      expect(outcomes.filter((outcome) => outcome === 'added')).toHaveLength(1);
    });

    test('a new tenant has an empty wallet', async () => {
      const tenant = await addedTenant();
      expect(await stores.one.creditStore.balance(tenant.id)).toEqual({ balance: 0, leased: 0 });
    });

    test('a change touches only what it names', async () => {
      const tenant = await addedTenant();
      const changed = await directory.changeTenant(tenant.id, { disabled: true }, 42);
      expect(changed).toEqual({ ...tenant, disabled: true, updatedAt: 42 });
      expect(await directory.getTenant(tenant.id)).toEqual({
        ...tenant,
        disabled: true,
        updatedAt: 42,
      });
    });

    test('a limit can be taken away again', async () => {
      const tenant = await addedTenant();
      await directory.changeTenant(tenant.id, { requestsPerMinute: null }, 42);
      expect((await directory.getTenant(tenant.id))?.requestsPerMinute).toBeNull();
    });

    test('an unknown tenant is absent', async () => {
      expect(await directory.getTenant('ten_nobody')).toBeUndefined();
      expect(await directory.changeTenant('ten_nobody', { name: 'x' }, 1)).toBeUndefined();
    });

    test('pages list tenants oldest first, ties by the bytes of their ids', async () => {
      // Born before every other tenant of this suite, so that they come first.
      const ids = ['ten_B', 'ten_a', 'ten_C', 'ten_b'];
      for (const id of ids) await directory.addTenant(makeTenant({ id, createdAt: 1 }));
      await directory.addTenant(makeTenant({ id: 'ten_Z', createdAt: 0 }));
      const first = await directory.listTenants({ limit: 2, offset: 0 });
      const second = await directory.listTenants({ limit: 3, offset: 2 });
      const listed = [...first, ...second].map((tenant) => tenant.id);
      expect(listed).toEqual(['ten_Z', 'ten_B', 'ten_C', 'ten_a', 'ten_b']);
    });
  });

  describe('keys', () => {
    test('a key comes back exactly as it was added', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      expect(await elsewhere.getKey(tenant.id, key.id)).toEqual(key);
    });

    test('absent limits and lists stay absent, and empty lists stay empty', async () => {
      const tenant = await addedTenant();
      const none = { limitCredits: null, limitReset: null, models: null, scopes: null };
      const rest = { requestsPerMinute: null, cacheMode: null, expiresAt: null };
      const { key: bare } = await addedKey(tenant.id, { ...none, ...rest });
      const { key: closed } = await addedKey(tenant.id, { models: [], scopes: [] });
      expect(await directory.getKey(tenant.id, bare.id)).toEqual(bare);
      expect(await directory.getKey(tenant.id, closed.id)).toEqual(closed);
    });

    test('a secret finds its key, its tenant and its stored hash', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const match = await elsewhere.findKey(hash);
      expect(match).toEqual({ key, tenant, hash, secretExpiresAt: null });
      expect(Object.getPrototypeOf(match?.hash)).toBe(Uint8Array.prototype);
    });

    test('thousands of secrets that are asked for at once find each its own', async () => {
      const [one, two] = [await addedTenant(), await addedTenant()];
      const [plain, turned] = [await addedKey(one.id), await addedKey(two.id)];
      const secret = { hash: randomHash(), label: 'sk-tg-cd34…0a', oldUntil: 5_000 };
      await directory.rotateKey(two.id, turned.key.id, secret, 42);
      const asked = Array.from({ length: 2_000 }, randomHash);
      asked.splice(0, 1, plain.hash);
      asked.splice(700, 1, turned.hash);
      asked.splice(1_999, 1, secret.hash);
      const found = await Promise.all(asked.map((hash) => elsewhere.findKey(hash)));
      const told = found.map((match, at) => match && [at, match.key.id, match.tenant.id]);
      expect(told.filter((one) => one !== undefined)).toEqual([
        [0, plain.key.id, one.id],
        [700, turned.key.id, two.id],
        [1_999, turned.key.id, two.id],
      ]);
      expect([found[700]?.secretExpiresAt, found[1_999]?.secretExpiresAt]).toEqual([5_000, null]);
    });

    test('ten thousand secrets may wait behind one, and no more', async () => {
      const asked = Array.from({ length: 10_100 }, () => elsewhere.findKey(randomHash()));
      const ends = (await Promise.allSettled(asked)).map(({ status }) => status);
      expect(ends.filter((end) => end === 'fulfilled')).toHaveLength(10_001);
      expect(ends.at(-1)).toBe('rejected');
      expect(await elsewhere.findKey(randomHash())).toBeUndefined();
    });

    test('a key of a newer version keeps none of those from being found beside it', async () => {
      const tenant = await addedTenant();
      const newer = await addedKey(tenant.id, { scopes: ['video' as Scope] });
      const known = await addedKey(tenant.id);
      // The first is asked for alone; these share the next query.
      const asked = [randomHash(), newer.hash, known.hash].map((hash) => elsewhere.findKey(hash));
      const [stranger, refused, found] = await Promise.allSettled(asked);
      expect(stranger).toEqual({ status: 'fulfilled', value: undefined });
      expect(refused).toMatchObject({ status: 'rejected' });
      expect(found).toMatchObject({ status: 'fulfilled', value: { key: known.key } });
    });

    test('every byte value survives in a hash, and a near miss finds nothing', async () => {
      const tenant = await addedTenant();
      for (let start = 0; start < 256; start += 32) {
        const hash = Uint8Array.from({ length: 32 }, (_, i) => start + i);
        await directory.addKey(makeKey(tenant.id), hash);
        expect((await directory.findKey(hash))?.hash).toEqual(hash);
        expect(await directory.findKey(hash.with(31, start))).toBeUndefined();
      }
    });

    test('a hash of the wrong length is refused by the database', async () => {
      const tenant = await addedTenant();
      const short = new Uint8Array(31);
      expect((await failureOf(directory.addKey(makeKey(tenant.id), short))).message).toMatch(
        /check|CHECK/,
      );
    });

    test('the same id or the same secret twice is refused and changes nothing', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const version = await directory.version();
      expect(await directory.addKey({ ...key, name: 'again' }, randomHash())).toBe('exists');
      expect(await directory.addKey(makeKey(tenant.id), hash)).toBe('exists');
      expect(await directory.countKeys(tenant.id)).toBe(1);
      expect(await directory.getKey(tenant.id, key.id)).toEqual(key);
      expect(await directory.version()).toBe(version);
    });

    test('a key without a tenant is refused by the database', async () => {
      expect(
        (await failureOf(directory.addKey(makeKey('ten_nobody'), randomHash()))).message,
      ).toMatch(/foreign key/i);
    });

    test('a change touches only what it names', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const change = { limitCredits: null, models: ['demo/*'], scopes: null, disabled: true };
      const changed = await directory.changeKey(tenant.id, key.id, change, 42);
      expect(changed).toEqual({ ...key, ...change, updatedAt: 42 });
      expect((await directory.findKey(hash))?.key).toEqual({ ...key, ...change, updatedAt: 42 });
    });

    test('another tenant’s key is as absent as no key', async () => {
      const owner = await addedTenant();
      const stranger = await addedTenant();
      const { key, hash } = await addedKey(owner.id);
      const secret = { hash: randomHash(), label: 'stolen', oldUntil: 0 };
      expect(await directory.getKey(stranger.id, key.id)).toBeUndefined();
      expect(await directory.changeKey(stranger.id, key.id, { name: 'x' }, 1)).toBeUndefined();
      expect(await directory.rotateKey(stranger.id, key.id, secret, 1)).toBeUndefined();
      expect(await directory.deleteKey(stranger.id, key.id, 1)).toBe(false);
      expect(await directory.countKeys(stranger.id)).toBe(0);
      const page = { limit: 10, offset: 0, includeDisabled: true };
      expect(await directory.listKeys(stranger.id, page)).toEqual([]);
      expect((await directory.findKey(hash))?.key).toEqual(key);
    });

    test('pages list a tenant’s keys oldest first, ties by the bytes of their ids', async () => {
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

    test('keys are found by words of name or label, or by how the id begins', async () => {
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

    test('disabled keys are listed only on request, and always counted', async () => {
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

  describe('rotation', () => {
    test('both secrets find the key, and the old one says until when', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'sk-tg-new…', oldUntil: 5_000 };
      const rotated = await directory.rotateKey(tenant.id, key.id, secret, 42);
      expect(rotated).toEqual({ ...key, label: secret.label, updatedAt: 42 });
      expect(await elsewhere.findKey(secret.hash)).toMatchObject({
        key: { id: key.id },
        hash: secret.hash,
        secretExpiresAt: null,
      });
      expect(await elsewhere.findKey(hash)).toMatchObject({
        key: { id: key.id },
        hash,
        secretExpiresAt: 5_000,
      });
    });

    test('without an overlap nobody finds the old secret, whatever the time is there', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', oldUntil: 42 };
      await directory.rotateKey(tenant.id, key.id, secret, 42);
      expect(await elsewhere.findKey(hash)).toBeUndefined();
      expect((await elsewhere.findKey(secret.hash))?.key.id).toBe(key.id);
    });

    test('a second rotation ends the first secret for good', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const second = { hash: randomHash(), label: 'two', oldUntil: 5_000 };
      const third = { hash: randomHash(), label: 'three', oldUntil: 6_000 };
      await directory.rotateKey(tenant.id, key.id, second, 1);
      await directory.rotateKey(tenant.id, key.id, third, 2);
      expect(await directory.findKey(hash)).toBeUndefined();
      expect((await directory.findKey(second.hash))?.secretExpiresAt).toBe(6_000);
      expect((await directory.findKey(third.hash))?.secretExpiresAt).toBeNull();
    });

    test('a secret that is current somewhere wins over one rotated out elsewhere', async () => {
      const tenant = await addedTenant();
      const { key: old, hash } = await addedKey(tenant.id, { id: `key_0${tenant.id}` });
      const secret = { hash: randomHash(), label: 'new', oldUntil: 5_000 };
      await directory.rotateKey(tenant.id, old.id, secret, 1);
      const reborn = makeKey(tenant.id);
      expect(await directory.addKey(reborn, hash)).toBe('added');
      expect(await directory.findKey(hash)).toMatchObject({
        key: { id: reborn.id },
        secretExpiresAt: null,
      });
    });
  });

  describe('deletion', () => {
    test('a deleted key is gone from every look-up, with both of its secrets', async () => {
      const tenant = await addedTenant();
      const { key, hash } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', oldUntil: 9_999_999_999_999 };
      await directory.rotateKey(tenant.id, key.id, secret, 1);
      expect(await directory.deleteKey(tenant.id, key.id, 2)).toBe(true);

      expect(await elsewhere.findKey(hash)).toBeUndefined();
      expect(await elsewhere.findKey(secret.hash)).toBeUndefined();
      expect(await directory.getKey(tenant.id, key.id)).toBeUndefined();
      expect(await directory.countKeys(tenant.id)).toBe(0);
      const page = { limit: 10, offset: 0, includeDisabled: true };
      expect(await directory.listKeys(tenant.id, page)).toEqual([]);
      expect(await directory.changeKey(tenant.id, key.id, { name: 'x' }, 3)).toBeUndefined();
      expect(await directory.rotateKey(tenant.id, key.id, secret, 3)).toBeUndefined();
    });

    test('a key is deleted once, and its id is never given out again', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      expect(await directory.deleteKey(tenant.id, key.id, 1)).toBe(true);
      expect(await directory.deleteKey(tenant.id, key.id, 2)).toBe(false);
      expect(await directory.addKey(key, randomHash())).toBe('exists');
    });

    test('its row stays without its secrets, so that logs can still name it', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', oldUntil: 9_999_999_999_999 };
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

  describe('last use', () => {
    test('only ever moves forward, and is not a change others must hear of', async () => {
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

    test('more keys than fit one statement are all marked', async () => {
      const tenant = await addedTenant();
      const { key } = await addedKey(tenant.id);
      const marks = new Map(Array.from({ length: 2_500 }, (_, i) => [`key_no${i}`, 1]));
      marks.set(key.id, 7);
      await directory.markUsed(marks);
      expect((await directory.getKey(tenant.id, key.id))?.lastUsedAt).toBe(7);
    });
  });

  describe('the operator’s token', () => {
    test('is absent at first, then the one set last', async () => {
      expect(await directory.adminTokenHash()).toBeUndefined();
      const [first, second] = [randomHash(), randomHash()];
      await directory.setAdminTokenHash(first);
      expect(await elsewhere.adminTokenHash()).toEqual(first);
      await elsewhere.setAdminTokenHash(second);
      expect(await directory.adminTokenHash()).toEqual(second);
    });
  });

  describe('the version', () => {
    test('grows with every change, and the other process sees it', async () => {
      const tenant = makeTenant();
      const key = makeKey(tenant.id);
      const secret = { hash: randomHash(), label: 'new', oldUntil: 1 };
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
        const before = await elsewhere.version();
        await change();
        expect(await elsewhere.version()).toBe(before + 1);
      }
    });

    test('stays when nothing was found to change', async () => {
      const before = await directory.version();
      const secret = { hash: randomHash(), label: 'new', oldUntil: 1 };
      await directory.changeTenant('ten_nobody', { name: 'x' }, 1);
      await directory.changeKey('ten_nobody', 'key_none', { name: 'x' }, 1);
      await directory.rotateKey('ten_nobody', 'key_none', secret, 1);
      await directory.deleteKey('ten_nobody', 'key_none', 1);
      expect(await directory.version()).toBe(before);
    });

    test('counts every one of many changes at once', async () => {
      const before = await directory.version();
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          (i % 2 ? directory : elsewhere).addTenant(makeTenant()),
        ),
      );
      expect(await directory.version()).toBe(before + 20);
    });
  });
});
