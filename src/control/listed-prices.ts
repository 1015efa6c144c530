import type { Config } from '../config/config.ts';
import type { PriceConfig } from '../config/price-schema.ts';
import { ageInDays, type ListedPrice, listPrices } from '../config/prices.ts';
import type { OwnershipObject, PriceObject } from '../contract/config.ts';
import type { ConfigObject, ConfigServiceDeps } from './config-service.ts';
import { listObjects } from './config-service.ts';

type Owners = Pick<ConfigServiceDeps, 'base' | 'now'>;

/** Returns every price of every endpoint, also those that the catalog or a model sets. */
export async function listPriceObjects(
  deps: ConfigServiceDeps,
  config: Config,
): Promise<PriceObject[]> {
  const owners = async (kind: 'price' | 'model') =>
    new Map((await listObjects(deps, kind)).map((object) => [object.name, object]));
  const prices = await owners('price');
  const models = await owners('model');
  return listPrices(config, deps.now()).map((listed) => {
    const owner = listed.isOfModel ? models.get(listed.model) : prices.get(listed.name);
    return { ...listedObject(listed, deps), ...ownershipOf(owner ?? builtIn, deps) };
  });
}

const builtIn: ConfigObject = { name: '', owner: 'built_in', document: {}, stored: null };

/** Returns one price, which the configuration may not have yet. */
export function priceObject(object: ConfigObject, config: Config, deps: Owners): PriceObject {
  const { name, document } = object;
  const { model, provider, from, upstream_model, pricing, price_source } =
    document as unknown as PriceConfig;
  const found = listPrices(config, deps.now()).find((listed) => listed.name === name);
  const endpoint = config.models
    .find(({ id }) => id === model)
    ?.endpoints.find((one) => one.provider === provider);
  const listed: ListedPrice = {
    ...{ name, model, provider, until: null, state: 'scheduled', isOfModel: false },
    upstreamModel: upstream_model ?? endpoint?.model ?? '',
    from: from === undefined ? null : Date.parse(from),
    ...found,
    // The configuration may be older than the document.
    pricing,
    source: price_source ? { ...price_source, dated: 'price' } : null,
  };
  return { ...listedObject(listed, deps), ...ownershipOf(object, deps) };
}

function listedObject(listed: ListedPrice, { now }: Owners) {
  const { isOfModel, upstreamModel, from, until, source, pricing, ...rest } = listed;
  return {
    ...rest,
    upstream_model: upstreamModel,
    from: timeOf(from),
    until: timeOf(until),
    pricing,
    price_source: source && {
      ...{ name: source.name, date: source.date ?? null, dated: source.dated },
      age_days: ageInDays(source, now()),
    },
  };
}

export function ownershipOf({ owner, stored }: ConfigObject, { base }: Owners): OwnershipObject {
  return {
    owner,
    source: owner === 'file' ? base().source : null,
    version: stored?.version ?? null,
    created_at: timeOf(stored?.createdAt),
    created_by: stored?.createdBy ?? null,
    updated_at: timeOf(stored?.updatedAt),
    updated_by: stored?.updatedBy ?? null,
  };
}

function timeOf(ms: number | null | undefined): string | null {
  return typeof ms === 'number' ? new Date(ms).toISOString() : null;
}
