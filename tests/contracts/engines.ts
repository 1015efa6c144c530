/** The database engines that each contract suite runs on, and rows for the tests to add. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiKey, Tenant } from '../../src/auth/tenant-directory.ts';
import { randomText } from '../../src/core/ids.ts';
import { openStore, type Store } from '../../src/store/open.ts';
import { startPostgres } from '../support/postgres.ts';

export interface EmptyDatabase {
  readonly url: string;
  remove(): void;
}

export const engines: readonly { name: string; empty: () => Promise<EmptyDatabase> }[] = [
  {
    name: 'SQLite',
    empty: async () => {
      const folder = mkdtempSync(join(tmpdir(), 'tollgate-store-'));
      return {
        url: `sqlite:${join(folder, 'tollgate.db')}`,
        remove: () => rmSync(folder, { recursive: true }),
      };
    },
  },
  {
    name: 'Postgres',
    empty: async () => ({ url: await (await startPostgres()).createDatabase(), remove: () => {} }),
  },
];

/** Two stores on one database, like those of two gateway processes. */
export interface TwoStores {
  readonly one: Store;
  readonly other: Store;
  close(): Promise<void>;
}

export async function openTwice(empty: () => Promise<EmptyDatabase>): Promise<TwoStores> {
  const { url, remove } = await empty();
  const one = await openStore(url);
  const other = await openStore(url);
  return {
    one,
    other,
    close: async () => {
      await one.database.close();
      await other.database.close();
      remove();
    },
  };
}

export function randomHash(): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(32));
}

export function makeTenant(change: Partial<Tenant> = {}): Tenant {
  return {
    id: `ten_${randomText(16)}`,
    name: 'Acme “Ünïcode” Ltd',
    disabled: false,
    requestsPerMinute: 60,
    concurrentRequests: null,
    plan: null,
    createdAt: 1_700_000_000_000,
    updatedAt: 1_700_000_000_000,
    ...change,
  };
}

/** Adds a tenant and returns its ID. */
export async function addTenant(store: Pick<Store, 'directory'>): Promise<string> {
  const tenant = makeTenant();
  await store.directory.addTenant(tenant);
  return tenant.id;
}

export function makeKey(tenantId: string, change: Partial<ApiKey> = {}): ApiKey {
  return {
    id: `key_${randomText(16)}`,
    tenantId,
    kind: 'routing',
    label: 'sk-tg-ab12…9f',
    name: 'production',
    disabled: false,
    limitCredits: 5_000_000,
    limitReset: 'monthly',
    models: ['openai/*', 'demo/chat'],
    scopes: ['chat', 'images'],
    requestsPerMinute: 10,
    cacheMode: 'auto',
    createdAt: 1_700_000_000_000,
    updatedAt: 1_700_000_000_000,
    expiresAt: 1_900_000_000_000,
    lastUsedAt: null,
    ...change,
  };
}
