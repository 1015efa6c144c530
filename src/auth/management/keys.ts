import { strict as assert } from 'node:assert';
import { type KeyObject, keysPerPage } from '../../contract/keys.ts';
import { keysPerTenantMax } from '../../core/bounds.ts';
import { type Caller, type LimitReset, limitPeriod } from '../../core/caller.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { generateKey, isKeyId } from '../api-key.ts';
import type { ApiKey, KeyPage, TenantDirectory } from '../tenant-directory.ts';
import { readKeyChange, readNewKey, readOverlap } from './key-input.ts';
import { Manager } from './manager-limits.ts';
import { findTenant } from './tenants.ts';

/** Key management, for the HTTP API and the command line. */

type KeyDirectory = Pick<
  TenantDirectory,
  'getTenant' | 'addKey' | 'getKey' | 'listKeys' | 'changeKey' | 'rotateKey' | 'deleteKey'
>;

export interface KeyService {
  readonly directory: KeyDirectory;
  readonly spending: KeySpending;
  /**
   * The highest limit that a key of a tenant without its own limit can have. Absent for the
   * operator, who can exceed the default.
   */
  readonly requestsPerMinuteMax?: number;
  now(): number;
  /** Writes the pending `last_used_at` times of this process to the store. */
  markUsed?(): Promise<void>;
}

/** `text` is the secret. It isn't stored, so it can be shown only once. */
export interface IssuedKey {
  readonly key: KeyObject;
  readonly text: string;
}

/** `caller` is the management key that manages keys, here and below. Operators have none. */
export async function createKey(
  service: KeyService,
  tenantId: string,
  body: unknown,
  caller?: Caller,
): Promise<IssuedKey> {
  const { directory } = service;
  const now = service.now();
  const requested = readNewKey(body, await requestsMax(service, tenantId), now);
  const manager = caller && (await Manager.of(directory, caller));
  const expiresAt = manager ? manager.expiryOf(requested.expiresAt) : requested.expiresAt;
  const settings = { ...requested, expiresAt };
  manager?.checkNewKey(settings);
  const { id, text, hash, label } = generateKey(settings.kind);
  const key: ApiKey = {
    ...settings,
    id,
    tenantId,
    label,
    disabled: false,
    createdAt: now,
    updatedAt: now,
    lastUsedAt: null,
  };
  const outcome = await directory.addKey(key, hash, keysPerTenantMax);
  if (outcome === 'full') {
    throw invalidRequest(
      `This tenant already has the maximum of ${keysPerTenantMax} keys. Delete one first.`,
    );
  }
  assert.equal(outcome, 'added', 'The generated key id is already in use.');
  return { key: keyObject(key, nothingSpent, now), text };
}

export async function listKeys(
  service: KeyService,
  tenantId: string,
  page: Omit<KeyPage, 'limit'>,
): Promise<readonly KeyObject[]> {
  await service.markUsed?.();
  const keys = await service.directory.listKeys(tenantId, { ...page, limit: keysPerPage });
  return toKeyObjects(service, tenantId, keys);
}

export async function showKey(
  service: KeyService,
  tenantId: string,
  id: string,
): Promise<KeyObject> {
  return toKeyObject(service, await findKey(service, tenantId, id));
}

export async function changeKey(
  service: KeyService,
  tenantId: string,
  id: string,
  body: unknown,
  caller?: Caller,
): Promise<KeyObject> {
  const { directory } = service;
  const now = service.now();
  const key = await findKey(service, tenantId, id);
  const requested = readKeyChange(body, key, await requestsMax(service, tenantId), now);
  if (caller) (await Manager.of(directory, caller)).checkChange(key, requested);
  const { disabled } = requested;
  const byOperator = !caller && disabled !== undefined ? { disabledByOperator: disabled } : {};
  const change = { ...requested, ...byOperator };
  const isEmpty = Object.keys(change).length === 0;
  return toKeyObject(service, isEmpty ? key : await directory.changeKey(tenantId, id, change, now));
}

