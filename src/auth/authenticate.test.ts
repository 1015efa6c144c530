import { beforeEach, describe, expect, test } from 'bun:test';
import { makeKey, makeTenant } from '../../tests/contracts/engines.ts';
import { negativeKeyMs, negativeKeysMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import { generateAdminToken, generateKey, hashKey } from './api-key.ts';
import { Authenticator, callerForKey } from './authenticate.ts';
import { type ApiKey, type KeyMatch, type Tenant, unrestricted } from './tenant-directory.ts';

const start = Date.UTC(2026, 10, 15, 12);

const tenant: Tenant = {
  id: 'acme',
  name: 'Acme',
  disabled: false,
  requestsPerMinute: 60,
  concurrentRequests: 4,
  plan: null,
  createdAt: start,
  updatedAt: start,
};

function record(id: string): ApiKey {
  return {
    id,
    tenantId: tenant.id,
    kind: 'routing',
    label: 'sk-tg-ab12…9f',
    name: 'app',
    disabled: false,
    ...unrestricted,
    createdAt: start,
    updatedAt: start,
    lastUsedAt: null,
  };
}

/** A store that counts its requests and lets a test delay its answers. */
class Store {
  readonly matches = new Map<string, KeyMatch>();
  readonly marked: (readonly [string, number])[] = [];
  adminHash: Uint8Array | undefined;
  requests = 0;
  batches = 0;
  /** Delays answers. Each answer has the state from before the delay. */
  gate: Promise<void> = Promise.resolve();
  failure: Error | undefined;

  async findKey(hash: Uint8Array): Promise<KeyMatch | undefined> {
    return this.#answer(this.matches.get(hash.toHex()));
  }

  async adminTokenHash(): Promise<Uint8Array | undefined> {
    return this.#answer(this.adminHash);
  }

  async purgeUnusedKeys(): Promise<void> {}

  async markUsed(lastUsed: ReadonlyMap<string, number>): Promise<void> {
    if (this.failure) throw this.failure;
    this.batches++;
    this.marked.push(...lastUsed);
  }

  async #answer<T>(answer: T): Promise<T> {
    this.requests++;
    const { failure } = this;
    await this.gate;
    if (failure) throw failure;
    return answer;
  }
}

let store: Store;
let time: number;
let authenticator: Authenticator;
beforeEach(() => {
  store = new Store();
  time = start;
  authenticator = new Authenticator(store, () => time);
});

function addKey(change: Partial<ApiKey> = {}, match: Partial<KeyMatch> = {}): string {
  const { id, text, hash } = generateKey('routing');
  const key = { ...record(id), ...change };
  store.matches.set(hash.toHex(), { key, tenant, hash, secretExpiresAt: null, ...match });
  return text;
}

