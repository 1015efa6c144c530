import type { Selectable } from 'kysely';
import type { KeyMatch, Tenant } from '../../auth/directory.ts';
import type { Database } from '../database.ts';
import { padded } from '../gathered.ts';
import type { ApiKeysTable } from '../schema.ts';
import { keyOf, tenantOf } from './rows.ts';

type Row = Selectable<ApiKeysTable>;
type HashColumn = 'secret_hash' | 'previous_hash';

/** Looks keys up by the hashes of their secrets: current ones first, then those rotated out. */
export async function findKeys(
  database: Database,
  hashes: readonly Uint8Array[],
): Promise<(hash: Uint8Array) => KeyMatch | undefined> {
  const current = await rowsBy(database, 'secret_hash', hashes);
  const missing = hashes.filter((hash) => !current.has(hash.toHex()));
  const former = await rowsBy(database, 'previous_hash', missing);
  const tenants = await tenantsOf(database, [...current.values(), ...former.values()]);
  return (asked) => {
    const inUse = current.get(asked.toHex());
    const row = inUse ?? former.get(asked.toHex());
    const hash = inUse ? inUse.secret_hash : row?.previous_hash;
    const tenant = tenants.get(row?.tenant_id ?? '');
    if (!row || !hash || !tenant) return undefined;
    return { key: keyOf(row), tenant, hash, secretExpiresAt: inUse ? null : row.previous_until };
  };
}

async function rowsBy(
  { read }: Database,
  column: HashColumn,
  hashes: readonly Uint8Array[],
): Promise<ReadonlyMap<string, Row>> {
  if (hashes.length === 0) return new Map();
  const rows = await read
    .selectFrom('api_keys')
    .selectAll()
    .where('deleted_at', 'is', null)
    .where(column, 'in', padded(hashes))
    .execute();
  return new Map(rows.map((row) => [row[column]?.toHex() ?? '', row]));
}

async function tenantsOf(
  { read }: Database,
  rows: readonly Row[],
): Promise<ReadonlyMap<string, Tenant>> {
  const ids = [...new Set(rows.map((row) => row.tenant_id))];
  if (ids.length === 0) return new Map();
  const tenants = await read
    .selectFrom('tenants')
    .selectAll()
    .where('id', 'in', padded(ids))
    .execute();
  return new Map(tenants.map((row) => [row.id, tenantOf(row)]));
}
