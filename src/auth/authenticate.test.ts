import { beforeEach, describe, expect, test } from 'bun:test';
import { negativeKeyMs, negativeKeysMax } from '../core/bounds.ts';
import { GatewayError } from '../core/errors.ts';
import { generateAdminToken, generateKey, hashKey } from './api-key.ts';
import { Authenticator } from './authenticate.ts';
import type { ApiKey, KeyMatch, Tenant } from './directory.ts';

const start = Date.UTC(2026, 10, 15, 12);

const tenant: Tenant = {
  id: 'acme',
  name: 'Acme',
  disabled: false,
  requestsPerMinute: 60,
  concurrentRequests: 4,
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
    limitCredits: null,
    limitReset: null,
    models: null,
    scopes: null,
    requestsPerMinute: null,
    cacheMode: null,
    createdAt: start,
    updatedAt: start,
    expiresAt: null,
    lastUsedAt: null,
  };
}

/** A store whose answers a test can hold back, and which counts how often it was asked. */
class Store {
  readonly matches = new Map<string, KeyMatch>();
  readonly marked: (readonly [string, number])[] = [];
  adminHash: Uint8Array | undefined;
  requests = 0;
  batches = 0;
  /** Answers wait for the gate; what they say was decided before they waited. */
  gate: Promise<void> = Promise.resolve();
  failure: Error | undefined;

  async findKey(hash: Uint8Array): Promise<KeyMatch | undefined> {
    return this.#answer(this.matches.get(hash.toHex()));
  }

