import type { Model, Provider } from '../../src/config/config.ts';
import { Catalogue, type Offer } from '../../src/route/catalogue.ts';

/** A provider that is there for all, at an address that nobody calls. */
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

interface At {
  readonly provider: string;
  /** Without one, the endpoints are tried as they are listed. */
  readonly priority?: number;
  readonly prompt?: string;
  readonly completion?: string;
}

/** A model of texts, called `<id>@<provider>` at each of its endpoints. */
export function modelAt(id: string, endpoints: readonly At[]): Model {
  return {
    id,
    name: id,
    input_modalities: ['text'],
    output_modalities: ['text'],
    features: [],
    endpoints: endpoints.map(({ provider, priority, prompt = '1', completion = '1' }, i) => ({
      provider,
      model: `${id}@${provider}`,
      priority: priority ?? i,
      pricing: { prompt, completion },
    })),
  };
}

/** `acme/chat` at a provider that has another name for it. */
export function offerCalled(upstreamModel: string, change: Partial<Provider> = {}): Offer {
  const vendors = new Map([['vendor', providerNamed('vendor', change)]]);
  const catalogue = new Catalogue([modelAt('acme/chat', [{ provider: 'vendor' }])], vendors);
  const [offer] = catalogue.offers('acme/chat');
  if (!offer) throw new Error('A model without an offer.');
  return { ...offer, upstreamModel };
}
