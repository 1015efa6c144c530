import type { JsonObject } from '../../core/json.ts';
import type { PriceName, TokenPriceName } from '../../money/price/price-classes.ts';
import { readExactPrice } from './exact-price.ts';

/** What a model can do, as both lists say it. */
export type ListedFeature =
  | 'tools'
  | 'json_schema'
  | 'reasoning'
  | 'image_input'
  | 'audio_input'
  | 'video_input'
  | 'file_input'
  | 'audio_output';

/** A model of a provider in a public price list. */
export interface ListEntry {
  /** The name of the provider in the list. */
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  readonly prices: EntryPrices;
  /** Of models that answer with images. */
  readonly imageTokens: EntryPrices;
  /** Prices that no price class has, by description. */
  readonly others: Readonly<Record<string, string>>;
  /** In ascending order. */
  readonly tiers: readonly EntryTier[];
  /** Numbers of tokens of which one has to be the context length. */
  readonly contextLengths: readonly number[];
  readonly outputTokensMax: number | undefined;
  readonly features: Readonly<Partial<Record<ListedFeature, boolean>>>;
  /** Prices that can't be read, as sentences without a period. */
  readonly problems: readonly string[];
}

export type EntryPrices = Readonly<Partial<Record<PriceName, string>>>;

export interface EntryTier {
  readonly aboveTokens: number;
  readonly prices: Readonly<Partial<Record<TokenPriceName, string>>>;
}

/** By field: its price class, and the number of units that the class has its price for. */
type PriceFields<Name extends string> = Readonly<Record<string, readonly [Name, number]>>;

/** Reads the prices of these fields. Adds those that can't be read to the problems. */
export function readPriceFields<Name extends string>(
  fields: JsonObject,
  known: PriceFields<Name>,
  problems: string[],
): Partial<Record<Name, string>> {
  const prices: Partial<Record<Name, string>> = {};
  for (const [field, [name, factor]] of Object.entries(known)) {
    const value = fields[field];
    if (value === undefined || value === null) continue;
    const read = readExactPrice(value, factor);
    if ('price' in read) prices[name] = read.price;
    else problems.push(`${field} ${read.problem}: ${JSON.stringify(value).slice(0, 60)}`);
  }
  return prices;
}
