import { putBounded } from '../core/bounded-map.ts';
import { negativeKeyMs, negativeKeysMax } from '../core/bounds.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError, unavailable } from '../core/errors.ts';
import type { PeriodicTask } from '../core/periodic-task.ts';
import { hashKey, kindByPrefix, sameHash } from './api-key.ts';
import type { Directory, KeyMatch } from './directory.ts';

/** Known callers kept in memory; beyond this the oldest is asked for again. */
const callersMax = 50_000;

/** Key use is written down in batches, not per request. */
const markUsedMs = 10_000;

/** Keys that were used within this time are asked for again when anything changed. */
const inUseMs = 600_000;

/** At most so many of these keys: a few queries of the store, which nobody has to wait for. */
const refreshedKeysMax = 2_000;

/** Not at each change: while somebody makes a thousand keys, each would ask for all again. */
const refreshMs = 1_000;

/** In batches: a request for another key waits for one batch, not for all. */
const refreshBatchSize = 256;

interface KnownKey {
  readonly caller: Caller;
  /** Why the key is refused, such as disabled. Expiry is checked at every request instead. */
  readonly refusal: string | null;
}

interface CachedKey extends KnownKey {
  usedAt: number;
}

type KeyStore = Pick<Directory, 'findKey' | 'adminTokenHash' | 'markUsed'>;

/**
 * Turns a presented key into a caller. Answers come from memory; `forget()` empties it when the
 * directory's version moved, so a revoked key dies on every process within one poll.
 */
export class Authenticator {
  readonly #directory: KeyStore;
  readonly #now: () => number;
  readonly #known = new Map<string, CachedKey>();
  /** What was known before the last `forget()`: those in use are looked up again from here. */
  #forgotten = new Map<string, CachedKey>();
  readonly #unknown = new Map<string, number>();
  /** Asked of the store right now: a burst of one key, good or bad, asks once. */
  readonly #pendingLookUps = new Map<string, Promise<CachedKey>>();
  readonly #lastUsed = new Map<string, number>();
  #adminHash: Uint8Array | null | undefined;
  #generation = 0;
  /** The generation whose keys were asked for again. */
  #refreshedGeneration = 0;

  constructor(directory: KeyStore, now: () => number = Date.now) {
    this.#directory = directory;
    this.#now = now;
  }

