import type { Alias } from '../config/aliases.ts';
import type { Config, Endpoint, Model, Provider, ProviderKey } from '../config/config.ts';
import type { SpeechSettings } from '../config/model-schema.ts';
import type { DialectName, Quirks } from '../config/provider-schema.ts';
import { type Caller, type Credential, mayUseModel } from '../core/caller.ts';
import { type GatewayError, invalidRequest } from '../core/errors.ts';
import { priceAt } from '../money/price/history.ts';
import { type Margin, withMargin } from '../money/price/margin.ts';
import { type PriceList, type PriceStrings, readPriceList } from '../money/price/price-list.ts';
import { Aliases, type AliasRequest } from './aliases.ts';
import { ModelNames } from './model-names.ts';
import { nearestModel } from './nearest-model.ts';

/** An endpoint joined with its model and provider: everything an attempt needs. */
export interface Offer {
  readonly model: Model;
  readonly provider: Provider;
  /** The provider's name for the model. Never sent to clients. */
  readonly upstreamModel: string;
  readonly dialect: DialectName;
  readonly quirks: Quirks;
  readonly priority: number;
  /** The share of requests among offers of the same priority. Null: they are tried in order. */
  readonly weight: number | null;
  readonly prices: PriceList;
  /** The prices that are charged, as decimal strings. Stored with each receipt. */
  readonly pricing: PriceStrings;
  /** When the list prices took effect, in epoch milliseconds. Null if they have no start time. */
  readonly pricedFrom: number | null;
  /** Null if the list prices are charged. */
  readonly margin: AppliedMargin | null;
  /** The voices and limits for speech at this endpoint. */
  readonly speech?: SpeechSettings | undefined;
  /**
   * Set if the tenant's own provider key is used. Null for the operator's provider keys (shared
   * capacity).
   */
  readonly ownAccount: OwnAccount | null;
  /** Set if the provider has several keys. Attempts use the offer of one of them. */
  readonly keys: readonly OfferKey[] | null;
}

/** One of a provider's keys, and an offer that uses it. */
export interface OfferKey {
  readonly key: ProviderKey;
  readonly offer: Offer;
}

/** A plan's margin, and the list prices to which it was added. */
interface AppliedMargin extends Margin {
  readonly list: PriceStrings;
}

/** The properties of an offer with a tenant's own provider key. */
interface OwnAccount {
  /** Identifies the credential, whose failures don't affect other credentials. */
  readonly credentialVersion: string;
  /** The fee as a share of the list price. Nothing else is charged. */
  readonly feeBasisPoints: number;
  /** True if the tenant chose the URL, so that it is checked on every use. */
  readonly isUserUrl: boolean;
  /** The shared offer of the same endpoint, tried right after this one. Null if excluded. */
  readonly sharedNext: Offer | null;
}

type AmbiguousNames = Config['ambiguousModelNames'];

/** The models a caller can use, and their offers. */
export abstract class CallableModels {
  /**
   * Returns the offers of a model by priority. Empty if the model is unknown or no provider serves
   * it to this caller.
   */
  abstract offers(alias: string): readonly Offer[];
  abstract model(alias: string): Model | undefined;
  abstract models(): readonly Model[];
  abstract readonly names: ModelNames;
  abstract readonly ambiguousNames: AmbiguousNames;
  /** The operator's own names for models. They come before all other names. */
  abstract readonly aliases: Aliases;

  /** Returns the models with at least one offer. */
  callable(): readonly Model[] {
    return this.models().filter((model) => this.offers(model.id).length > 0);
  }

  /** Returns the IDs of the requested models, without duplicates. Throws 400. */
  resolveAll(names: readonly string[], request: AliasRequest): readonly string[] {
    const found = names.flatMap(
      (name) => this.#aliasModels(name, request) ?? [this.resolve(name, request.caller)],
    );
    return [...new Set(found)];
  }

  /** Returns the models that a key may use because its allow-list has a requested alias. */
  grantedBy(names: readonly string[], request: AliasRequest): readonly string[] {
    const { caller } = request;
    if (caller.models === null) return [];
    return names
      .filter((name) => mayUseModel(caller, name))
      .flatMap((name) => this.#aliasModels(name, request) ?? []);
  }

  #aliasModels(name: string, request: AliasRequest): readonly string[] | undefined {
    return this.aliases.modelsFor(name, request, this.model(name) !== undefined);
  }