/** Returns the caller's key ID, or the status and message of the error. */
async function outcome(key: string): Promise<string> {
  try {
    return (await authenticator.authenticate(key)).keyId;
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

const unknown = "401 The API key isn't valid. Check that it's complete and hasn't been deleted.";

describe('Authenticator', () => {
  test('uses the limits of the tenant for a key without its own limits', async () => {
    const plain = await authenticator.authenticate(addKey());
    expect(plain).toMatchObject({ tenantId: 'acme', kind: 'routing', requestsPerMinute: 60 });
    expect([plain.concurrentRequests, plain.expiresAt]).toEqual([4, null]);
    const own = await authenticator.authenticate(addKey({ requestsPerMinute: 5 }));
    expect(own.requestsPerMinute).toBe(5);
    expect(Object.isFrozen(own)).toBe(true);
  });

  test.each([
    [90, 60, 60],
    [30, 60, 30],
    [30, null, 30],
    [null, null, null],
  ])(
    'combines the rate limits %p of a key and %p of its tenant to %p',
    async (own, ofTenant, expected) => {
      const match = { tenant: { ...tenant, requestsPerMinute: ofTenant } };
      const caller = await authenticator.authenticate(addKey({ requestsPerMinute: own }, match));
      expect(caller.requestsPerMinute).toBe(expected);
    },
  );

  test('looks up a key once and then returns its caller synchronously', async () => {
    const key = addKey();
    const first = await authenticator.authenticate(key);
    expect(authenticator.authenticate(key)).toBe(first);
    expect(store.requests).toBe(1);
  });

  test('caches several keys at the same time', async () => {
    const keys = [addKey(), addKey(), addKey()];
    for (const key of [...keys, ...keys]) await outcome(key);
    expect(store.requests).toBe(3);
  });

  test.each([
    ['disabled key', { disabled: true }, {}, '401 This API key is disabled.'],
    [
      'key of a disabled tenant',
      {},
      { tenant: { ...tenant, disabled: true } },
      '401 This account is disabled.',
    ],
  ])('rejects a %s, also from its cache', async (_, change, match, rejection) => {
    const key = addKey(change, match);
    expect(await outcome(key)).toBe(rejection);
    expect(await outcome(key)).toBe(rejection);
    expect(store.requests).toBe(1);
  });

  test('rejects a key if the store returns the record of another secret', async () => {
    const key = addKey({}, { hash: hashKey('something else') });
    expect(await outcome(key)).toBe(unknown);
  });
});

describe('Authenticator with expiring keys', () => {
  test('rejects a cached key once it has expired, without a new lookup', async () => {
    const key = addKey({ id: 'key_1', expiresAt: start + 1_000 });
    expect(await outcome(key)).toBe('key_1');
    time = start + 999;
    expect(await outcome(key)).toBe('key_1');
    time = start + 1_000;
    expect(await outcome(key)).toBe('401 This API key expired at 2026-11-15T12:00:01.000Z.');
    expect(store.requests).toBe(1);
  });

  test('rejects an expired previous secret although its key is still valid', async () => {
    const key = addKey({ id: 'key_1', expiresAt: start + 9_000 }, { secretExpiresAt: start + 10 });
    expect(await outcome(key)).toBe('key_1');
    time = start + 10;
    expect(await outcome(key)).toStartWith('401 This API key expired');
  });

  test('rejects an expired key although its previous secret would still be valid', async () => {
    const key = addKey({ expiresAt: start + 10 }, { secretExpiresAt: start + 9_000 });
    time = start + 10;
    expect(await outcome(key)).toStartWith('401 This API key expired');
  });
});

describe('Authenticator with unknown keys', () => {
  test('caches unknown keys briefly, so that retries do not reach the store', async () => {
    const { text } = generateKey('routing');
    for (let i = 0; i < 100; i++) expect(await outcome(text)).toBe(unknown);
    expect(store.requests).toBe(1);
    time = start + negativeKeyMs;
    expect(await outcome(text)).toBe(unknown);
    expect(store.requests).toBe(2);
  });

  test('looks up each key once for concurrent requests', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const good = addKey();
    const bad = generateKey('routing').text;
    const burst = [good, bad, good, bad, bad, good].map(outcome);
    resolve();
    const id = `key_${good.slice(6, 22)}`;
    expect(await Promise.all(burst)).toEqual([id, unknown, id, unknown, unknown, id]);
    expect(store.requests).toBe(2);
  });

  test('looks up a key again if it was created during the first lookup', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const { id, text, hash } = generateKey('routing');
    const early = outcome(text);
    store.matches.set(hash.toHex(), { key: record(id), tenant, hash, secretExpiresAt: null });
    authenticator.forget();
    const late = outcome(text);
    resolve();
    expect([await early, await late]).toEqual([unknown, id]);
    expect(await outcome(text)).toBe(id);
    expect(store.requests).toBe(2);
  });

  test('rejects text without a Tollgate prefix without a lookup', async () => {
    for (const text of ['', 'hello', 'sk-proj-123', 'Sk-tg-1']) {
      expect(await outcome(text)).toMatch(/^401 Not a Tollgate key\. .* sk-tg-/);
    }
    expect(store.requests).toBe(0);
  });

  test('evicts the oldest unknown key when the cache is full', async () => {
    const keys = Array.from({ length: negativeKeysMax + 1 }, (_, i) => `sk-tg-${i}`);
    for (const key of keys) await outcome(key);
    expect(store.requests).toBe(keys.length);
    await outcome(keys.at(-1) ?? '');
    expect(store.requests).toBe(keys.length);
    await outcome(keys[0] ?? '');
    expect(store.requests).toBe(keys.length + 1);
  });
});

