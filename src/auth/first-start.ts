import type { KeyKind } from '../core/caller.ts';
import type { Secret } from '../core/secret.ts';
import {
  type GeneratedKey,
  generateAdminToken,
  generateKey,
  hashAndLabel,
  hashKey,
} from './api-key.ts';
import { type ApiKey, type TenantDirectory, unrestricted } from './tenant-directory.ts';

/** The tenant that the first start creates. */
const defaultTenant = 'default';

/** Secrets and credits from the environment; see the configuration. */
export interface BootstrapSettings {
  readonly apiKey: Secret | null;
  readonly managementKey: Secret | null;
  readonly adminToken: Secret | null;
  readonly credits: number;
}

/** Secrets that the first start generates and shows once. */
export interface GeneratedSecrets {
  readonly apiKey: string;
  readonly managementKey: string;
  readonly adminToken: string;
}

interface FirstStartDeps {
  readonly directory: TenantDirectory;
  /** Grants credits once, even if called again. */
  grantOnce(tenantId: string, credits: number): Promise<void>;
  readonly now: number;
}

/**
 * Ensures that there is a tenant with credits and keys. Every step is idempotent, even across
 * concurrent processes: only one of them generates secrets.
 */
export async function firstStart(
  bootstrap: BootstrapSettings,
  { directory, grantOnce, now }: FirstStartDeps,
): Promise<GeneratedSecrets | undefined> {
  await directory.addTenant({
    id: defaultTenant,
    name: 'Default',
    disabled: false,
    requestsPerMinute: null,
    concurrentRequests: null,
    plan: null,
    createdAt: now,
    updatedAt: now,
  });
  const isFirst = (await directory.adminTokenHash()) === undefined;
  if (isFirst && bootstrap.credits > 0) await grantOnce(defaultTenant, bootstrap.credits);
  const { apiKey, managementKey, adminToken } = bootstrap;
  if (apiKey || managementKey || adminToken) {
    if (apiKey) await adopt(directory, 'routing', apiKey, now);
    if (managementKey) await adopt(directory, 'management', managementKey, now);
    if (adminToken) await directory.setAdminTokenHash(hashKey(adminToken.reveal()));
    return undefined;
  }
  return isFirst ? generateSecrets(directory, now) : undefined;
}

async function generateSecrets(
  directory: TenantDirectory,
  now: number,
): Promise<GeneratedSecrets | undefined> {
  const adminToken = generateAdminToken();
  if (!(await directory.claimAdminToken(hashKey(adminToken)))) return undefined;
  const routing = generateKey('routing');
  const management = generateKey('management');
  await directory.addKey(toApiKey(routing, 'routing', 'First routing key', now), routing.hash);
  const managementRecord = toApiKey(management, 'management', 'First management key', now);
  await directory.addKey(managementRecord, management.hash);
  return { apiKey: routing.text, managementKey: management.text, adminToken };
}

/**
 * Makes the key from the environment valid. A changed variable replaces the secret of the bootstrap
 * key, so changing it, or changing it back, rotates the key. If the bootstrap key was deleted, a
 * new one with the next number is created.
 */
async function adopt(
  directory: TenantDirectory,
  kind: KeyKind,
  secret: Secret,
  now: number,
): Promise<void> {
  const { hash, label } = hashAndLabel(secret.reveal());
  const rotate = (id: string) =>
    directory.rotateKey(defaultTenant, id, { hash, label, previousSecretExpiresAt: now }, now);
  for (let sequence = 1; ; sequence++) {
    // Look it up each time, because another process may add the same secret.
    const known = await directory.findKey(hash);
    if (known && (known.secretExpiresAt ?? now + 1) > now) return;
    if (known && (await rotate(known.key.id))) return;
    const id = sequence === 1 ? bootstrapIds[kind] : `${bootstrapIds[kind]}${sequence}`;
    const key = toApiKey({ id, label }, kind, `Bootstrap ${kind} key`, now);
    if ((await directory.addKey(key, hash)) === 'added' || (await rotate(id))) return;
  }
}

const bootstrapIds: Readonly<Record<KeyKind, string>> = {
  routing: 'key_bootstraprouting',
  management: 'key_bootstrapmanage',
};

function toApiKey(
  { id, label }: Pick<GeneratedKey, 'id' | 'label'>,
  kind: KeyKind,
  name: string,
  now: number,
): ApiKey {
  return {
    id,
    tenantId: defaultTenant,
    kind,
    label,
    name,
    disabled: false,
    ...unrestricted,
    createdAt: now,
    updatedAt: now,
    lastUsedAt: null,
  };
}
