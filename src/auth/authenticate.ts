import { putBounded } from '../core/bounded-map.ts';
import { negativeKeyMs, negativeKeysMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, notFound, unavailable } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { hashKey, kindByPrefix, sameHash } from './api-key.ts';
import type { ChangedTenants, KeyMatch, TenantDirectory } from './tenant-directory.ts';

/** Maximum number of cached callers. The oldest is evicted. */
const callersMax = 50_000;

/** `last_used_at` is written in batches, not per request. */
const markUsedMs = 10_000;

/** How often, and how long after their deletion, keys that were never used are removed. */
const purgeMs = 3_600_000;
const purgeAfterMs = 30 * 24 * 3_600_000;

/** Keys used within this time are looked up again after a change. */
const inUseMs = 600_000;

/** Bounds the lookups after a change. */
const refreshedKeysMax = 2_000;

/**
 * Keys are refreshed at this interval, not after each change. Otherwise, creating 1,000 keys would
 * refresh all keys 1,000 times.
 */
const refreshMs = 1_000;

/** A request with a key that isn't cached waits for at most one batch. */
const refreshBatchSize = 256;

interface KnownKey {
  readonly caller: Caller;
  /**
   * Why the key is rejected, for example because it is disabled, or null. Expiry is checked on
   * every request instead.
   */
  readonly rejection: string | null;
}

interface CachedKey extends KnownKey {
  usedAt: number;
}

type KeyStore = Pick<
  TenantDirectory,
  'findKey' | 'adminTokenHash' | 'markUsed' | 'purgeUnusedKeys'
>;

/**
 * Resolves a key to its caller. Callers are cached; `forget()` clears the keys of the tenants that
 * a change of the directory concerns, so a revoked key stops working in every process within one
 * poll.
 */
export class Authenticator {
  readonly #directory: KeyStore;
  readonly #now: () => number;
  readonly #known = new Map<string, CachedKey>();
  /** The keys that the last `forget()` cleared. Those in use are looked up again. */
  #forgotten = new Map<string, CachedKey>();
  readonly #unknown = new Map<string, number>();
  /** Concurrent requests with the same key share one lookup. */
  readonly #pendingLookups = new Map<string, Promise<CachedKey>>();
  readonly #lastUsed = new Map<string, number>();
  #adminHash: Uint8Array | null | undefined;
  #generation = 0;
  /** The last generation whose keys were looked up again. */
  #refreshedGeneration = 0;

  constructor(directory: KeyStore, now: () => number = Date.now) {
    this.#directory = directory;
    this.#now = now;
  }