describe('Authenticator.forget', () => {
  test('looks up only the keys of the tenants that changed', async () => {
    const [changed, other] = [generateKey('routing'), generateKey('routing')];
    for (const [{ id, hash }, tenantId] of [
      [changed, 'changed'],
      [other, 'other'],
    ] as const) {
      const key = { ...record(id), tenantId };
      const match = { key, tenant: { ...tenant, id: tenantId }, hash, secretExpiresAt: null };
      store.matches.set(hash.toHex(), match);
    }
    expect([await outcome(changed.text), await outcome(other.text)]).toEqual([
      changed.id,
      other.id,
    ]);
    expect(store.requests).toBe(2);
    authenticator.forget(new Set(['changed']));
    expect([await outcome(changed.text), await outcome(other.text)]).toEqual([
      changed.id,
      other.id,
    ]);
    expect(store.requests).toBe(3);
  });

  test('makes the next requests see revoked and new keys', async () => {
    const key = addKey({ id: 'key_1' });
    const late = generateKey('routing');
    expect(await outcome(key)).toBe('key_1');
    expect(await outcome(late.text)).toBe(unknown);

    store.matches.clear();
    const { hash, text } = late;
    const match = { key: record('key_2'), tenant, hash, secretExpiresAt: null };
    store.matches.set(hash.toHex(), match);
    authenticator.forget();
    expect(await outcome(key)).toBe(unknown);
    expect(await outcome(text)).toBe('key_2');
  });

  test('does not cache a lookup that started before the revocation', async () => {
    const key = addKey({ id: 'key_1' });
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const early = outcome(key);
    store.matches.clear();
    authenticator.forget();
    resolve();
    // The first request arrived before the revocation, the second after it.
    expect(await early).toBe('key_1');
    expect(await outcome(key)).toBe(unknown);
  });

  test('does not cache a failed lookup that started before the key was created', async () => {
    const { id, text, hash } = generateKey('routing');
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const early = outcome(text);
    store.matches.set(hash.toHex(), { key: record(id), tenant, hash, secretExpiresAt: null });
    authenticator.forget();
    resolve();
    expect(await early).toBe(unknown);
    expect(await outcome(text)).toBe(id);
  });
});

