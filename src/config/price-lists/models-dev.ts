import {
  definedFields,
  fieldsOf,
  isObject,
  itemsOf,
  type JsonObject,
  objectsIn,
} from '../../core/json.ts';
import { type EntryTier, type ListEntry, readPriceFields } from './entry.ts';
import { readFlag, readTokens } from './exact-price.ts';

// The api.json of models.dev: an object with an entry for each provider, which has an entry for
// each model. Prices are per million tokens.

const tokenFields = {
  input: ['prompt', 1],
  input_audio: ['audio', 1],
  cache_read: ['cache_read', 1],
  cache_write: ['cache_write', 1],
  output: ['completion', 1],
} as const;

const otherFields = { reasoning: ['reasoning', 1], output_audio: ['audio output', 1] } as const;

/** Where `context_over_200k` starts. Lists with `tiers` say it exactly. */
const legacyTierTokens = 200_000;

export function isModelsDevList(data: JsonObject): boolean {
  return Object.values(data).some(
    (provider) => isObject(provider) && Object.values(fieldsOf(provider.models)).some(isModel),
  );
}

function isModel(model: unknown): boolean {
  return isObject(model) && (isObject(model.cost) || isObject(model.limit));
}

export function readModelsDevList(data: JsonObject): readonly ListEntry[] {
  return Object.entries(data).flatMap(([provider, value]) =>
    Object.entries(fieldsOf(fieldsOf(value).models)).flatMap(([name, model]) =>
      isObject(model) ? [readModel(provider, name, model)] : [],
    ),
  );
}

function readModel(provider: string, name: string, model: JsonObject): ListEntry {
  const problems: string[] = [];
  const cost = fieldsOf(model.cost);
  const limit = fieldsOf(model.limit);
  const modalities = fieldsOf(model.modalities);
  const context = readTokens(limit.context);
  const has = (list: unknown, modality: string) =>
    Array.isArray(list) ? itemsOf(list).includes(modality) : undefined;
  return {
    provider,
    model: name,
    prices: readPriceFields(cost, tokenFields, problems),
    imageTokens: {},
    others: readPriceFields(cost, otherFields, problems),
    tiers: tiersIn(cost, problems),
    contextLengths: context === undefined ? [] : [context],
    outputTokensMax: readTokens(limit.output),
    features: definedFields({
      tools: readFlag(model, 'tool_call'),
      json_schema: readFlag(model, 'structured_output'),
      reasoning: readFlag(model, 'reasoning'),
      image_input: has(modalities.input, 'image'),
      audio_input: has(modalities.input, 'audio'),
      video_input: has(modalities.input, 'video'),
      file_input: has(modalities.input, 'pdf'),
      audio_output: has(modalities.output, 'audio'),
    }),
    problems,
  };
}

function tiersIn(cost: JsonObject, problems: string[]): readonly EntryTier[] {
  const tiers = objectsIn(cost.tiers).flatMap((tier) => {
    const { type = 'context', size } = fieldsOf(tier.tier);
    const aboveTokens = readTokens(size);
    if (type !== 'context' || aboveTokens === undefined) return [];
    return [{ aboveTokens, prices: readPriceFields(tier, tokenFields, problems) }];
  });
  if (tiers.length > 0) return tiers.sort((a, b) => a.aboveTokens - b.aboveTokens);
  if (!isObject(cost.context_over_200k)) return [];
  const prices = readPriceFields(cost.context_over_200k, tokenFields, problems);
  return [{ aboveTokens: legacyTierTokens, prices }];
}
