import { definedFields, isObject, itemsOf, type JsonObject, objectsIn } from '../../core/json.ts';
import type { TokenPriceName } from '../../money/price/price-classes.ts';
import { type EntryTier, type ListEntry, readPriceFields } from './entry.ts';
import { readFlag, readTokens } from './exact-price.ts';

// LiteLLM's model_prices_and_context_window.json: an object with an entry for each model, whose
// prices are per token, image, character, or second.

const perToken = 1_000_000;

const tokenFields = {
  input_cost_per_token: ['prompt', perToken],
  input_cost_per_audio_token: ['audio', perToken],
  cache_read_input_token_cost: ['cache_read', perToken],
  cache_creation_input_token_cost: ['cache_write', perToken],
  cache_creation_input_token_cost_above_1hr: ['cache_write_1h', perToken],
  output_cost_per_token: ['completion', perToken],
} as const satisfies Record<string, readonly [TokenPriceName, number]>;

const fields = {
  ...tokenFields,
  input_cost_per_image: ['image', 1],
  output_cost_per_image: ['output_image', 1],
  input_cost_per_character: ['characters', perToken],
  input_cost_per_second: ['minute', 60],
  input_cost_per_request: ['request', 1],
} as const;

const imageTokenFields = {
  input_cost_per_image_token: ['prompt', perToken],
  output_cost_per_image_token: ['completion', perToken],
} as const;

const otherFields = {
  output_cost_per_reasoning_token: ['reasoning', perToken],
  output_cost_per_audio_token: ['audio output', perToken],
} as const;

/** Keys that aren't models. */
const notModels: ReadonlySet<string> = new Set(['sample_spec', 'fallback_generalizations']);

export function isLiteLlmList(data: JsonObject): boolean {
  return Object.entries(data).some(
    ([name, entry]) =>
      !notModels.has(name) && isObject(entry) && typeof entry.litellm_provider === 'string',
  );
}

export function readLiteLlmList(data: JsonObject): readonly ListEntry[] {
  return Object.entries(data).flatMap(([name, entry]) => {
    if (notModels.has(name) || !isObject(entry)) return [];
    const { litellm_provider: provider } = entry;
    return typeof provider === 'string' ? [readEntry(name, provider, entry)] : [];
  });
}

function readEntry(name: string, provider: string, entry: JsonObject): ListEntry {
  const problems: string[] = [];
  const [tiers, firstTier] = tiersIn(entry, problems);
  const input = readTokens(entry.max_input_tokens);
  const output = readTokens(entry.max_output_tokens);
  return {
    provider,
    // Only some names start with their provider.
    model: name.startsWith(`${provider}/`) ? name.slice(provider.length + 1) : name,
    prices: { ...firstTier, ...readPriceFields(entry, fields, problems) },
    imageTokens: readPriceFields(entry, imageTokenFields, problems),
    others: readPriceFields(entry, otherFields, problems),
    tiers,
    // The limit of the input may or may not include the output.
    contextLengths: input === undefined ? [] : [input, input + (output ?? 0)],
    outputTokensMax: output,
    features: definedFields({
      tools: readFlag(entry, 'supports_function_calling'),
      json_schema: readFlag(entry, 'supports_response_schema'),
      reasoning: readFlag(entry, 'supports_reasoning'),
      image_input: readFlag(entry, 'supports_vision'),
      audio_input: readFlag(entry, 'supports_audio_input'),
      video_input: readFlag(entry, 'supports_video_input'),
      file_input: readFlag(entry, 'supports_pdf_input'),
      audio_output: readFlag(entry, 'supports_audio_output'),
    }),
    problems,
  };
}

type TierPrices = Partial<Record<TokenPriceName, string>>;

/** Returns the tiers for long prompts, and the prices below them if only a range has them. */
function tiersIn(
  entry: JsonObject,
  problems: string[],
): readonly [readonly EntryTier[], TierPrices] {
  const byLimit = new Map<number, TierPrices>();
  for (const field of Object.keys(entry)) {
    const thousands = /_above_(\d{1,5})k_tokens$/.exec(field)?.[1];
    const base = field.replace(/_above_\d{1,5}k_tokens$/, '');
    if (thousands === undefined || !Object.hasOwn(tokenFields, base)) continue;
    const known = { [field]: tokenFields[base as keyof typeof tokenFields] };
    const aboveTokens = Number(thousands) * 1_000;
    const prices = readPriceFields<TokenPriceName>(entry, known, problems);
    byLimit.set(aboveTokens, { ...byLimit.get(aboveTokens), ...prices });
  }
  let first: TierPrices = {};
  for (const range of objectsIn(entry.tiered_pricing)) {
    const [from] = itemsOf(range.range);
    const aboveTokens = readTokens(from);
    const prices = readPriceFields<TokenPriceName>(range, tokenFields, problems);
    if (aboveTokens !== undefined) byLimit.set(aboveTokens, prices);
    else first = prices;
  }
  const tiers = [...byLimit].map(([aboveTokens, prices]) => ({ aboveTokens, prices }));
  const used = tiers.filter(({ prices }) => Object.keys(prices).length > 0);
  return [used.sort((a, b) => a.aboveTokens - b.aboveTokens), first];
}