describe('Authenticator.refreshKeysInUse', () => {
  /** Does what the gateway does when it detects a change, before the next request. */
  const noticeChange = async () => {
    authenticator.forget();
    await authenticator.refreshKeysInUse();
  };

  test('looks up a key in use right away, so that its next request succeeds without the store', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    await noticeChange();
    store.failure = new Error('away');
    expect(await outcome(key)).toBe('key_1');
    // If this lookup fails, the next request starts another one.
    await noticeChange();
    store.failure = undefined;
    expect(await outcome(key)).toBe('key_1');
  });

  test('looks up a key after two changes in a row', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    authenticator.forget();
    await noticeChange();
    store.failure = new Error('away');
    expect(await outcome(key)).toBe('key_1');
  });

  test('makes the next request reject a revoked key without another lookup', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    store.matches.clear();
    await noticeChange();
    expect(await outcome(key)).toBe(unknown);
    expect(store.requests).toBe(2);
  });

  test('shares its lookup with concurrent requests', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    authenticator.forget();
    const early = outcome(key);
    const refreshed = authenticator.refreshKeysInUse();
    expect(await Promise.all([early, outcome(key)])).toEqual(['key_1', 'key_1']);
    await refreshed;
    expect(store.requests).toBe(2);
  });

  test('does not count as a use of the key', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    await authenticator.markUsed();
    time = start + 599_999;
    await noticeChange();
    expect(store.requests).toBe(2);
    await authenticator.markUsed();
    expect(store.marked).toEqual([['key_1', start]]);
    time = start + 600_000;
    await noticeChange();
    expect(store.requests).toBe(2);
  });

  test('returns the tenants and looks up 2,000 keys at most', async () => {
    for (let count = 0; count < 2_001; count++) await outcome(addKey());
    authenticator.forget();
    expect(await authenticator.refreshKeysInUse()).toEqual(['acme']);
    expect(store.requests).toBe(4_001);
    expect(await authenticator.refreshKeysInUse()).toEqual([]);
    expect(store.requests).toBe(4_001);
  });

  test('runs as a periodic task that passes on the tenants', async () => {
    await outcome(addKey());
    authenticator.forget();
    const tenants: string[] = [];
    const tasks = authenticator.periodicTasks(async (tenantIds) => {
      tenants.push(...tenantIds);
    });
    for (const { run } of tasks) await run();
    expect(tenants).toEqual(['acme']);
    expect(store.requests).toBe(2);
  });

  test('looks up keys once after many changes', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    for (let change = 0; change < 10; change++) {
      authenticator.forget();
      await Bun.sleep(0);
    }
    expect(store.requests).toBe(1);
    await authenticator.refreshKeysInUse();
    store.failure = new Error('away');
    expect(await outcome(key)).toBe('key_1');
  });

  test('looks up 256 keys per batch and stops when another change occurs', async () => {
    for (let count = 0; count < 300; count++) await outcome(addKey());
    authenticator.forget();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    const refreshed = authenticator.refreshKeysInUse();
    expect(store.requests).toBe(300 + 256);
    authenticator.forget();
    gate.resolve();
    expect(await refreshed).toEqual([]);
    expect(store.requests).toBe(300 + 256);
    expect(await authenticator.refreshKeysInUse()).toEqual(['acme']);
    expect(store.requests).toBe(300 + 256 + 300);
  });
});

describe('Authenticator.isAdmin', () => {
  test('recognizes the admin token and looks it up once', async () => {
    const token = generateAdminToken();
    store.adminHash = hashKey(token);
    expect(await authenticator.isAdmin(token)).toBe(true);
    expect(await authenticator.isAdmin(generateAdminToken())).toBe(false);
    expect(store.requests).toBe(1);
  });

  test('rejects a replaced token as soon as the change is noticed', async () => {
    const [old, next] = [generateAdminToken(), generateAdminToken()];
    store.adminHash = hashKey(old);
    expect(await authenticator.isAdmin(old)).toBe(true);
    store.adminHash = hashKey(next);
    authenticator.forget();
    expect(await authenticator.isAdmin(old)).toBe(false);
    expect(await authenticator.isAdmin(next)).toBe(true);
  });

  test('rejects every token while none is stored', async () => {
    for (let i = 0; i < 3; i++) {
      expect(await authenticator.isAdmin(generateAdminToken())).toBe(false);
    }
    expect(store.requests).toBe(1);
  });

  test("rejects a tenant's key even if its hash is stored as the admin token", async () => {
    const key = addKey();
    store.adminHash = hashKey(key);
    expect(await authenticator.isAdmin(key)).toBe(false);
  });

  test('does not cache a token that was replaced during its lookup', async () => {
    const old = generateAdminToken();
    store.adminHash = hashKey(old);
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const early = authenticator.isAdmin(old);
    store.adminHash = hashKey(generateAdminToken());
    authenticator.forget();
    resolve();
    expect(await early).toBe(true);
    expect(await authenticator.isAdmin(old)).toBe(false);
  });
});

