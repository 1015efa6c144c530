import type { Model } from '../config/config.ts';
import type { Credential } from '../core/byok.ts';
import { CallableModels, type Catalogue, type Offer } from './catalogue.ts';

/**
 * The catalogue as a tenant with accounts of its own may use it. Where the tenant has a credential,
 * its own account replaces the operator's; the shared offer follows right behind or is left out.
 */
export function withOwnAccounts(
  catalogue: Catalogue,
  credentials: readonly Credential[],
  feeBasisPoints: number,
): CallableModels {
  if (credentials.length === 0) return catalogue;
  return new OwnCatalogue(catalogue, credentials, feeBasisPoints);
}

class OwnCatalogue extends CallableModels {
  readonly #catalogue: Catalogue;
  readonly #byProvider = new Map<string, Credential>();
  readonly #feeBasisPoints: number;

  constructor(catalogue: Catalogue, credentials: readonly Credential[], feeBasisPoints: number) {
    super();
    this.#catalogue = catalogue;
    for (const credential of credentials) this.#byProvider.set(credential.provider, credential);
    this.#feeBasisPoints = feeBasisPoints;
  }

  override offers(alias: string): readonly Offer[] {
    const every = this.#catalogue.everyOffer(alias);
    // `byok_only` at one provider of a model rules out shared capacity for the whole model.
    const ownOnly = every.some((offer) => this.#credentialAt(offer)?.mode === 'byok_only');
    return every
      .map((offer) => ownOrShared(offer, this.#credentialAt(offer), ownOnly, this.#feeBasisPoints))
      .filter((offer) => offer !== undefined);
  }

  override model(alias: string): Model | undefined {
    return this.#catalogue.model(alias);
  }

  override models(): readonly Model[] {
    return this.#catalogue.models();
  }

  #credentialAt({ provider }: Offer): Credential | undefined {
    return this.#byProvider.get(provider.name);
  }
}

function ownOrShared(
  offer: Offer,
  credential: Credential | undefined,
  ownOnly: boolean,
  feeBasisPoints: number,
): Offer | undefined {
  const shared = offer.provider.shared && !ownOnly ? offer : undefined;
  if (!credential) return shared;
  return ownOffer(offer, credential, feeBasisPoints, shared ?? null) ?? shared;
}

/** Undefined when the credential cannot be used at this provider under the current settings. */
function ownOffer(
  offer: Offer,
  { apiKey, baseUrl, scope }: Credential,
  feeBasisPoints: number,
  sharedNext: Offer | null,
): Offer | undefined {
  const { provider } = offer;
  if (apiKey === null) return undefined;
  // The key was given for the tenant's own address: where the operator no longer allows such
  // addresses, the key is not sent to another one either.
  if (baseUrl !== null && !provider.byokBaseUrl) return undefined;
  return {
    ...offer,
    // Headers are the operator's too: some vendors take their credential there (CVE-2024-37895).
    provider: { ...provider, apiKey, headers: {}, baseUrl: baseUrl ?? provider.baseUrl },
    own: { scope, feeBasisPoints, isUserAddress: baseUrl !== null, sharedNext },
  };
}
