import { priceAt } from '../../money/price/history.ts';
import { builtinCatalog } from '../catalog/index.ts';
import type { Config, Endpoint, Model } from '../config.ts';
import type { PricingConfig } from '../model-schema.ts';
import type { ListEntry, ListedFeature } from './entry.ts';
import type { PriceListFormat, PublicPriceList } from './price-list-file.ts';
import { comparePricing, type PriceDifference } from './pricing.ts';

// Compares a public price list with the prices in force.

export interface CheckOptions {
  readonly now: number;
  /** The names that the list has for providers, in place of those in the catalog. */
  readonly names: ReadonlyMap<string, string>;
  isChecked(model: string, provider: string): boolean;
}

export interface PriceCheck {
  readonly format: PriceListFormat;
  /** Endpoints that the list has. */
  readonly matched: number;
  /** Endpoints that differ from the list. */
  readonly differences: readonly EndpointDifference[];
  /** Endpoints that the list lacks, at providers that it has. */
  readonly unlisted: readonly EndpointId[];
  /** Providers of which the list has no model. */
  readonly unlistedProviders: readonly string[];
  /** Models of the list that have no endpoint, at providers that have other endpoints. */
  readonly added: readonly AddedModel[];
}

export interface EndpointId {
  readonly model: string;
  readonly provider: string;
  readonly upstreamModel: string;
}

export interface EndpointDifference extends EndpointId {
  readonly prices: readonly PriceDifference[];
  /** Prices in force that the list doesn't have. They stay as they are. */
  readonly lacking: readonly string[];
  readonly limits: readonly LimitDifference[];
  readonly features: readonly FeatureDifference[];
  /** Sentences without a period, about prices that can't be charged separately. */
  readonly notes: readonly string[];
  /** Sentences without a period. The prices can't be applied. */
  readonly problems: readonly string[];
  /** The prices in force with those of the list. */
  readonly pricing: PricingConfig;
  /** When the next scheduled price starts, in epoch milliseconds. */
  readonly nextChange: number | null;
}

interface LimitDifference {
  readonly field: 'context_length' | 'max_completion_tokens';
  readonly before: number;
  readonly after: number;
}

interface FeatureDifference {
  readonly feature: ListedFeature;
  readonly before: boolean;
  readonly after: boolean;
}

interface AddedModel {
  readonly provider: string;
  readonly upstreamModel: string;
  readonly prices: ListEntry['prices'];
  readonly contextLength: number | null;
}

export function compareWithList(
  { models }: Pick<Config, 'models'>,
  { format, entries }: PublicPriceList,
  options: CheckOptions,
): PriceCheck {
  const listName = (provider: string) => options.names.get(provider) ?? nameIn(format, provider);
  const find = finderIn(entries);
  const differences: EndpointDifference[] = [];
  const unlisted: EndpointId[] = [];
  const used = new Set<ListEntry>();
  let matched = 0;
  const checked = models.flatMap((model) =>
    model.endpoints
      .filter(({ provider }) => options.isChecked(model.id, provider))
      .map((endpoint) => ({ model, endpoint, isFirst: endpoint === model.endpoints[0] })),
  );
  const providers = [...new Set(checked.map(({ endpoint }) => endpoint.provider))];
  const listed = providers.filter((name) => entries.some((entry) => isOf(entry, listName(name))));
  for (const { model, endpoint, isFirst } of checked) {
    const { provider, model: upstreamModel } = endpoint;
    if (!listed.includes(provider)) continue;
    const entry = find(listName(provider), upstreamModel);
    if (!entry) {
      unlisted.push({ model: model.id, provider, upstreamModel });
      continue;
    }
    matched += 1;
    used.add(entry);
    const difference = compareEndpoint(model, endpoint, entry, isFirst, options.now);
    if (isDifferent(difference)) differences.push(difference);
  }
  return {
    ...{ format, matched, differences, unlisted },
    unlistedProviders: providers.filter((name) => !listed.includes(name)),
    added: listed.flatMap((provider) =>
      entries
        .filter((entry) => !used.has(entry) && isOf(entry, listName(provider)))
        .map(({ model, prices, contextLengths }) => {
          return {
            provider,
            upstreamModel: model,
            prices,
            contextLength: contextLengths[0] ?? null,
          };
        }),
    ),
  };
}

