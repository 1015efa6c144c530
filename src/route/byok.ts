import type { Credential } from '../core/byok.ts';
import { nearest } from '../core/nearest.ts';
import type { CallableModels, Catalogue, Offer } from './catalogue.ts';

/**
 * The catalogue as a tenant with accounts of its own may use it. Where it has a credential, its own
 * account takes the place of the operator's, with the shared one right behind it or nowhere.
 */
export function withOwnAccounts(
  catalogue: Catalogue,
  credentials: readonly Credential[],
  feeBasisPoints: number,
): CallableModels {
  if (credentials.length === 0) return catalogue;
  const byProvider = new Map(credentials.map((credential) => [credential.provider, credential]));
  const offers = (alias: string): readonly Offer[] => {
    const every = catalogue.everyOffer(alias);
    const credentialOf = ({ provider }: Offer) => byProvider.get(provider.name);
    // Who says «only my own account» means the model, not one of the ways to it.
    const ownOnly = every.some((offer) => credentialOf(offer)?.mode === 'byok_only');
    return every
      .map((offer) => ownOrShared(offer, credentialOf(offer), ownOnly, feeBasisPoints))
      .filter((offer) => offer !== undefined);
  };
  const live = () => catalogue.models().filter((model) => offers(model.id).length > 0);
  return {
    offers,
    live,
    model: (alias) => catalogue.model(alias),
    suggest: (alias) =>
      nearest(
        alias,
        live().map((model) => model.id),
      ),
  };
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

/** Undefined when the credential cannot be used at this provider as things are. */
function ownOffer(
  offer: Offer,
  { apiKey, baseUrl, scope }: Credential,
  feeBasisPoints: number,
  sharedNext: Offer | null,
): Offer | undefined {
  const { provider } = offer;
  if (apiKey === null) return undefined;
  // The key was given for that address; it does not go to another one once the operator forbids it.
  if (baseUrl !== null && !provider.byokBaseUrl) return undefined;
  return {
    ...offer,
    // Headers are the operator's too: some vendors take their credential there (CVE-2024-37895).
    provider: { ...provider, apiKey, headers: {}, baseUrl: baseUrl ?? provider.baseUrl },
    own: { scope, feeBasisPoints, isUserAddress: baseUrl !== null, sharedNext },
  };
}
