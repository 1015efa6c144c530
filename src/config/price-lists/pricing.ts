import {
  type PriceName,
  priceStringOf,
  type TokenPriceName,
  tokenPriceNames,
} from '../../money/price/price-classes.ts';
import { priceStringsFor } from '../../money/price/price-list.ts';
import { parseUsd } from '../../money/price/usd.ts';
import type { Model } from '../config.ts';
import { longPromptsMax, type PricingConfig } from '../model-schema.ts';
import type { EntryPrices, ListEntry } from './entry.ts';

// Compares the prices of an endpoint with those of a public list.

export interface PriceDifference {
  readonly name: PriceName;
  /** The limit of the tier for long prompts. Null for the prices below all tiers. */
  readonly aboveTokens: number | null;
  readonly before: string;
  readonly after: string;
  /** True for a change that may be a mistake of the list. */
  readonly isLarge: boolean;
}

interface ComparedPricing {
  readonly prices: readonly PriceDifference[];
  readonly lacking: readonly string[];
  readonly notes: readonly string[];
  readonly problems: readonly string[];
  readonly pricing: PricingConfig;
}

export function comparePricing(
  model: Model,
  current: PricingConfig,
  entry: ListEntry,
): ComparedPricing {
  const names = namesOf(model, current);
  const listed = listedPrices(names, entry);
  const tiers = longPromptsOf(names, current, entry);
  const pricing: PricingConfig = {
    ...current,
    ...listed,
    ...(tiers.length > 0 && { long_prompts: tiers }),
  };
  const problems =
    tiers.length > longPromptsMax
      ? [...entry.problems, `the list has more than ${longPromptsMax} tiers for long prompts`]
      : entry.problems;
  const lacking = names.filter((name) => current[name] !== undefined && listed[name] === undefined);
  const lacksTiers = current.long_prompts !== undefined && tiers.length === 0;
  return {
    prices: differencesOf(names, current, pricing),
    lacking: lacksTiers ? [...lacking, 'long_prompts'] : lacking,
    notes: notesOf(entry),
    problems,
    pricing,
  };
}

/** Of models that answer with images. The list's prices of text tokens aren't charged. */
const imageTokenNames: readonly PriceName[] = ['prompt', 'completion'];

/** Returns the price classes of which a list can have the price that the endpoint charges. */
function namesOf(
  { features, input_modalities }: Model,
  current: PricingConfig,
): readonly PriceName[] {
  if (features.includes('transcription')) return ['minute'];
  if (features.includes('embeddings')) return ['prompt'];
  if (features.includes('speech')) return ['characters'];
  if (features.includes('image_generation') || features.includes('image_edit')) {
    return current.completion === undefined ? ['output_image'] : imageTokenNames;
  }
  const names: PriceName[] = ['prompt', 'cache_read', 'cache_write', 'cache_write_1h'];
  if (input_modalities.includes('audio')) names.push('audio');
  // Lists have the price of an image even if its tokens are charged.
  if (current.image !== undefined) names.push('image');
  return [...names, 'completion', 'request'];
}

function listedPrices(names: readonly PriceName[], entry: ListEntry): EntryPrices {
  const all = names === imageTokenNames ? entry.imageTokens : entry.prices;
  return Object.fromEntries(
    names.flatMap((name) => (all[name] === undefined ? [] : [[name, all[name]]])),
  );
}

type LongPrompts = NonNullable<PricingConfig['long_prompts']>;

/** Returns the tiers of the list, with the prices in force that it lacks. */
function longPromptsOf(
  names: readonly PriceName[],
  current: PricingConfig,
  entry: ListEntry,
): LongPrompts {
  const isCharged = (name: string) => (names as readonly string[]).includes(name);
  const byLimit = new Map<number, LongPrompts[number]>();
  for (const { aboveTokens, prices } of entry.tiers) {
    const charged = Object.entries(prices).filter(([name]) => isCharged(name));
    if (charged.length === 0) continue;
    const before = current.long_prompts?.find((tier) => tier.above_tokens === aboveTokens);
    const changed = Object.fromEntries(charged) as Partial<Record<TokenPriceName, string>>;
    byLimit.set(aboveTokens, { ...before, above_tokens: aboveTokens, ...changed });
  }
  return [...byLimit.values()];
}

function differencesOf(
  names: readonly PriceName[],
  current: PricingConfig,
  next: PricingConfig,
): PriceDifference[] {
  const limits = [current, next].flatMap(({ long_prompts: tiers = [] }) =>
    tiers.map(({ above_tokens }) => above_tokens),
  );
  // A price that is set nowhere follows its fallback, which is compared.
  const sets = [current, next].flatMap((pricing) => [pricing, ...(pricing.long_prompts ?? [])]);
  const isSet = (name: PriceName) => sets.some((prices) => Object.hasOwn(prices, name));
  const charged = names.filter(isSet);
  const tokenNames = charged.filter((name) => (tokenPriceNames as PriceName[]).includes(name));
  return [
    ...compareAt(charged, null, current, next),
    ...[...new Set(limits)]
      .sort((a, b) => a - b)
      .flatMap((limit) => compareAt(tokenNames, limit, current, next)),
  ];
}

/** Compares what is charged for prompts above a limit, or for short ones. */
function compareAt(
  names: readonly PriceName[],
  aboveTokens: number | null,
  current: PricingConfig,
  next: PricingConfig,
): PriceDifference[] {
  const promptTokens = aboveTokens === null ? 0 : aboveTokens + 1;
  const before = priceStringsFor(current, promptTokens).priceStrings;
  const after = priceStringsFor(next, promptTokens).priceStrings;
  return names.flatMap((name) => {
    const prices = {
      before: priceStringOf(before, name) ?? '0',
      after: priceStringOf(after, name) ?? '0',
    };
    const [old = 0n, changed = 0n] = [parseUsd(prices.before), parseUsd(prices.after)];
    if (old === changed) return [];
    return [{ name, aboveTokens, ...prices, isLarge: isLarge(old, changed) }];
  });
}

const largeFactor = 10n;

/** Returns whether a price changes tenfold, or between 0 and another price. */
function isLarge(before: bigint, after: bigint): boolean {
  return after >= before * largeFactor || before >= after * largeFactor;
}

function notesOf({ others, prices: { completion } }: ListEntry): string[] {
  return Object.entries(others).flatMap(([description, price]) =>
    parseUsd(price) === parseUsd(completion ?? '0')
      ? []
      : [`${description} costs ${price} in the list, and is charged as output`],
  );
}
