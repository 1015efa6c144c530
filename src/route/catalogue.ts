import type { Endpoint, Model, Provider } from '../config/config.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { nearest } from '../core/nearest.ts';
import { type Prices, readPrices } from '../core/prices.ts';

/** One way to get a model answered: a model at a provider, with everything an attempt needs. */
export interface Offer {
  readonly model: Model;
  readonly provider: Provider;
  /** What the provider calls the model. Never shown to a client. */
  readonly upstreamModel: string;
  readonly dialect: DialectName;
  readonly quirks: Quirks;
  readonly priority: number;
  readonly prices: Prices;
  /** The same prices as the operator wrote them, to be kept with each bill. */
  readonly pricing: Endpoint['pricing'];
}

/** The models this process can serve. Built once; a changed configuration builds a new one. */
export class Catalogue {
  readonly #models = new Map<string, Model>();
  readonly #offers = new Map<string, readonly Offer[]>();

  constructor(models: readonly Model[], providers: ReadonlyMap<string, Provider>) {
    for (const model of models) {
      const offers = model.endpoints.flatMap((endpoint) => {
        const provider = providers.get(endpoint.provider);
        return provider ? [makeOffer(model, endpoint, provider)] : [];
      });
      this.#models.set(model.id, model);
      this.#offers.set(model.id, offers);
    }
  }

  /** By priority; empty when no configured provider serves the model, or nobody knows it. */
  offers(alias: string): readonly Offer[] {
    return this.#offers.get(alias) ?? [];
  }

  model(alias: string): Model | undefined {
    return this.#models.get(alias);
  }

  /** Models that can be called now. */
  live(): readonly Model[] {
    return [...this.#models.values()].filter((model) => this.offers(model.id).length > 0);
  }

  suggest(alias: string): string | undefined {
    return nearest(
      alias,
      this.live().map((model) => model.id),
    );
  }
}

function makeOffer(model: Model, endpoint: Endpoint, provider: Provider): Offer {
  return {
    model,
    provider,
    upstreamModel: endpoint.model,
    dialect: endpoint.dialect ?? provider.dialect,
    quirks: { ...provider.quirks, ...endpoint.quirks },
    priority: endpoint.priority,
    prices: readPrices(endpoint.pricing),
    pricing: endpoint.pricing,
  };
}
