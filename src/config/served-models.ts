import { definedFields } from '../core/json.ts';
import { didYouMean } from '../core/text.ts';
import { Wildcards } from '../core/wildcards.ts';
import { builtinCatalog } from './catalog/index.ts';
import type { ModelConfig } from './model-schema.ts';
import type { ConfigProblem } from './problems.ts';
import type { ProviderConfig, ServedModels } from './provider-schema.ts';

type Endpoint = ModelConfig['endpoints'][number];

/**
 * Adds the endpoints of providers that serve models of the catalog, too, at the catalog's prices. A
 * model without a price there can't be called.
 */
export function withServedModels(
  catalog: readonly ModelConfig[],
  providers: Readonly<Record<string, ProviderConfig>>,
  problems: ConfigProblem[],
): readonly ModelConfig[] {
  const serving = Object.entries(providers).flatMap(([name, { serves }]) =>
    serves ? [{ name, serves, find: finderOf(serves) }] : [],
  );
  if (serving.length === 0) return catalog;
  for (const { name, serves } of serving) problems.push(...unmatched(name, serves, catalog));
  return catalog.map((model) => {
    const added = serving.flatMap(({ name, find }): Endpoint[] => {
      const found = find(model.id);
      const isServed = model.endpoints.some(({ provider }) => provider === name);
      return found && !isServed ? endpointAt(name, model, found) : [];
    });
    return added.length === 0 ? model : { ...model, endpoints: [...model.endpoints, ...added] };
  });
}

interface Found {
  readonly value: ServedModels;
  readonly rest: string;
}

/** The exact ID comes before wildcards. */
function finderOf(serves: readonly ServedModels[]): (id: string) => Found | undefined {
  const named = serves.map((served) => [served.match, served] as const);
  const [exact, wildcards] = [new Map(named), new Wildcards(named)];
  return (id) => {
    const value = exact.get(id);
    return value ? { value, rest: '' } : wildcards.find(id);
  };
}

/** The first endpoint of a model in the catalog is that of its vendor. */
function endpointAt(
  provider: string,
  { endpoints: [vendor] }: ModelConfig,
  { value: { model, priority, weight }, rest }: Found,
): Endpoint[] {
  if (!vendor?.pricing) return [];
  const { pricing, price_source = builtinCatalog.priceSources.get(vendor.provider) } = vendor;
  const name = model?.replace('*', () => rest) ?? vendor.model;
  return [{ provider, model: name, pricing, ...definedFields({ price_source, priority, weight }) }];
}

function unmatched(
  provider: string,
  serves: readonly ServedModels[],
  catalog: readonly ModelConfig[],
): readonly ConfigProblem[] {
  const ids = catalog.map(({ id }) => id);
  return serves.flatMap(({ match, model = '' }, index): ConfigProblem[] => {
    const path = `providers.${provider}.serves[${index}]`;
    if (model.includes('*') && !match.endsWith('*')) {
      return [{ path: `${path}.model`, message: 'can only have "*" if match ends in "*"' }];
    }
    const isMatch = match.endsWith('*')
      ? ids.some((id) => id.startsWith(match.slice(0, -1)))
      : ids.includes(match);
    if (isMatch) return [];
    const hint = didYouMean(match, ids) || '; add the model to models, with its price';
    const message = `is "${match}", but the catalog has no such model${hint}`;
    return [{ path: `${path}.match`, message }];
  });
}