  /** Returns whether a requested name is already the ID of a model. */
  isId(name: string): boolean {
    return this.model(name) !== undefined && !this.aliases.has(name);
  }

  /**
   * Returns the alias of a requested model. A name without a brand means the model of that name
   * that the caller can use. Throws 400 if there are several and the operator chose `reject`.
   */
  resolve(name: string, caller: Caller): string {
    if (this.model(name)) return name;
    const aliases = this.names.find(name);
    const [first = name] = aliases;
    if (aliases.length < 2) return first;
    const usable = aliases.filter(
      (alias) => mayUseModel(caller, alias) && this.offers(alias).length > 0,
    );
    if (usable.length > 1 && this.ambiguousNames === 'reject') throw ambiguousName(name, usable);
    return usable[0] ?? first;
  }

  /** Returns the callable model with the most similar name. */
  suggest(alias: string): string | undefined {
    const names = this.callable().map((model) => model.id);
    return nearestModel(alias, names);
  }
}

function ambiguousName(name: string, aliases: readonly string[]): GatewayError {
  const listed = aliases.map((alias) => `"${alias}"`).join(', ');
  const message = `The model name "${name}" is ambiguous. Use one of these: ${listed}.`;
  return invalidRequest(message, 'model');
}

/**
 * Returns a tenant's models, with the prices of a moment. Returns a promise only while its provider
 * keys are being loaded.
 */
export type CatalogOf = (
  caller: Pick<Caller, 'tenantId' | 'plan'>,
  at: number,
) => CallableModels | Promise<CallableModels>;

/** Which prices a catalog has. */
interface Pricing {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Null for list prices. */
  readonly margin: Margin | null;
}

interface ModelOffers {
  /** Includes those that require the tenant's own provider key. */
  readonly all: readonly Offer[];
  readonly shared: readonly Offer[];
}

const noOffers: ModelOffers = { all: [], shared: [] };

/** The configured models and their shared offers. Immutable; a reload builds a new catalog. */
export class Catalog extends CallableModels {
  readonly #models = new Map<string, Model>();
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #pricing: Pricing;
  /** Filled as models are requested: each plan has a catalog of all models. */
  readonly #offers = new Map<string, ModelOffers>();
  override readonly names: ModelNames;
  override readonly ambiguousNames: AmbiguousNames;
  override readonly aliases: Aliases;

  constructor(
    models: readonly Model[],
    providers: ReadonlyMap<string, Provider>,
    ambiguousNames: AmbiguousNames = 'first',
    aliases: readonly Alias[] = [],
    pricing: Pricing = { at: Date.now(), margin: null },
  ) {
    super();
    this.aliases = new Aliases(aliases);
    this.names = new ModelNames(models);
    this.ambiguousNames = ambiguousNames;
    this.#providers = providers;
    this.#pricing = pricing;
    for (const model of models) this.#models.set(model.id, model);
  }

  override offers(alias: string): readonly Offer[] {
    return this.#offersOf(alias).shared;
  }

  /** Returns all offers of a model, including those that require the tenant's own provider key. */
  allOffers(alias: string): readonly Offer[] {
    return this.#offersOf(alias).all;
  }

  /** Returns all offers at a provider. */
  offersAt(provider: string): readonly Offer[] {
    const all = [...this.#models.keys()].flatMap((id) => this.allOffers(id));
    return all.filter((offer) => offer.provider.name === provider);
  }

  #offersOf(alias: string): ModelOffers {
    const known = this.#offers.get(alias);
    if (known) return known;
    const model = this.#models.get(alias);
    // Names of unknown models would fill the map.
    if (!model) return noOffers;
    const { at, margin } = this.#pricing;
    const all = model.endpoints.flatMap((endpoint) => {
      const provider = this.#providers.get(endpoint.provider);
      return provider ? [toOffer(model, endpoint, provider, at, margin)] : [];
    });
    const offers = { all, shared: all.filter(({ provider }) => provider.shared) };
    this.#offers.set(alias, offers);
    return offers;
  }

