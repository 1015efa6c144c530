import { Compile } from 'typebox/schema';
import { type CredentialObject, newCredentialSchema } from '../../contract/byok.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { isObject, parseJson } from '../../core/json.ts';
import { googleTokenUrl, readProviderKey, regionIn } from '../../core/provider-key.ts';
import { validate } from '../../core/schema.ts';
import { didYouMean } from '../../core/text.ts';
import type { TenantDirectory } from '../tenant-directory.ts';
import type { StoredCredential, Vault, VaultStore } from '../vault.ts';
import { findTenant } from './tenants.ts';

/** Management of tenants' own provider keys (BYOK), for the HTTP API and the command line. */

const credentialCheck = Compile(newCredentialSchema);

interface ByokProvider {
  readonly byokBaseUrl: boolean;
  readonly dialect: string;
  readonly baseUrl: string;
  readonly region?: string | undefined;
}

export interface ByokService {
  readonly directory: Pick<TenantDirectory, 'getTenant'>;
  readonly credentials: VaultStore;
  /** The providers that accept tenants' own keys, by name. */
  readonly providers: ReadonlyMap<string, ByokProvider>;
  now(): number;
  /** Only saving needs the vault; reading and deleting work without the secret key. */
  vault(): Vault | Promise<Vault>;
  /** Returns why a tenant's base URL isn't allowed, or null if it is. */
  rejectionReason(url: string, tenantId: string): Promise<string | null>;
  /** Called after a deletion, so that this process notices it before its next poll. */
  changed(): void;
}

export async function listCredentials(
  service: ByokService,
  tenantId: string,
): Promise<readonly CredentialObject[]> {
  return (await service.credentials.list(tenantId)).map(credentialObject);
}

export async function showCredential(
  service: ByokService,
  tenantId: string,
  provider: string,
): Promise<CredentialObject> {
  return credentialObject(await findCredential(service, tenantId, provider));
}

export async function setCredential(
  service: ByokService,
  tenantId: string,
  provider: string,
  body: unknown,
): Promise<CredentialObject> {
  const known = service.providers.get(provider);
  if (!known) throw unknownProvider(service, provider);
  const input = validate(credentialCheck, newCredentialSchema, body);
  // The lookbehind keeps this linear for a long run of slashes.
  const baseUrl = input.base_url?.replace(/(?<!\/)\/+$/, '') ?? null;
  if (baseUrl !== null) {
    if (!known.byokBaseUrl) throw noBaseUrl(provider);
    await checkBaseUrl(service, tenantId, baseUrl);
  }
  const rejection = keyRejection(input.api_key, baseUrl, known);
  if (rejection !== undefined) throw invalidRequest(`api_key ${rejection}.`, 'api_key');
  const { id } = await findTenant(service.directory, tenantId);
  const mode = input.mode ?? 'byok_first';
  const credential = { tenantId: id, provider, apiKey: compact(input.api_key), baseUrl, mode };
  return credentialObject(await (await service.vault()).save(credential, service.now()));
}

export async function deleteCredential(
  service: ByokService,
  tenantId: string,
  provider: string,
): Promise<void> {
  await findCredential(service, tenantId, provider);
  const isRemoved = await service.credentials.remove(tenantId, provider);
  if (!isRemoved) throw noCredential(provider);
  service.changed();
}

/** Removes line breaks from a JSON key, because labels show its last characters. */
function compact(apiKey: string): string {
  const document = parseJson(apiKey);
  return isObject(document) ? JSON.stringify(document) : apiKey;
}

/** Returns the rest of a sentence that starts with `api_key`, or undefined for a valid key. */
function keyRejection(
  text: string,
  baseUrl: string | null,
  known: ByokProvider,
): string | undefined {
  const key = readProviderKey(text, known.dialect);
  if (typeof key === 'string') return key;
  switch (key.kind) {
    case 'plain':
      // The key becomes a header value, so it must not contain a line break.
      if (/^[\x21-\x7e]+$/.test(key.value)) return undefined;
      return 'must contain only visible ASCII characters, without spaces';
    case 'service_account':
      // A different token_uri would let a tenant make the gateway call any address.
      if (key.tokenUrl === googleTokenUrl) return undefined;
      return `must have the token_uri ${googleTokenUrl}`;
    case 'aws':
      if (regionIn(baseUrl ?? known.baseUrl) ?? known.region) return undefined;
      return 'needs an AWS region, but neither base_url nor the provider has one';
  }
}

function noBaseUrl(provider: string): GatewayError {
  const message = `The provider "${provider}" doesn't accept a base_url. Leave it out.`;
  return invalidRequest(message, 'base_url');
}

async function checkBaseUrl(
  service: ByokService,
  tenantId: string,
  baseUrl: string,
): Promise<void> {
  // Paths are appended to the base URL, so it can't end in a query or fragment.
  const rejection = /[?#]/.test(baseUrl)
    ? 'The URL must not have a query or fragment.'
    : await service.rejectionReason(baseUrl, tenantId);
  if (rejection !== null) throw invalidRequest(`base_url isn't allowed: ${rejection}`, 'base_url');
}

/** Also finds a key for a provider that the operator has since removed. Throws 404. */
async function findCredential(
  service: ByokService,
  tenantId: string,
  provider: string,
): Promise<StoredCredential> {
  const all = await service.credentials.list(tenantId);
  const found = all.find((credential) => credential.provider === provider);
  if (found) return found;
  throw service.providers.has(provider)
    ? noCredential(provider)
    : unknownProvider(service, provider);
}

function noCredential(provider: string): GatewayError {
  return notFound(`There is no saved key for the provider "${provider}".`, 'provider');
}

function unknownProvider({ providers }: ByokService, name: string): GatewayError {
  const hint = didYouMean(name, providers.keys()) || '.';
  return notFound(`There is no provider "${name.slice(0, 100)}"${hint}`, 'provider');
}

/** Returns a provider key as its owner sees it, without the key itself. */
function credentialObject(credential: StoredCredential): CredentialObject {
  return {
    provider: credential.provider,
    label: credential.label,
    mode: credential.mode,
    base_url: credential.baseUrl,
    created_at: new Date(credential.createdAt).toISOString(),
    updated_at: new Date(credential.updatedAt).toISOString(),
  };
}
