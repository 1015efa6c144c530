import { isObject } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { priceAt } from '../money/price/history.ts';
import { unitFactor } from '../money/price/margin.ts';
import type { Config, Endpoint, Model, Plan, PriceChange } from './config.ts';
import { priceProblems } from './model-problems.ts';
import type { PricingConfig } from './model-schema.ts';
import type { PlanConfig, PriceConfig } from './price-schema.ts';
import type { ConfigProblem } from './problems.ts';
import type { ConfigFile } from './schema.ts';

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
  const byEndpoint = Map.groupBy(prices, ({ model, provider }) => endpointName(model, provider));
  return models.map((model) => {
    const endpoints = model.endpoints.map((endpoint) => {
      const changes = byEndpoint.get(endpointName(model.id, endpoint.provider));
      return changes ? withChanges(endpoint, changes) : endpoint;
    });
    return { ...model, endpoints };
  });
}

function withChanges(endpoint: Endpoint, changes: readonly PriceConfig[]): Endpoint {
  const { pricing = endpoint.pricing } = changes.find(({ from }) => from === undefined) ?? {};
  const priceChanges = changes
    .flatMap((change): PriceChange[] =>
      change.from === undefined
        ? []
        : [{ from: Date.parse(change.from), fromText: change.from, pricing: change.pricing }],
    )
    .sort((a, b) => a.from - b.from);
  return { ...endpoint, pricing, priceChanges };
}

/** Provider names have no spaces. */
function endpointName(model: string, provider: string): string {
  return `${provider} ${model}`;
}

/** A price with its place in the history of an endpoint. */
export interface ListedPrice {
  readonly model: string;
  readonly provider: string;
  readonly from: { readonly text: string; readonly time: number } | null;
  /** The start of the next price, in epoch milliseconds. */
  readonly until: number | null;
  readonly state: 'past' | 'in_force' | 'scheduled';
  readonly pricing: PricingConfig;
}

/** Returns the price history of every endpoint, with scheduled prices. */
export function listPrices({ models }: Pick<Config, 'models'>, now: number): ListedPrice[] {
  return models.flatMap(({ id, endpoints }) =>
    endpoints.flatMap((endpoint) => {
      const { provider, pricing, priceChanges = [] } = endpoint;
      const changes = priceChanges.map(({ from, fromText, pricing: changed }) => ({
        from: { text: fromText, time: from },
        pricing: changed,
      }));
      const history = [{ from: null, pricing }, ...changes];
      const current = priceAt(endpoint, now).from;
      return history.map((entry, index): ListedPrice => {
        const { from } = entry;
        const isPast = (from?.time ?? Number.NEGATIVE_INFINITY) <= now;
        const state = !isPast
          ? 'scheduled'
          : (from?.time ?? null) === current
            ? 'in_force'
            : 'past';
        const until = changes[index]?.from.time ?? null;
        return { model: id, provider, from, until, state, pricing: entry.pricing };
      });
    }),
  );
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
    const { model: id, provider, from, pricing } = price as unknown as PriceConfig;
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
    const time = from === undefined ? null : Date.parse(from);
    if (Number.isNaN(time)) {
      return [{ path: `${path}.from`, message: `must be an existing time, not "${from}"` }];
    }
    const identity = `${endpointName(id, provider)} ${time}`;
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
