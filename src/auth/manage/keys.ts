import { strict as assert } from 'node:assert';
import { keysPerTenantMax } from '../../core/bounds.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { isKeyId, makeKey } from '../api-key.ts';
import type { ApiKey, Directory, KeyPage } from '../directory.ts';
import { readKeyChange, readNewKey, readOverlap } from './key-input.ts';
import { type KeyObject, keyObject } from './key-object.ts';
import { type KeySpending, nothingSpent } from './key-spending.ts';
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

export interface KeyDesk {
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
  desk: KeyDesk,
  tenantId: string,
  body: unknown,
): Promise<IssuedKey> {
  const { directory } = desk;
  const now = desk.now();
  const settings = readNewKey(body, await findTenant(directory, tenantId), now);
  if ((await directory.countKeys(tenantId)) >= keysPerTenantMax) {
    throw invalidRequest(`This tenant already has ${keysPerTenantMax} keys; delete some first.`);
  }
  const { id, text, hash, label } = makeKey(settings.kind);
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
  desk: KeyDesk,
  tenantId: string,
  page: Omit<KeyPage, 'limit'>,
): Promise<readonly KeyObject[]> {
  await desk.markUsed?.();
  const keys = await desk.directory.listKeys(tenantId, { ...page, limit: keysPerPage });
  return describe(desk, tenantId, keys);
}

export async function showKey(desk: KeyDesk, tenantId: string, id: string): Promise<KeyObject> {
  return describeOne(desk, await findKey(desk, tenantId, id));
}

export async function changeKey(
  desk: KeyDesk,
  tenantId: string,
  id: string,
  body: unknown,
): Promise<KeyObject> {
  const { directory } = desk;
  const now = desk.now();
  const key = await findKey(desk, tenantId, id);
  const change = readKeyChange(body, key, await findTenant(directory, tenantId), now);
  const isEmpty = Object.keys(change).length === 0;
  return describeOne(desk, isEmpty ? key : await directory.changeKey(tenantId, id, change, now));
}

/** A new secret under the same id; the old one works for `overlap_seconds` more. */
export async function rotateKey(
  desk: KeyDesk,
  tenantId: string,
  id: string,
  body: unknown,
): Promise<IssuedKey> {
  const { directory } = desk;
  const now = desk.now();
  const overlapSeconds = readOverlap(body);
  const key = await findKey(desk, tenantId, id);
  const { text, hash, label } = makeKey(key.kind, key.id);
  const oldUntil = now + overlapSeconds * 1000;
  const rotated = await directory.rotateKey(tenantId, id, { hash, label, oldUntil }, now);
  return { key: await describeOne(desk, rotated), text };
}

export async function deleteKey(desk: KeyDesk, tenantId: string, id: string): Promise<void> {
  const key = await findKey(desk, tenantId, id);
  const isDeleted = await desk.directory.deleteKey(tenantId, key.id, desk.now());
  if (!isDeleted) throw unknownKey();
}

async function findKey(desk: KeyDesk, tenantId: string, id: string): Promise<ApiKey> {
  await desk.markUsed?.();
  const key = isKeyId(id) ? await desk.directory.getKey(tenantId, id) : undefined;
  if (!key) throw unknownKey();
  return key;
}

async function describeOne(desk: KeyDesk, key: ApiKey | undefined): Promise<KeyObject> {
  const [object] = key ? await describe(desk, key.tenantId, [key]) : [];
  if (!object) throw unknownKey();
  return object;
}

async function describe(
  { spending, now }: KeyDesk,
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