  /** A cached key needs no store lookup. Throws 401, 503. */
  authenticate(key: string): Caller | Promise<Caller> {
    const hash = hashKey(key);
    // Use the full hash. With a shortened hash, one key could be mistaken for another.
    const name = hash.toHex();
    const known = this.#known.get(name);
    if (known) return this.#admit(known);
    const rejectedUntil = this.#unknown.get(name);
    if (rejectedUntil !== undefined && rejectedUntil > this.#now()) throw unknownKey();
    if (kindByPrefix(key) === undefined) throw notTollgateKey();
    return this.#lookUpShared(name, hash);
  }

  async isAdmin(token: string): Promise<boolean> {
    if (kindByPrefix(token) !== 'admin') return false;
    const known = this.#adminHash;
    const stored = known === undefined ? await this.#lookUpAdmin() : known;
    return stored !== null && sameHash(hashKey(token), stored);
  }

  /**
   * Clears the keys of these tenants; the next request of each key looks it up again. The other
   * tenants' keys stay, so that a tenant that changes its keys all the time delays nobody else.
   */
  forget(tenants: ChangedTenants = null): void {
    for (const [name, cached] of this.#known) {
      if (tenants !== null && !tenants.has(cached.caller.tenantId)) continue;
      putBounded(this.#forgotten, name, cached, callersMax);
      this.#known.delete(name);
    }
    this.#generation++;
    this.#unknown.clear();
    this.#pendingLookups.clear();
    if (tenants === null) this.#adminHash = undefined;
  }

  /** `refreshTenants` is called with the tenants whose keys were looked up again. */
  periodicTasks(refreshTenants: (tenantIds: readonly string[]) => Promise<void>): PeriodicTask[] {
    return [
      { everyMs: markUsedMs, run: () => this.markUsed() },
      {
        everyMs: purgeMs,
        run: () => this.#directory.purgeUnusedKeys(this.#now() - purgeAfterMs),
      },
      { everyMs: refreshMs, run: async () => refreshTenants(await this.refreshKeysInUse()) },
    ];
  }

  /**
   * Looks up the keys in use that `forget()` cleared, because the store may be unreachable when
   * their next request arrives. Returns their tenants, or none if another change occurred
   * meanwhile, which causes another refresh.
   */
  async refreshKeysInUse(): Promise<readonly string[]> {
    const generation = this.#generation;
    if (this.#refreshedGeneration === generation) return [];
    this.#refreshedGeneration = generation;
    const since = this.#now() - inUseMs;
    const inUse = [...this.#forgotten]
      .filter(([, { usedAt }]) => usedAt > since)
      .slice(0, refreshedKeysMax);
    this.#forgotten = new Map(inUse);
    for (let index = 0; index < inUse.length; index += refreshBatchSize) {
      const missing = inUse
        .slice(index, index + refreshBatchSize)
        .filter(([name]) => !this.#known.has(name));
      const lookups = missing.map(
        ([name, { usedAt }]) =>
          this.#pendingLookups.get(name) ??
          this.#startLookup(name, Uint8Array.fromHex(name), usedAt),
      );
      // After a failure, the next request looks the key up.
      await Promise.allSettled(lookups);
      if (generation !== this.#generation) return [];
    }
    return [...new Set(inUse.map(([, { caller }]) => caller.tenantId))];
  }

  async markUsed(): Promise<void> {
    if (this.#lastUsed.size === 0) return;
    const batch = new Map(this.#lastUsed);
    this.#lastUsed.clear();
    // Best effort: an unreachable database must not make authentication fail.
    await this.#directory.markUsed(batch).catch(() => undefined);
  }

  async #lookUpAdmin(): Promise<Uint8Array | null> {
    const generation = this.#generation;
    const stored = (await this.#directory.adminTokenHash().catch(keyStoreUnavailable)) ?? null;
    if (generation === this.#generation) this.#adminHash = stored;
    return stored;
  }

  async #lookUpShared(name: string, hash: Uint8Array): Promise<Caller> {
    return this.#admit(
      await (this.#pendingLookups.get(name) ?? this.#startLookup(name, hash, this.#now())),
    );
  }

  #startLookup(name: string, hash: Uint8Array, usedAt: number): Promise<CachedKey> {
    const lookup = this.#lookUp(name, hash, usedAt).finally(() => {
      if (this.#pendingLookups.get(name) === lookup) this.#pendingLookups.delete(name);
    });
    this.#pendingLookups.set(name, lookup);
    return lookup;
  }

  async #lookUp(name: string, hash: Uint8Array, usedAt: number): Promise<CachedKey> {
    const generation = this.#generation;
    const match = await this.#directory.findKey(hash).catch(keyStoreUnavailable);
    // Don't cache this result if a change, such as a revocation, occurred meanwhile.
    const current = generation === this.#generation;
    if (!match || !sameHash(match.hash, hash)) {
      if (current) putBounded(this.#unknown, name, this.#now() + negativeKeyMs, negativeKeysMax);
      throw unknownKey();
    }
    const cached = { ...toKnownKey(match), usedAt };
    if (current) putBounded(this.#known, name, cached, callersMax);
    return cached;
  }

  #admit(cached: CachedKey): Caller {
    const { caller, rejection } = cached;
    if (rejection !== null) throw new GatewayError('invalid_api_key', rejection);
    const now = this.#now();
    if (caller.expiresAt !== null && caller.expiresAt <= now) {
      const when = new Date(caller.expiresAt).toISOString();
      throw new GatewayError('invalid_api_key', `This API key expired at ${when}.`);
    }
    cached.usedAt = now;
    this.#lastUsed.set(caller.keyId, now);
    return caller;
  }
}

/** Combines a key and its tenant into a caller. */
function toKnownKey({ key, tenant, secretExpiresAt }: Omit<KeyMatch, 'hash'>): KnownKey {
  const expiries = [key.expiresAt, secretExpiresAt].filter((time) => time !== null);
  const caller: Caller = Object.freeze({
    tenantId: tenant.id,
    keyId: key.id,
    kind: key.kind,
    scopes: key.scopes,
    models: key.models,
    requestsPerMinute: lowest(key.requestsPerMinute, tenant.requestsPerMinute),
    tenantRequestsPerMinute: tenant.requestsPerMinute,
    concurrentRequests: tenant.concurrentRequests,
    plan: tenant.plan,
    cacheMode: key.cacheMode,
    limitCredits: key.limitCredits,
    limitReset: key.limitReset,
    expiresAt: expiries.length > 0 ? Math.min(...expiries) : null,
  });
  if (tenant.disabled) return { caller, rejection: 'This account is disabled.' };
  if (key.disabled) return { caller, rejection: 'This API key is disabled.' };
  return { caller, rejection: null };
}

/** The tenant's rate limit also bounds each of its keys. */
function lowest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

function keyStoreUnavailable(cause: unknown): never {
  throw unavailable(
    'The key store is unreachable right now. Send the request again shortly.',
    cause,
  );
}

/** Usually, the client sent a key of a provider. */
function notTollgateKey(): GatewayError {
  return new GatewayError(
    'invalid_api_key',
    'Not a Tollgate key. Tollgate keys start with sk-tg-, sk-mgmt-, or sk-admin-.',
  );
}

function unknownKey(): GatewayError {
  return new GatewayError(
    'invalid_api_key',
    "The API key isn't valid. Check that it's complete and hasn't been deleted.",
  );
}

/** Returns the caller that a key of the tenant makes. Throws 404. */
export async function findCaller(
  directory: Pick<TenantDirectory, 'getKey' | 'getTenant'>,
  tenantId: string,
  keyId: string,
): Promise<Caller> {
  const key = await directory.getKey(tenantId, keyId);
  const tenant = await directory.getTenant(tenantId);
  if (!key || !tenant) throw notFound(`The tenant has no API key "${keyId}".`, 'api_key_id');
  return toKnownKey({ key, tenant, secretExpiresAt: null }).caller;
}

/**
 * Returns the caller for a job that was created with this key. Throws 401, 403 if the key was
 * deleted or disabled, has expired, or has lost the scope "jobs".
 */
export async function callerForKey(
  directory: Pick<TenantDirectory, 'getKey' | 'getTenant'>,
  tenantId: string,
  keyId: string,
  now: number,
): Promise<Caller> {
  const key = await directory.getKey(tenantId, keyId);
  const tenant = await directory.getTenant(tenantId);
  if (!key || !tenant) throw rejectedKey('The API key of this job has been deleted.');
  const { caller, rejection } = toKnownKey({ key, tenant, secretExpiresAt: null });
  if (rejection !== null) throw rejectedKey(rejection);
  if (caller.expiresAt !== null && caller.expiresAt <= now) {
    throw rejectedKey('The API key of this job has expired.');
  }
  if (caller.scopes && !caller.scopes.includes('jobs')) {
    const message = 'The API key of this job no longer has the scope "jobs".';
    throw new GatewayError('forbidden', message);
  }
  return caller;
}

function rejectedKey(message: string): GatewayError {
  return new GatewayError('invalid_api_key', message);
}
