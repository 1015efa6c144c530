import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { byokModes } from '../../core/byok.ts';
import { type GatewayError, invalidRequest, notFound } from '../../core/errors.ts';
import { validate } from '../../core/misfit.ts';
import { didYouMean } from '../../core/nearest.ts';
import { oneOf, optional } from '../../core/schema-builders.ts';
import type { Directory } from '../directory.ts';
import type { StoredCredential, Vault, VaultStore } from '../vault.ts';
import { findTenant } from './tenants.ts';

/** What a tenant does with its own accounts at providers, by HTTP or by the command line. */

/** Longer than any vendor's key; service-account documents are not keys. */
const apiKeyLengthMax = 1_000;

export const credentialSchema = Type.Object(
  {
    // Goes into a header as it is, so nothing that could end one. Never repeated in a refusal.
    api_key: Type.String({
      pattern: `^[\\x21-\\x7e]{1,${apiKeyLengthMax}}$`,
      expected: `1 to ${apiKeyLengthMax} visible ASCII characters without spaces`,
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

/** A credential as its owner sees it. The key itself is never shown again, to anybody. */
export interface CredentialObject {
  readonly provider: string;
  readonly label: string;
  readonly mode: string;
  readonly base_url: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface ByokDesk {
  readonly directory: Pick<Directory, 'getTenant'>;
  readonly credentials: VaultStore;
  /** Those that can be brought a key for, by name. */
  readonly providers: ReadonlyMap<string, { readonly byokBaseUrl: boolean }>;
  readonly now: () => number;
  /** Needed to save, not to look or to remove: those work without the secret key. */
  vault(): Vault | Promise<Vault>;
  /** Why an address that a tenant gave is refused; null when it is not. */
  refusalOf(url: string): Promise<string | null>;
  /** This process need not wait for its next look at the store. */
  changed(): void;
}

export async function listCredentials(
  desk: ByokDesk,
  tenantId: string,
): Promise<readonly CredentialObject[]> {
  return (await desk.credentials.list(tenantId)).map(credentialObject);
}

export async function showCredential(
  desk: ByokDesk,
  tenantId: string,
  provider: string,
): Promise<CredentialObject> {
  return credentialObject(await findCredential(desk, tenantId, provider));
}

export async function setCredential(
  desk: ByokDesk,
  tenantId: string,
  provider: string,
  body: unknown,
): Promise<CredentialObject> {
  const known = desk.providers.get(provider);
  if (!known) throw unknownProvider(desk, provider);
  const input = validate(credentialCheck, credentialSchema, body);
  // A run of slashes is tried from its first only: a long one must not take quadratic time.
  const baseUrl = input.base_url?.replace(/(?<!\/)\/+$/, '') ?? null;
  if (baseUrl !== null) await checkBaseUrl(desk, provider, known.byokBaseUrl, baseUrl);
  const { id } = await findTenant(desk.directory, tenantId);
  const mode = input.mode ?? 'byok_first';
  const credential = { tenantId: id, provider, apiKey: input.api_key, baseUrl, mode };
  return credentialObject(await (await desk.vault()).save(credential, desk.now()));
}

export async function deleteCredential(
  desk: ByokDesk,
  tenantId: string,
  provider: string,
): Promise<void> {
  await findCredential(desk, tenantId, provider);
  const isRemoved = await desk.credentials.remove(tenantId, provider);
  if (!isRemoved) throw noCredential(provider);
  desk.changed();
}

async function checkBaseUrl(
  desk: ByokDesk,
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
    : await desk.refusalOf(baseUrl);
  if (refusal !== null) throw invalidRequest(`base_url is refused: ${refusal}`, 'base_url');
}

/** Looked for among the tenant's few: a provider that the operator removed can still be found. */
async function findCredential(
  desk: ByokDesk,
  tenantId: string,
  provider: string,
): Promise<StoredCredential> {
  const all = await desk.credentials.list(tenantId);
  const found = all.find((credential) => credential.provider === provider);
  if (found) return found;
  throw desk.providers.has(provider) ? noCredential(provider) : unknownProvider(desk, provider);
}

function noCredential(provider: string): GatewayError {
  return notFound(`There is no credential for the provider "${provider}".`, 'provider');
}

function unknownProvider({ providers }: ByokDesk, name: string): GatewayError {
  const hint = didYouMean(name, providers.keys()) || '.';
  return notFound(`There is no provider "${name.slice(0, 100)}"${hint}`, 'provider');
}

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