  /** Resolves at once, without touching the store, for a key seen before. */
  authenticate(key: string): Caller | Promise<Caller> {
    const hash = hashKey(key);
    // Keyed by the whole hash: a shortened cache key once let one token act as another.
    const name = hash.toHex();
    const known = this.#known.get(name);
    if (known) return this.#admit(known);
    const refusedUntil = this.#unknown.get(name);
    if (refusedUntil !== undefined && refusedUntil > this.#now()) throw unknownKey();
    if (kindByPrefix(key) === undefined) throw notTollgateKey();
    return this.#lookUpShared(name, hash);
  }

  async isAdmin(token: string): Promise<boolean> {
    if (kindByPrefix(token) !== 'admin') return false;
    const known = this.#adminHash;
    const stored = known === undefined ? await this.#lookUpAdmin() : known;
    return stored !== null && sameHash(hashKey(token), stored);
  }

  /** Drops everything remembered; the next request of each key asks the store. */
  forget(): void {
    for (const [name, cached] of this.#known) putBounded(this.#forgotten, name, cached, callersMax);
    this.#generation++;
    this.#known.clear();
    this.#unknown.clear();
    this.#pendingLookUps.clear();
    this.#adminHash = undefined;
  }

  /** `alsoFor` is called with the tenants whose keys were asked for again. */
  periodicTasks(refreshTenants: (tenantIds: readonly string[]) => Promise<void>): PeriodicTask[] {
    return [
      { everyMs: markUsedMs, run: () => this.markUsed() },
      { everyMs: refreshMs, run: async () => refreshTenants(await this.refreshKeysInUse()) },
    ];
  }

  /**
   * Looks up again the keys in use that were forgotten, ahead of their next request: the store may
   * be away by then. Answers the tenants of these keys; none where another change came in between,
   * which has a round of its own.
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
      const lookUps = missing.map(
        ([name, { usedAt }]) =>
          this.#pendingLookUps.get(name) ??
          this.#startLookUp(name, Uint8Array.fromHex(name), usedAt),
      );
      // Where it fails, the next request asks.
      await Promise.allSettled(lookUps);
      if (generation !== this.#generation) return [];
    }
    return [...new Set(inUse.map(([, { caller }]) => caller.tenantId))];
  }

  async markUsed(): Promise<void> {
    if (this.#lastUsed.size === 0) return;
    const batch = new Map(this.#lastUsed);
    this.#lastUsed.clear();
    // Nobody waits for this: a store that is away must not make authentication fail.
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
      await (this.#pendingLookUps.get(name) ?? this.#startLookUp(name, hash, this.#now())),
    );
  }

  #startLookUp(name: string, hash: Uint8Array, usedAt: number): Promise<CachedKey> {
    const lookUp = this.#lookUp(name, hash, usedAt).finally(() => {
      if (this.#pendingLookUps.get(name) === lookUp) this.#pendingLookUps.delete(name);
    });
    this.#pendingLookUps.set(name, lookUp);
    return lookUp;
  }

  async #lookUp(name: string, hash: Uint8Array, usedAt: number): Promise<CachedKey> {
    const generation = this.#generation;
    const match = await this.#directory.findKey(hash).catch(keyStoreUnavailable);
    // A revocation that arrived meanwhile must not be undone by this older answer.
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
    const { caller, refusal } = cached;
    if (refusal !== null) throw new GatewayError('invalid_api_key', refusal);
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

/** The caller that a key and its tenant make, and why it is not admitted, if so. */
function toKnownKey({ key, tenant, secretExpiresAt }: Omit<KeyMatch, 'hash'>): KnownKey {
  const expiries = [key.expiresAt, secretExpiresAt].filter((time) => time !== null);
  const caller: Caller = Object.freeze({
    tenantId: tenant.id,
    keyId: key.id,
    kind: key.kind,
    scopes: key.scopes,
    models: key.models,
    requestsPerMinute: lowest(key.requestsPerMinute, tenant.requestsPerMinute),
    concurrentRequests: tenant.concurrentRequests,
    cacheMode: key.cacheMode,
    limitCredits: key.limitCredits,
    limitReset: key.limitReset,
    expiresAt: expiries.length > 0 ? Math.min(...expiries) : null,
  });
  if (tenant.disabled) return { caller, refusal: 'This account is disabled.' };
  if (key.disabled) return { caller, refusal: 'This API key is disabled.' };
  return { caller, refusal: null };
}

/** A tenant that was slowed down slows all its keys down. */
function lowest(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

function keyStoreUnavailable(cause: unknown): never {
  throw unavailable('The key store cannot be reached right now.', cause);
}

/** Most often the provider's own key, which the client used before. */
function notTollgateKey(): GatewayError {
  return new GatewayError(
    'invalid_api_key',
    'This is no key of this gateway: those begin with sk-tg-, sk-mgmt- or sk-admin-.',
  );
}

function unknownKey(): GatewayError {
  return new GatewayError(
    'invalid_api_key',
    'The API key is not valid; check that it was copied whole and was not deleted.',
  );
}

/**
 * The caller behind a key that was admitted before, for a job that it left with us. A key does no
 * more work once it was deleted or disabled, has expired, or may no longer have jobs.
 */
export async function callerForKey(
  directory: Pick<Directory, 'getKey' | 'getTenant'>,
  tenantId: string,
  keyId: string,
  now: number,
): Promise<Caller> {
  const key = await directory.getKey(tenantId, keyId);
  const tenant = await directory.getTenant(tenantId);
  if (!key || !tenant) throw rejectedKey('The API key of this job has been deleted.');
  const { caller, refusal } = toKnownKey({ key, tenant, secretExpiresAt: null });
  if (refusal !== null) throw rejectedKey(refusal);
  if (caller.expiresAt !== null && caller.expiresAt <= now) {
    throw rejectedKey('The API key of this job has expired.');
  }
  if (caller.scopes && !caller.scopes.includes('jobs')) {
    const message = 'The API key of this job does not have the scope "jobs" any more.';
    throw new GatewayError('forbidden', message);
  }
  return caller;
}

function rejectedKey(message: string): GatewayError {
  return new GatewayError('invalid_api_key', message);
}
