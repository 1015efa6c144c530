import { isObject } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { priceAt } from '../money/price/history.ts';
import { unitFactor } from '../money/price/margin.ts';
import { builtinCatalog } from './catalog/index.ts';
import type { Config, Endpoint, Model, Plan, PriceChange } from './config.ts';
import { priceProblems } from './model-problems.ts';
import type { PricingConfig } from './model-schema.ts';
import { type PlanConfig, type PriceConfig, priceName, readPriceTime } from './price-schema.ts';
import type { ConfigProblem } from './problems.ts';
import type { ConfigFile } from './schema.ts';
import type { PriceSource } from './schema-fields.ts';

// The sections `prices` and `plans`: prices with their start times, and margins.

interface PricesOfFile {
  readonly models: readonly Model[];
  readonly plans: ReadonlyMap<string, Plan>;
}

/** Reads `prices` and `plans`. */
export function withPrices(
  { prices = [], plans: configs = {}, billing }: ConfigFile,
  models: readonly Model[],
  problems: ConfigProblem[],
): PricesOfFile {
  const plans = plansOf(configs);
  problems.push(...defaultPlanProblem(billing?.default_plan, plans));
  return { models: withPriceChanges(models, prices), plans };
}

/** Adds the price changes to the endpoints of the models, in order of time. */
export function withPriceChanges(
  models: readonly Model[],
  prices: readonly PriceConfig[],
): readonly Model[] {
  if (prices.length === 0) return models;
  const byModel = Map.groupBy(prices, ({ model }) => model);
  return models.map((model) => {
    const ofModel = byModel.get(model.id);
    if (!ofModel) return model;
    return { ...model, endpoints: model.endpoints.map((one) => withChanges(one, ofModel)) };
  });
}

function withChanges(endpoint: Endpoint, ofModel: readonly PriceConfig[]): Endpoint {
  const changes = ofModel.filter(
    ({ provider, upstream_model: name = endpoint.model }) =>
      provider === endpoint.provider && name === endpoint.model,
  );
  if (changes.length === 0) return endpoint;
  // A price for this endpoint comes before one for all endpoints at the provider.
  const own = changes.toSorted(
    (a, b) => Number(a.upstream_model === undefined) - Number(b.upstream_model === undefined),
  );
  const basePrice = own.find(({ from }) => from === undefined);
  const byTime = new Map<number, PriceChange>();
  for (const {
    from: fromText,
    upstream_model: upstreamModel,
    pricing,
    price_source: source,
  } of own) {
    if (fromText === undefined) continue;
    const from = Date.parse(fromText);
    if (byTime.has(from)) continue;
    byTime.set(from, { from, fromText, upstreamModel, pricing, source });
  }
  const priceChanges = [...byTime.values()].sort((a, b) => a.from - b.from);
  return {
    ...endpoint,
    ...(basePrice && { pricing: basePrice.pricing, basePrice }),
    priceChanges,
  };
}

/** A price with its place in the history of an endpoint. */
export interface ListedPrice {
  readonly name: string;
  readonly model: string;
  readonly provider: string;
  readonly upstreamModel: string;
  /** Epoch milliseconds. */
  readonly from: number | null;
  /** The start of the next price. */
  readonly until: number | null;
  readonly state: 'past' | 'in_force' | 'scheduled';
  readonly pricing: PricingConfig;
  /** False for an entry of `prices`. */
  readonly isOfModel: boolean;
  readonly source: DatedSource | null;
}

export interface DatedSource extends PriceSource {
  /** `catalog` if the date is that of all prices of a provider in the built-in catalog. */
  readonly dated: 'price' | 'catalog';
}

/** Returns the price history of every endpoint, with scheduled prices. */
export function listPrices({ models }: Pick<Config, 'models'>, now: number): ListedPrice[] {
  return models.flatMap((model) =>
    model.endpoints.flatMap((endpoint) => {
      const { provider, priceChanges = [] } = endpoint;
      const current = priceAt(endpoint, now).from;
      const history = [
        firstPrice(model, endpoint),
        ...priceChanges.map((change) => changedPrice(model, endpoint, change)),
      ];
      return history.map((entry, index): ListedPrice => {
        const isPast = (entry.from ?? Number.NEGATIVE_INFINITY) <= now;
        const state = !isPast ? 'scheduled' : entry.from === current ? 'in_force' : 'past';
        const until = priceChanges[index]?.from ?? null;
        return { model: model.id, provider, upstreamModel: endpoint.model, until, state, ...entry };
      });
    }),
  );
}

type HistoryEntry = Pick<ListedPrice, 'name' | 'from' | 'pricing' | 'isOfModel' | 'source'>;