function nameIn(format: PriceListFormat, provider: string): string {
  const builtIn = builtinCatalog.providers.find(({ name }) => name === provider);
  return builtIn?.price_lists?.[format] ?? provider;
}

/** LiteLLM has several names for some providers, such as `vertex_ai-anthropic_models`. */
function isOf(entry: ListEntry, listName: string): boolean {
  const { provider } = entry;
  const family = [`${listName}-`, `${listName}_`];
  return provider === listName || family.some((start) => provider.startsWith(start));
}

function finderIn(entries: readonly ListEntry[]) {
  const byModel = Map.groupBy(entries, ({ model }) => model);
  return (listName: string, upstreamModel: string): ListEntry | undefined => {
    const named = [upstreamModel, `${listName}/${upstreamModel}`].flatMap(
      (name) => byModel.get(name) ?? [],
    );
    return (
      named.find(({ provider }) => provider === listName) ??
      named.find((entry) => isOf(entry, listName))
    );
  };
}

function compareEndpoint(
  model: Model,
  endpoint: Endpoint,
  entry: ListEntry,
  isFirst: boolean,
  now: number,
): EndpointDifference {
  const { pricing } = priceAt(endpoint, now);
  const next = endpoint.priceChanges?.find(({ from }) => from > now);
  return {
    ...{ model: model.id, provider: endpoint.provider, upstreamModel: endpoint.model },
    ...comparePricing(model, pricing, entry),
    // Limits and features are those of the model, so other endpoints may have less.
    limits: isFirst ? compareLimits(model, entry) : [],
    features: isFirst ? compareFeatures(model, entry) : [],
    nextChange: next?.from ?? null,
  };
}

function isDifferent({ prices, limits, features, problems }: EndpointDifference): boolean {
  return [prices, limits, features, problems].some(({ length }) => length > 0);
}

function compareLimits(model: Model, entry: ListEntry): LimitDifference[] {
  const { context_length: context, max_completion_tokens: output } = model;
  const [listed] = entry.contextLengths;
  const differences: LimitDifference[] = [];
  if (context !== undefined && listed !== undefined && !entry.contextLengths.includes(context)) {
    differences.push({ field: 'context_length', before: context, after: listed });
  }
  const { outputTokensMax } = entry;
  if (output !== undefined && outputTokensMax !== undefined && output !== outputTokensMax) {
    differences.push({ field: 'max_completion_tokens', before: output, after: outputTokensMax });
  }
  return differences;
}

/** Other models have no features in the lists that are comparable. */
const otherFeatures = ['embeddings', 'speech', 'transcription', 'image_edit', 'image_generation'];

function compareFeatures(model: Model, entry: ListEntry): FeatureDifference[] {
  const { features, input_modalities: inputs, output_modalities: outputs } = model;
  if (features.some((feature) => otherFeatures.includes(feature))) return [];
  const current: Record<ListedFeature, boolean> = {
    tools: features.includes('tools'),
    json_schema: features.includes('json_schema'),
    reasoning: features.includes('reasoning'),
    image_input: inputs.includes('image'),
    audio_input: inputs.includes('audio'),
    video_input: inputs.includes('video'),
    file_input: inputs.includes('file'),
    audio_output: outputs.includes('audio'),
  };
  return (Object.keys(current) as ListedFeature[]).flatMap((feature) => {
    const after = entry.features[feature];
    const before = current[feature];
    return after === undefined || after === before ? [] : [{ feature, before, after }];
  });
}
