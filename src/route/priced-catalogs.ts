import type { Config, Model, Provider } from '../config/config.ts';
import type { Credential } from '../core/caller.ts';
import { Catalog, type CatalogOf, withProviderKeys } from './catalog.ts';
import { PricePeriods } from './price-periods.ts';

interface Priced {
  readonly config: Pick<Config, 'plans' | 'billing' | 'ambiguousModelNames' | 'aliases'>;
  readonly models: readonly Model[];
  readonly providers: ReadonlyMap<string, Provider>;
  /** Returns a tenant's provider keys. Returns a promise only while they are being loaded. */
  credentialsOf(tenantId: string): readonly Credential[] | Promise<readonly Credential[]>;
}

/** Returns a function for each tenant's models, with the prices of its plan at a moment. */
export function createCatalogOf({ config, models, providers, credentialsOf }: Priced): CatalogOf {
  const { plans, billing, ambiguousModelNames, aliases } = config;
  const periods = new PricePeriods(priceChangeTimes(models), (at, name) => {
    const plan = plans.get(name ?? '') ?? null;
    const pricing = { at, margin: plan };
    const catalog = new Catalog(models, providers, ambiguousModelNames, aliases, pricing);
    return withProviderKeys(catalog, plan?.byokFeeBasisPoints ?? billing.byokFeeBasisPoints);
  });
  return ({ tenantId, plan }, at) => {
    const withCredentials = periods.pricesAt(at, planNamed(plan, config));
    const credentials = credentialsOf(tenantId);
    return credentials instanceof Promise
      ? credentials.then(withCredentials)
      : withCredentials(credentials);
  };
}

interface PricedCall {
  readonly receivedAt: number;
  readonly pricedAt?: number;
}

/** Returns the moment whose prices a call has, on the store's clock, which all processes share. */
export function pricingTime({ receivedAt, pricedAt }: PricedCall, storeAheadMs: number): number {
  return pricedAt ?? receivedAt + storeAheadMs;
}

/** Returns the times at which prices change. */
function priceChangeTimes(models: readonly Model[]): readonly number[] {
  return models.flatMap(({ endpoints }) =>
    endpoints.flatMap(({ priceChanges = [] }) => priceChanges.map(({ from }) => from)),
  );
}

/** Returns the plan that a tenant has: its own if it is still configured, or the default one. */
function planNamed(
  name: string | null,
  { plans, billing }: Pick<Config, 'plans' | 'billing'>,
): string | null {
  return name !== null && plans.has(name) ? name : billing.defaultPlan;
}