  override models(): readonly Model[] {
    return [...this.#models.values()];
  }

  override model(alias: string): Model | undefined {
    return this.#models.get(alias);
  }
}

function toOffer(
  model: Model,
  endpoint: Endpoint,
  provider: Provider,
  at: number,
  margin: Margin | null,
): Offer {
  const { from, pricing: list } = priceAt(endpoint, at);
  const pricing = margin ? withMargin(list, margin) : list;
  const offer: Offer = {
    model,
    provider,
    upstreamModel: endpoint.model,
    dialect: endpoint.dialect ?? provider.dialect,
    quirks: { ...provider.quirks, ...endpoint.quirks },
    priority: endpoint.priority,
    weight: endpoint.weight ?? null,
    prices: readPriceList(pricing),
    pricing,
    pricedFrom: from,
    margin: margin && { ...margin, list },
    speech: endpoint.speech ?? model.speech,
    ownAccount: null,
    keys: null,
  };
  if (!provider.keys) return offer;
  const keys = provider.keys
    .filter(({ isDisabled }) => !isDisabled)
    .map((key) => ({ key, offer: { ...offer, provider: key.provider } }));
  return { ...offer, keys };
}

/**
 * Returns a function for the catalogs of tenants with their own provider keys. An offer with the
 * tenant's key comes before the operator's shared offer, or excludes it. The same list of
 * credentials gets the same catalog.
 */
export function withProviderKeys(
  catalog: Catalog,
  feeBasisPoints: number,
): (credentials: readonly Credential[]) => CallableModels {
  const known = new WeakMap<readonly Credential[], TenantCatalog>();
  return (credentials) => {
    if (credentials.length === 0) return catalog;
    const tenantCatalog =
      known.get(credentials) ?? new TenantCatalog(catalog, credentials, feeBasisPoints);
    known.set(credentials, tenantCatalog);
    return tenantCatalog;
  };
}

class TenantCatalog extends CallableModels {
  readonly #catalog: Catalog;
  readonly #byProvider = new Map<string, Credential>();
  readonly #feeBasisPoints: number;
  readonly #offers = new Map<string, readonly Offer[]>();

  constructor(catalog: Catalog, credentials: readonly Credential[], feeBasisPoints: number) {
    super();
    this.#catalog = catalog;
    for (const credential of credentials) this.#byProvider.set(credential.provider, credential);
    this.#feeBasisPoints = feeBasisPoints;
  }

  override offers(alias: string): readonly Offer[] {
    const known = this.#offers.get(alias);
    if (known) return known;
    const offers = this.#catalog.allOffers(alias);
    // Names of unknown models would fill the map.
    if (offers.length === 0) return offers;
    const tenantOffers = this.#withOwnAccounts(offers);
    this.#offers.set(alias, tenantOffers);
    return tenantOffers;
  }

  #withOwnAccounts(offers: readonly Offer[]): readonly Offer[] {
    // `byok_only` at one provider of a model excludes shared capacity for the entire model.
    const ownOnly = offers.some((offer) => this.#credentialAt(offer)?.mode === 'byok_only');
    return offers
      .map((offer) => ownOrShared(offer, this.#credentialAt(offer), ownOnly, this.#feeBasisPoints))
      .filter((offer) => offer !== undefined);
  }

  override get names(): ModelNames {
    return this.#catalog.names;
  }

  override get ambiguousNames(): AmbiguousNames {
    return this.#catalog.ambiguousNames;
  }

  override get aliases(): Aliases {
    return this.#catalog.aliases;
  }

  override model(alias: string): Model | undefined {
    return this.#catalog.model(alias);
  }

  override models(): readonly Model[] {
    return this.#catalog.models();
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

/** Returns undefined if the credential can't be used at this provider with the current settings. */
function ownOffer(
  offer: Offer,
  { apiKey, baseUrl, credentialVersion }: Credential,
  feeBasisPoints: number,
  sharedNext: Offer | null,
): Offer | undefined {
  const { provider } = offer;
  if (apiKey === null) return undefined;
  // The key belongs to the tenant's own URL. If the operator no longer allows such URLs, the key
  // must not be sent to the operator's URL.
  if (baseUrl !== null && !provider.byokBaseUrl) return undefined;
  // The operator's headers can contain its credential (CVE-2024-37895).
  const own = { apiKey, keys: undefined, workload: undefined, headers: {} };
  const list = offer.margin?.list;
  return {
    ...offer,
    // The fee is a share of the list price, so a plan's margin doesn't apply.
    ...(list && { margin: null, pricing: list, prices: readPriceList(list) }),
    provider: { ...provider, ...own, baseUrl: baseUrl ?? provider.baseUrl },
    ownAccount: { credentialVersion, feeBasisPoints, isUserUrl: baseUrl !== null, sharedNext },
    keys: null,
  };
}