/** Replaces the secret of a key. The previous one keeps working for `overlap_seconds`. */
export async function rotateKey(
  service: KeyService,
  tenantId: string,
  id: string,
  body: unknown,
  caller?: Caller,
): Promise<IssuedKey> {
  const { directory } = service;
  const now = service.now();
  const overlapSeconds = readOverlap(body);
  const key = await findKey(service, tenantId, id);
  if (caller) (await Manager.of(directory, caller)).checkRotation(key);
  const { text, hash, label } = generateKey(key.kind, key.id);
  const previousSecretExpiresAt = now + overlapSeconds * 1000;
  const rotated = await directory.rotateKey(
    tenantId,
    id,
    { hash, label, previousSecretExpiresAt },
    now,
  );
  return { key: await toKeyObject(service, rotated), text };
}

export async function deleteKey(service: KeyService, tenantId: string, id: string): Promise<void> {
  const key = await findKey(service, tenantId, id);
  const isDeleted = await service.directory.deleteKey(tenantId, key.id, service.now());
  if (!isDeleted) throw unknownKey();
}

/** Returns the highest limit of requests per minute that a key of the tenant can get, or null. */
async function requestsMax(service: KeyService, tenantId: string): Promise<number | null> {
  const { requestsPerMinute } = await findTenant(service.directory, tenantId);
  return requestsPerMinute ?? service.requestsPerMinuteMax ?? null;
}

async function findKey(service: KeyService, tenantId: string, id: string): Promise<ApiKey> {
  await service.markUsed?.();
  const key = isKeyId(id) ? await service.directory.getKey(tenantId, id) : undefined;
  if (!key) throw unknownKey();
  return key;
}

async function toKeyObject(service: KeyService, key: ApiKey | undefined): Promise<KeyObject> {
  const [object] = key ? await toKeyObjects(service, key.tenantId, [key]) : [];
  if (!object) throw unknownKey();
  return object;
}

async function toKeyObjects(
  { spending, now }: KeyService,
  tenantId: string,
  keys: readonly ApiKey[],
): Promise<readonly KeyObject[]> {
  if (keys.length === 0) return [];
  const time = now();
  const ids = keys.map((key) => key.id);
  const spent = await spending.spent(tenantId, ids, time);
  return keys.map((key) => keyObject(key, spent.get(key.id) ?? nothingSpent, time));
}

/** The same error for an unknown id and for another tenant's key. */
function unknownKey(): GatewayError {
  return notFound('There is no key with this ID.');
}

/** Returns a key as the API shows it, without its secret. */
export function keyObject(key: ApiKey, spending: Spending, now: number): KeyObject {
  const { limitCredits, limitReset } = key;
  const remaining =
    limitCredits === null ? null : Math.max(0, limitCredits - spentInPeriod(spending, limitReset));
  return {
    id: key.id,
    label: key.label,
    name: key.name,
    disabled: key.disabled,
    limit: limitCredits,
    limit_remaining: remaining,
    limit_reset: limitReset,
    limit_resets_at: limitReset === null ? null : isoTime(limitPeriod(limitReset, now).until),
    usage: spending.total,
    usage_daily: spending.daily,
    usage_weekly: spending.weekly,
    usage_monthly: spending.monthly,
    models: key.models,
    scopes: key.scopes,
    requests_per_minute: key.requestsPerMinute,
    // Null means the mode of the gateway's configuration.
    cache: key.cacheMode,
    created_at: isoTime(key.createdAt),
    updated_at: isoTime(key.updatedAt),
    expires_at: key.expiresAt === null ? null : isoTime(key.expiresAt),
    last_used_at: key.lastUsedAt === null ? null : isoTime(key.lastUsedAt),
  };
}

function isoTime(time: number): string {
  return new Date(time).toISOString();
}

/** Whole credits spent by a key: in total, and in the current UTC day, week, and month. */
export interface Spending {
  readonly total: number;
  readonly daily: number;
  readonly weekly: number;
  readonly monthly: number;
}

export const nothingSpent: Spending = { total: 0, daily: 0, weekly: 0, monthly: 0 };

/** Reads the spending of keys. Keys without spending may be missing from the map. */
export interface KeySpending {
  spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>>;
}

/** Returns the spending that counts toward a limit with this reset period. */
export function spentInPeriod(spending: Spending, reset: LimitReset | null): number {
  return reset === null ? spending.total : spending[reset];
}