/** Returns the prices before the first change: of an entry without a start, or of the model. */
function firstPrice(model: Model, endpoint: Endpoint): HistoryEntry {
  const { provider, pricing, basePrice, price_source: own } = endpoint;
  if (basePrice) {
    const { price_source: source } = basePrice;
    return { ...entryOf({ pricing, source }), name: priceName({ ...basePrice }), from: null };
  }
  const atProvider = model.endpoints.filter((one) => one.provider === provider);
  const upstream = atProvider.length > 1 ? { upstream_model: endpoint.model } : {};
  const name = priceName({ model: model.id, provider, ...upstream });
  const ofCatalog = model.isBuiltIn && builtinCatalog.priceSources.get(provider);
  const source = own
    ? { ...own, dated: 'price' as const }
    : ofCatalog
      ? { ...ofCatalog, dated: 'catalog' as const }
      : null;
  return { name, from: null, pricing, isOfModel: true, source };
}

function changedPrice(model: Model, { provider }: Endpoint, change: PriceChange): HistoryEntry {
  const { from, fromText, upstreamModel } = change;
  const upstream = upstreamModel === undefined ? {} : { upstream_model: upstreamModel };
  const name = priceName({ model: model.id, provider, ...upstream, from: fromText });
  return { ...entryOf(change), name, from };
}

function entryOf({ pricing, source }: Pick<PriceChange, 'pricing' | 'source'>) {
  return {
    pricing,
    isOfModel: false,
    source: source ? { ...source, dated: 'price' as const } : null,
  };
}

const dayMs = 86_400_000;

/** Returns the whole days since a date, or since the first day of a month. Null if it's unknown. */
export function ageInDays({ date }: PriceSource, now: number): number | null {
  return date === undefined ? null : Math.max(0, Math.floor((now - Date.parse(date)) / dayMs));
}

/** Returns problems in `prices` that the schema can't detect. */
export function problemsOfPrices(
  prices: unknown,
  models: readonly Model[],
  isBroken: (path: string) => boolean,
): ConfigProblem[] {
  if (!Array.isArray(prices)) return [];
  const known = new Map(models.map((model) => [model.id, model]));
  const seen = new Set<string>();
  return prices.flatMap((price: unknown, index): ConfigProblem[] => {
    const path = `prices[${index}]`;
    if (!isObject(price) || isBroken(path)) return [];
    const entry = price as unknown as PriceConfig;
    const { model: id, provider, upstream_model: endpointModel, from, pricing } = entry;
    const model = known.get(id);
    if (!model) {
      const hint = didYouMean(id, known.keys());
      return [{ path: `${path}.model`, message: `names "${id}", which is not a model${hint}` }];
    }
    const providers = model.endpoints.map((endpoint) => endpoint.provider);
    if (!providers.includes(provider)) {
      const served = providers.length === 0 ? 'has no provider' : `has ${providers.join(', ')}`;
      const message = `names "${provider}", which is not a provider of this model; it ${served}`;
      return [{ path: `${path}.provider`, message }];
    }
    const upstream = model.endpoints
      .filter((endpoint) => endpoint.provider === provider)
      .map((endpoint) => endpoint.model);
    if (endpointModel !== undefined && !upstream.includes(endpointModel)) {
      const message =
        `names "${endpointModel}", which is not an endpoint of this model at ${provider}; it has ` +
        upstream.join(', ');
      return [{ path: `${path}.upstream_model`, message }];
    }
    const time = from === undefined ? null : readPriceTime(from);
    if (Number.isNaN(time)) {
      return [{ path: `${path}.from`, message: `must be an existing time, not "${from}"` }];
    }
    const identity = JSON.stringify([id, provider, endpointModel ?? null, time]);
    if (seen.has(identity)) {
      const message = 'is the start of an earlier entry for this model and provider, too';
      return [{ path: `${path}.from`, message }];
    }
    seen.add(identity);
    return priceProblems(model.features, pricing, `${path}.pricing`, isBroken);
  });
}

function plansOf(plans: Readonly<Record<string, PlanConfig>>): ReadonlyMap<string, Plan> {
  return new Map(
    Object.entries(plans).map(([plan, config]) => [
      plan,
      {
        plan,
        factorBasisPoints: config.factor_basis_points ?? unitFactor,
        surcharge: config.surcharge ?? {},
        byokFeeBasisPoints: config.byok_fee_basis_points ?? null,
      },
    ]),
  );
}

/** Returns the problem of a default plan that doesn't exist. */
function defaultPlanProblem(
  name: string | null | undefined,
  plans: ReadonlyMap<string, Plan>,
): ConfigProblem[] {
  if (name === null || name === undefined || plans.has(name)) return [];
  const hint = didYouMean(name, plans.keys()) || '; add it to plans, or set null';
  const message = `names "${name}", which is not a plan${hint}`;
  return [{ path: 'billing.default_plan', message }];
}
