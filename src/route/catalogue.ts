import type { Endpoint, Model, Provider } from '../config/config.ts';
import type { SpeechTerms } from '../config/model-schema.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { type PriceList, readPriceList } from '../core/prices.ts';
import { nearestModel } from './nearest-model.ts';

/** One way to get a model answered: a model at a provider, with everything an attempt needs. */
export interface Offer {
  readonly model: Model;
  readonly provider: Provider;
  /** What the provider calls the model. Never shown to a client. */
  readonly upstreamModel: string;
  readonly dialect: DialectName;
  readonly quirks: Quirks;
  readonly priority: number;
  readonly prices: PriceList;
  /** The same prices as the operator wrote them, to be kept with each bill. */
  readonly pricing: Endpoint['pricing'];
  /** The voices and limits of speech at this endpoint. */
  readonly speech?: SpeechTerms | undefined;
  /** Set when the caller's own account is used; null on shared capacity. */
  readonly own: OwnAccount | null;
}

/** What differs when a tenant's own account at a provider is used. */
interface OwnAccount {
  /** Identifies the credential: its failures say nothing about other credentials. */
  readonly scope: string;
  /** The share of the list price that is charged here, and all that is. */
  readonly feeBasisPoints: number;
  /** The tenant gave the address, so it is checked at every use. */
  readonly isUserAddress: boolean;
  /**
   * Shared capacity at the same endpoint, tried right after the own account; null when unwanted.
   */
  readonly sharedNext: Offer | null;
}

/** The models that a caller can use, and where. */
export abstract class CallableModels {
  /** By priority; empty when the model is unknown, or no provider serves it to this caller. */
  abstract offers(alias: string): readonly Offer[];
  abstract model(alias: string): Model | undefined;
  abstract models(): readonly Model[];

  /** Models that can be called now. */
  live(): readonly Model[] {
    return this.models().filter((model) => this.offers(model.id).length > 0);
  }

  /** The callable model whose name is nearest to this one. */
  suggest(alias: string): string | undefined {
    const names = this.live().map((model) => model.id);
    return nearestModel(alias, names);
  }
}

/** What a tenant can call; a promise only while its own credentials are being read. */
export type CatalogueOf = (tenantId: string) => CallableModels | Promise<CallableModels>;

/**
 * The models this process can serve, and their offers on shared capacity. Built once; a changed
 * configuration builds a new one.
 */
export class Catalogue extends CallableModels {
  readonly #models = new Map<string, Model>();
  readonly #every = new Map<string, readonly Offer[]>();
  readonly #shared = new Map<string, readonly Offer[]>();

  constructor(models: readonly Model[], providers: ReadonlyMap<string, Provider>) {
    super();
    for (const model of models) {
      const offers = model.endpoints.flatMap((endpoint) => {
        const provider = providers.get(endpoint.provider);
        return provider ? [makeOffer(model, endpoint, provider)] : [];
      });
      this.#models.set(model.id, model);
      this.#every.set(model.id, offers);
      this.#shared.set(
        model.id,
        offers.filter(({ provider }) => provider.shared),
      );
    }
  }

  override offers(alias: string): readonly Offer[] {
    return this.#shared.get(alias) ?? [];
  }

  /** All offers of a model, including those that need an account of the caller's own. */
  everyOffer(alias: string): readonly Offer[] {
    return this.#every.get(alias) ?? [];
  }

  override models(): readonly Model[] {
    return [...this.#models.values()];
  }

  override model(alias: string): Model | undefined {
    return this.#models.get(alias);
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
    prices: readPriceList(endpoint.pricing),
    pricing: endpoint.pricing,
    speech: endpoint.speech ?? model.speech,
    own: null,
  };
}