  async adminTokenHash(): Promise<Uint8Array | undefined> {
    return this.#answer(this.adminHash);
  }

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

/** The caller's key id, or status and message of the refusal. */
async function outcome(key: string): Promise<string> {
  try {
    return (await authenticator.authenticate(key)).keyId;
  } catch (error) {
    if (error instanceof GatewayError) return `${error.status} ${error.message}`;
    throw error;
  }
}

const unknown = "401 The API key isn't valid. Check that it is complete and has not been deleted.";

describe('a known key', () => {
  test('becomes a caller with its tenant’s limits where it has none of its own', async () => {
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
  ])('of %p requests a minute, its tenant’s being %p, may send %p', async (own, all, expected) => {
    const match = { tenant: { ...tenant, requestsPerMinute: all } };
    const caller = await authenticator.authenticate(addKey({ requestsPerMinute: own }, match));
    expect(caller.requestsPerMinute).toBe(expected);
  });

  test('is asked for once, and then answered without waiting', async () => {
    const key = addKey();
    const first = await authenticator.authenticate(key);
    expect(authenticator.authenticate(key)).toBe(first);
    expect(store.requests).toBe(1);
  });

  test('is not forgotten for others that come after it', async () => {
    const keys = [addKey(), addKey(), addKey()];
    for (const key of [...keys, ...keys]) await outcome(key);
    expect(store.requests).toBe(3);
  });

  test.each([
    ['disabled', { disabled: true }, {}, '401 This API key is disabled.'],
    [
      'of a disabled tenant',
      {},
      { tenant: { ...tenant, disabled: true } },
      '401 This account is disabled.',
    ],
  ])('that is %s is refused, also from memory', async (_, change, match, refusal) => {
    const key = addKey(change, match);
    expect(await outcome(key)).toBe(refusal);
    expect(await outcome(key)).toBe(refusal);
    expect(store.requests).toBe(1);
  });

  test('is refused when the store answers for another secret', async () => {
    const key = addKey({}, { hash: hashKey('something else') });
    expect(await outcome(key)).toBe(unknown);
  });
});

describe('expiry', () => {
  test('takes effect at its moment, without asking the store again', async () => {
    const key = addKey({ id: 'key_1', expiresAt: start + 1_000 });
    expect(await outcome(key)).toBe('key_1');
    time = start + 999;
    expect(await outcome(key)).toBe('key_1');
    time = start + 1_000;
    expect(await outcome(key)).toBe('401 This API key expired at 2026-11-15T12:00:01.000Z.');
    expect(store.requests).toBe(1);
  });

  test('of a rotated-out secret counts even when the key lives longer', async () => {
    const key = addKey({ id: 'key_1', expiresAt: start + 9_000 }, { secretExpiresAt: start + 10 });
    expect(await outcome(key)).toBe('key_1');
    time = start + 10;
    expect(await outcome(key)).toStartWith('401 This API key expired');
  });

  test('of the key counts even when the old secret would live longer', async () => {
    const key = addKey({ expiresAt: start + 10 }, { secretExpiresAt: start + 9_000 });
    time = start + 10;
    expect(await outcome(key)).toStartWith('401 This API key expired');
  });
});

describe('an unknown key', () => {
  test('is remembered for a moment, so that a storm of retries spares the store', async () => {
    const { text } = generateKey('routing');
    for (let i = 0; i < 100; i++) expect(await outcome(text)).toBe(unknown);
    expect(store.requests).toBe(1);
    time = start + negativeKeyMs;
    expect(await outcome(text)).toBe(unknown);
    expect(store.requests).toBe(2);
  });

  test('is asked for once by a burst of requests, and so is a good one', async () => {
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

  test('that is made while it is being looked up is asked for again', async () => {
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

  test('that does not look like ours is told how ours look, without the store', async () => {
    for (const text of ['', 'hello', 'sk-proj-123', 'Sk-tg-1']) {
      expect(await outcome(text)).toMatch(/^401 This is no key of this gateway: .* sk-tg-/);
    }
    expect(store.requests).toBe(0);
  });

  test('pushes the oldest out when too many are remembered', async () => {
    const keys = Array.from({ length: negativeKeysMax + 1 }, (_, i) => `sk-tg-${i}`);
    for (const key of keys) await outcome(key);
    expect(store.requests).toBe(keys.length);
    await outcome(keys.at(-1) ?? '');
    expect(store.requests).toBe(keys.length);
    await outcome(keys[0] ?? '');
    expect(store.requests).toBe(keys.length + 1);
  });
});

describe('after forget()', () => {
  test('a revoked key is refused and a new one admitted', async () => {
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

  test('an answer from before the revocation is not remembered', async () => {
    const key = addKey({ id: 'key_1' });
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    const early = outcome(key);
    store.matches.clear();
    authenticator.forget();
    resolve();
    // This request was there before the revocation; the next was not.
    expect(await early).toBe('key_1');
    expect(await outcome(key)).toBe(unknown);
  });

  test('neither is a refusal from before the key was made', async () => {
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

describe('a key in use, when anything was changed,', () => {
  /** What happens as soon as the change is noticed, ahead of the next request. */
  const heardOf = async () => {
    authenticator.forget();
    await authenticator.refreshKeysInUse();
  };

  test('is asked for again before its next request: the store may be away then', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    await heardOf();
    store.failure = new Error('away');
    expect(await outcome(key)).toBe('key_1');
    // Where looking it up again fails, the next request asks.
    await heardOf();
    store.failure = undefined;
    expect(await outcome(key)).toBe('key_1');
  });

  test('is not lost when the next change comes before it has come back', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    authenticator.forget();
    await heardOf();
    store.failure = new Error('away');
    expect(await outcome(key)).toBe('key_1');
  });

  test('and revoked by that change, is refused without asking again', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    store.matches.clear();
    await heardOf();
    expect(await outcome(key)).toBe(unknown);
    expect(store.requests).toBe(2);
  });

  test('shares the question with requests that come meanwhile', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    authenticator.forget();
    const early = outcome(key);
    const asking = authenticator.refreshKeysInUse();
    expect(await Promise.all([early, outcome(key)])).toEqual(['key_1', 'key_1']);
    await asking;
    expect(store.requests).toBe(2);
  });

  test('does not count as used because it was asked for again', async () => {
    const key = addKey({ id: 'key_1' });
    await outcome(key);
    await authenticator.markUsed();
    time = start + 599_999;
    await heardOf();
    expect(store.requests).toBe(2);
    await authenticator.markUsed();
    expect(store.marked).toEqual([['key_1', start]]);
    time = start + 600_000;
    await heardOf();
    expect(store.requests).toBe(2);
  });

  test('names its tenant, and those beyond the first 2,000 wait for their requests', async () => {
    for (let made = 0; made < 2_001; made++) await outcome(addKey());
    authenticator.forget();
    expect(await authenticator.refreshKeysInUse()).toEqual(['acme']);
    expect(store.requests).toBe(4_001);
    expect(await authenticator.refreshKeysInUse()).toEqual([]);
    expect(store.requests).toBe(4_001);
  });

  test('is asked for among the chores, which hand its tenant on', async () => {
    await outcome(addKey());
    authenticator.forget();
    const tenants: string[] = [];
    const chores = authenticator.periodicTasks(async (tenantIds) => {
      tenants.push(...tenantIds);
    });
    for (const { run } of chores) await run();
    expect(tenants).toEqual(['acme']);
    expect(store.requests).toBe(2);
  });

  test('is not asked for by each of many changes in a row', async () => {
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

  test('waits behind 255 others at most, and a change meanwhile puts the rest off', async () => {
    for (let made = 0; made < 300; made++) await outcome(addKey());
    authenticator.forget();
    const gate = Promise.withResolvers<void>();
    store.gate = gate.promise;
    const asking = authenticator.refreshKeysInUse();
    expect(store.requests).toBe(300 + 256);
    authenticator.forget();
    gate.resolve();
    expect(await asking).toEqual([]);
    expect(store.requests).toBe(300 + 256);
    expect(await authenticator.refreshKeysInUse()).toEqual(['acme']);
    expect(store.requests).toBe(300 + 256 + 300);
  });
});

describe('the admin token', () => {
  test('is recognised, and asked for once', async () => {
    const token = generateAdminToken();
    store.adminHash = hashKey(token);
    expect(await authenticator.isAdmin(token)).toBe(true);
    expect(await authenticator.isAdmin(generateAdminToken())).toBe(false);
    expect(store.requests).toBe(1);
  });

  test('that was replaced works only until the change is noticed', async () => {
    const [old, next] = [generateAdminToken(), generateAdminToken()];
    store.adminHash = hashKey(old);
    expect(await authenticator.isAdmin(old)).toBe(true);
    store.adminHash = hashKey(next);
    authenticator.forget();
    expect(await authenticator.isAdmin(old)).toBe(false);
    expect(await authenticator.isAdmin(next)).toBe(true);
  });

  test('does not exist before somebody made one', async () => {
    for (let i = 0; i < 3; i++) {
      expect(await authenticator.isAdmin(generateAdminToken())).toBe(false);
    }
    expect(store.requests).toBe(1);
  });

  test('is no tenant’s key, and a tenant’s key is no admin token', async () => {
    const key = addKey();
    store.adminHash = hashKey(key);
    expect(await authenticator.isAdmin(key)).toBe(false);
  });

  test('that was replaced while it was looked up is not remembered', async () => {
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

describe('while the store is away', () => {
  test('known keys go on and others hear 503, not 401', async () => {
    const known = addKey({ id: 'key_1' });
    const other = addKey({ id: 'key_2' });
    await outcome(known);
    store.failure = new Error('password authentication failed');
    expect(await outcome(known)).toBe('key_1');
    expect(await outcome(other)).toBe(
      '503 The key store is unreachable right now. Send the request again shortly.',
    );
    await expect(authenticator.isAdmin(generateAdminToken())).rejects.toMatchObject({
      message: expect.stringContaining('cannot be reached'),
      retryAfterSeconds: 2,
    });
    store.failure = undefined;
    expect(await outcome(other)).toBe('key_2');
  });

  test('marks of use are dropped without an error', async () => {
    await outcome(addKey());
    store.failure = new Error('away');
    expect(await authenticator.markUsed()).toBeUndefined();
    store.failure = undefined;
    await authenticator.markUsed();
    expect(store.batches).toBe(0);
  });
});

test('use is written down in one batch, with the latest time of each key', async () => {
  const [one, two, refused] = [
    addKey({ id: 'key_1' }),
    addKey({ id: 'key_2' }),
    addKey({ disabled: true }),
  ];
  for (const key of [one, two, refused]) await outcome(key);
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