describe('Authenticator while the store is unreachable', () => {
  test('accepts cached keys and returns 503 for others', async () => {
    const known = addKey({ id: 'key_1' });
    const other = addKey({ id: 'key_2' });
    await outcome(known);
    store.failure = new Error('password authentication failed');
    expect(await outcome(known)).toBe('key_1');
    expect(await outcome(other)).toBe(
      '503 The key store is unreachable right now. Send the request again shortly.',
    );
    await expect(authenticator.isAdmin(generateAdminToken())).rejects.toMatchObject({
      message: expect.stringContaining('is unreachable'),
      retryAfterSeconds: 2,
    });
    store.failure = undefined;
    expect(await outcome(other)).toBe('key_2');
  });

  test('drops the times of last use without an error', async () => {
    await outcome(addKey());
    store.failure = new Error('away');
    expect(await authenticator.markUsed()).toBeUndefined();
    store.failure = undefined;
    await authenticator.markUsed();
    expect(store.batches).toBe(0);
  });
});

test('Authenticator.markUsed writes the last use of each key in one batch', async () => {
  const [one, two, rejected] = [
    addKey({ id: 'key_1' }),
    addKey({ id: 'key_2' }),
    addKey({ disabled: true }),
  ];
  for (const key of [one, two, rejected]) await outcome(key);
  time = start + 50;
  await outcome(one);
  await authenticator.markUsed();
  expect(store.marked).toEqual([
    ['key_1', start + 50],
    ['key_2', start],
  ]);
  await authenticator.markUsed();
  expect([store.marked.length, store.batches]).toEqual([2, 1]);
  await outcome(two);
  await authenticator.markUsed();
  expect(store.marked.slice(2)).toEqual([['key_2', start + 50]]);
});

/** Returns the caller for a job, or the message of the error. */
async function jobOutcome(key: ApiKey | undefined, tenant: Tenant | undefined): Promise<string> {
  const directory = { getKey: async () => key, getTenant: async () => tenant };
  try {
    const { tenantId, keyId } = await callerForKey(directory, 'ten_1', 'key_1', start);
    return `${tenantId} ${keyId}`;
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}

describe('callerForKey', () => {
  const tenant = makeTenant({ id: 'ten_1' });
  const keyOf = (change: Partial<ApiKey> = {}) =>
    makeKey('ten_1', { id: 'key_1', scopes: ['jobs'], ...change });

  test('returns the caller for a valid key', async () => {
    expect(await jobOutcome(keyOf(), tenant)).toBe('ten_1 key_1');
    expect(await jobOutcome(keyOf({ expiresAt: start + 1 }), tenant)).toBe('ten_1 key_1');
  });

  test('rejects a deleted, disabled, or expired key and keys of a disabled tenant', async () => {
    const deleted = 'The API key of this job has been deleted.';
    expect(await jobOutcome(undefined, tenant)).toBe(deleted);
    expect(await jobOutcome(keyOf(), undefined)).toBe(deleted);
    expect(await jobOutcome(keyOf({ disabled: true }), tenant)).toBe('This API key is disabled.');
    const closed = { ...tenant, disabled: true };
    expect(await jobOutcome(keyOf(), closed)).toBe('This account is disabled.');
    const expired = 'The API key of this job has expired.';
    expect(await jobOutcome(keyOf({ expiresAt: start }), tenant)).toBe(expired);
  });

  test('rejects a key that has lost the scope "jobs"', async () => {
    expect(await jobOutcome(keyOf({ scopes: ['chat', 'jobs'] }), tenant)).toBe('ten_1 key_1');
    const missingScope = 'The API key of this job no longer has the scope "jobs".';
    expect(await jobOutcome(keyOf({ scopes: ['chat', 'audio'] }), tenant)).toBe(missingScope);
  });
});
