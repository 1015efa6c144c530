import type { Model, Provider, ProviderKey } from '../../src/config/config.ts';
import { Secret } from '../../src/core/secret.ts';
import { Catalog, type Offer } from '../../src/route/catalog.ts';

/** Returns a provider that all tenants may use, with a URL that is never called. */
export function providerNamed(name: string, change: Partial<Provider> = {}): Provider {
  return {
    name,
    dialect: 'openai',
    baseUrl: 'http://vendor.test/v1',
    apiKey: null,
    headers: {},
    timeoutMs: 1,
    idleTimeoutMs: 1,
    shared: true,
    byokBaseUrl: false,
    quirks: {},
    ...change,
  };
}

/** Returns the provider with several keys. */
export function withKeys(
  provider: Provider,
  names: readonly string[],
  change: Partial<ProviderKey> = {},
): Provider {
  const keys = names.map((name) => {
    const withKey = { ...provider, apiKey: new Secret(`sk-${name}-0123456789abcdef`) };
    const none = { requestsPerMinute: null, concurrentRequests: null, until: null };
    const limits = { ...none, isDisabled: false };
    return { name, provider: withKey, weight: 1, ...limits, ...change };
  });
  return { ...provider, apiKey: keys[0]?.provider.apiKey ?? null, keys };
}

interface At {
  readonly provider: string;
  /** By default, the endpoints are tried in the order of the list. */
  readonly priority?: number;
  readonly weight?: number;
  readonly prompt?: string;
  readonly completion?: string;
}

/** Returns a text model. Its name at each provider is `<id>@<provider>`. */
export function modelAt(id: string, endpoints: readonly At[]): Model {
  return {
    id,
    name: id,
    input_modalities: ['text'],
    output_modalities: ['text'],
    features: [],
    endpoints: endpoints.map(
      ({ provider, priority, weight, prompt = '1', completion = '1' }, i) => ({
        provider,
        model: `${id}@${provider}`,
        priority: priority ?? (weight === undefined ? i : 0),
        ...(weight !== undefined && { weight }),
        pricing: { prompt, completion },
      }),
    ),
  };
}

/** Returns an offer of `acme/chat`. The provider's name for the model is `upstreamModel`. */
export function offerCalled(upstreamModel: string, change: Partial<Provider> = {}): Offer {
  const vendors = new Map([['vendor', providerNamed('vendor', change)]]);
  const catalog = new Catalog([modelAt('acme/chat', [{ provider: 'vendor' }])], vendors);
  const [offer] = catalog.offers('acme/chat');
  if (!offer) throw new Error('The model has no offer.');
  return { ...offer, upstreamModel };
}
