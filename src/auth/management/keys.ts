import { strict as assert } from 'node:assert';
import { keysPerTenantMax } from '../../core/bounds.ts';
import { type LimitReset, limitPeriod } from '../../core/caller.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { generateKey, isKeyId } from '../api-key.ts';
import type { ApiKey, Directory, KeyPage } from '../directory.ts';
import { readKeyChange, readNewKey, readOverlap } from './key-input.ts';
import { findTenant } from './tenants.ts';

/** What managers and operators do with keys, whether they come by HTTP or by the command line. */

export const keysPerPage = 100;

type KeyDirectory = Pick<
  Directory,
  | 'getTenant'
  | 'countKeys'
  | 'addKey'
  | 'getKey'
  | 'listKeys'
  | 'changeKey'
  | 'rotateKey'
  | 'deleteKey'
>;

export interface KeyService {
  readonly directory: KeyDirectory;
  readonly spending: KeySpending;
  now(): number;
  /** Tells the store which keys were used lately; a gateway remembers that for a while. */
  markUsed?(): Promise<void>;
}

/** `text` is the secret: shown now, and never again. */
export interface IssuedKey {
  readonly key: KeyObject;
  readonly text: string;
}

export async function createKey(
  service: KeyService,
  tenantId: string,
  body: unknown,
): Promise<IssuedKey> {
  const { directory } = service;
  const now = service.now();
  const settings = readNewKey(body, await findTenant(directory, tenantId), now);
  if ((await directory.countKeys(tenantId)) >= keysPerTenantMax) {
    throw invalidRequest(`This tenant already has ${keysPerTenantMax} keys; delete some first.`);
  }
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
  const outcome = await directory.addKey(key, hash);
  assert.equal(outcome, 'added', 'a random key id was taken');
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
): Promise<KeyObject> {
  const { directory } = service;
  const now = service.now();
  const key = await findKey(service, tenantId, id);
  const change = readKeyChange(body, key, await findTenant(directory, tenantId), now);
  const isEmpty = Object.keys(change).length === 0;
  return toKeyObject(service, isEmpty ? key : await directory.changeKey(tenantId, id, change, now));
}

/** A new secret under the same id; the old one works for `overlap_seconds` more. */
export async function rotateKey(
  service: KeyService,
  tenantId: string,
  id: string,
  body: unknown,
): Promise<IssuedKey> {
  const { directory } = service;
  const now = service.now();
  const overlapSeconds = readOverlap(body);
  const key = await findKey(service, tenantId, id);
  const { text, hash, label } = generateKey(key.kind, key.id);
  const oldUntil = now + overlapSeconds * 1000;
  const rotated = await directory.rotateKey(tenantId, id, { hash, label, oldUntil }, now);
  return { key: await toKeyObject(service, rotated), text };
}

export async function deleteKey(service: KeyService, tenantId: string, id: string): Promise<void> {
  const key = await findKey(service, tenantId, id);
  const isDeleted = await service.directory.deleteKey(tenantId, key.id, service.now());
  if (!isDeleted) throw unknownKey();
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

/** Says nothing about the id: another tenant's key is as absent as one that never was. */
function unknownKey(): GatewayError {
  return notFound('There is no key with this id.');
}

export type KeyObject = Readonly<ReturnType<typeof keyObject>>;

/** A key as its owner reads it, in HTTP answers and in `--json`. Never holds the secret. */
export function keyObject(key: ApiKey, spending: Spending, now: number) {
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
    // Null: as the gateway is configured.
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

/** Whole credits that a key has spent, ever and in the running UTC day, week and month. */
export interface Spending {
  readonly total: number;
  readonly daily: number;
  readonly weekly: number;
  readonly monthly: number;
}

export const nothingSpent: Spending = { total: 0, daily: 0, weekly: 0, monthly: 0 };

/** The store that the key object needs. A key that never spent anything may be absent. */
export interface KeySpending {
  spent(
    tenantId: string,
    keyIds: readonly string[],
    now: number,
  ): Promise<ReadonlyMap<string, Spending>>;
}

/** What counts against a limit that resets this way. */
export function spentInPeriod(spending: Spending, reset: LimitReset | null): number {
  return reset === null ? spending.total : spending[reset];
}
