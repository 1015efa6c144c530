import { Type } from 'typebox';
import { Compile } from 'typebox/schema';
import { byokModes } from '../../core/caller.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { isObject, parseJson } from '../../core/json.ts';
import {
  googleTokenUrl,
  providerKeyLengthMax,
  readProviderKey,
  regionIn,
} from '../../core/provider-key.ts';
import { oneOf, optional, validate } from '../../core/schema.ts';
import { didYouMean } from '../../core/text.ts';
import type { Directory } from '../directory.ts';
import type { StoredCredential, Vault, VaultStore } from '../vault.ts';
import { findTenant } from './tenants.ts';

/** What a tenant does with its own accounts at providers, by HTTP or by the command line. */

export const credentialSchema = Type.Object(
  {
    // Never repeated in a refusal.
    api_key: Type.String({
      minLength: 1,
      maxLength: providerKeyLengthMax,
      expected: `a text of 1 to ${providerKeyLengthMax} characters`,
      description: 'A word, a pair of AWS, or the JSON of a Google service account.',
      hidden: true,
    }),
    mode: optional(oneOf(...byokModes)),
    base_url: optional(
      Type.String({
        pattern: '^https?://[^\\s]+$',
        expected: 'an http(s) address such as "https://api.example.com/v1"',
        hidden: true,
      }),
    ),
  },
  { additionalProperties: false },
);
const credentialCheck = Compile(credentialSchema);

interface ByokProvider {
  readonly byokBaseUrl: boolean;
  readonly dialect: string;
  readonly baseUrl: string;
  readonly region?: string | undefined;
}

export interface ByokService {
  readonly directory: Pick<Directory, 'getTenant'>;
  readonly credentials: VaultStore;
  /** The providers for which a tenant may bring a key, by name. */
  readonly providers: ReadonlyMap<string, ByokProvider>;
  now(): number;
  /** Needed to save, not to look or to remove: those work without the secret key. */
  vault(): Vault | Promise<Vault>;
  /** Why an address that a tenant gave is refused; null when it is not. */
  refusalOf(url: string): Promise<string | null>;
  /** Called after a change: this process need not wait for its next look at the store. */
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
  const input = validate(credentialCheck, credentialSchema, body);
  // A run of slashes is tried from its first only: a long one must not take quadratic time.
  const baseUrl = input.base_url?.replace(/(?<!\/)\/+$/, '') ?? null;
  if (baseUrl !== null) await checkBaseUrl(service, provider, known.byokBaseUrl, baseUrl);
  const refusal = refusalOfKey(input.api_key, baseUrl, known);
  if (refusal !== undefined) throw invalidRequest(`api_key ${refusal}.`, 'api_key');
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

/** A JSON key without its line ends: the end of a key is shown in tables and in sentences. */
function compact(apiKey: string): string {
  const document = parseJson(apiKey);
  return isObject(document) ? JSON.stringify(document) : apiKey;
}

/** The rest of a sentence that begins with the field's name; undefined for a key that will do. */
function refusalOfKey(
  text: string,
  baseUrl: string | null,
  known: ByokProvider,
): string | undefined {
  const key = readProviderKey(text, known.dialect);
  if (typeof key === 'string') return key;
  switch (key.kind) {
    case 'word':
      // The key goes into a header as it is, so it must hold nothing that could end one.
      if (/^[\x21-\x7e]+$/.test(key.value)) return undefined;
      return 'must be visible ASCII characters without spaces';
    case 'service_account':
      // Otherwise anybody who can bring a key could make us call any address.
      if (key.tokenUrl === googleTokenUrl) return undefined;
      return `must have Google's own token_uri, ${googleTokenUrl}`;
    case 'aws':
      if (regionIn(baseUrl ?? known.baseUrl) ?? known.region) return undefined;
      return 'signs for a region, and neither the address nor the provider names one';
  }
}

async function checkBaseUrl(
  service: ByokService,
  provider: string,
  isAllowed: boolean,
  baseUrl: string,
): Promise<void> {
  if (!isAllowed) {
    const message = `The provider "${provider}" does not take a base URL of your own.`;
    throw invalidRequest(message, 'base_url');
  }
  // Paths are appended to it; behind a query or a fragment they would mean something else.
  const refusal = /[?#]/.test(baseUrl)
    ? 'The URL must not have a query or a fragment.'
    : await service.refusalOf(baseUrl);
  if (refusal !== null) throw invalidRequest(`base_url is refused: ${refusal}`, 'base_url');
}

/** Looked for among all of the tenant's: the operator may have removed the provider. */
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
  return notFound(`There is no credential for the provider "${provider}".`, 'provider');
}

function unknownProvider({ providers }: ByokService, name: string): GatewayError {
  const hint = didYouMean(name, providers.keys()) || '.';
  return notFound(`There is no provider "${name.slice(0, 100)}"${hint}`, 'provider');
}

type CredentialObject = Readonly<ReturnType<typeof credentialObject>>;

/** A credential as its owner sees it. The key itself is never shown again, to anybody. */
function credentialObject(credential: StoredCredential) {
  return {
    provider: credential.provider,
    label: credential.label,
    mode: credential.mode,
    base_url: credential.baseUrl,
    created_at: new Date(credential.createdAt).toISOString(),
    updated_at: new Date(credential.updatedAt).toISOString(),
  };
}
