import type { Units, Usage } from '../../core/usage.ts';
import { perMillion, perMinute, perUnit, type UsdAmount, type UsdPrice } from './usd.ts';

/**
 * The price classes of the gateway: what an endpoint can charge for. The configuration, receipts,
 * the API schemas, the CLI, and the dashboard all read this table. To add a price class, add an
 * entry to `priceClasses`, a field for its quantity to `Usage` or `Units`, the dialects that report
 * the quantity, and a price to the catalog.
 */

interface PriceClass {
  /** The price that applies if this one isn't set. If neither is set, the class is free. */
  readonly fallback?: string;
  /** Token prices can change with the length of the prompt. */
  readonly isTokenPrice: boolean;
  /**
   * The number of units that a price is for. It is 60 for a price per minute, because the quantity
   * is in seconds.
   */
  readonly per: 1 | 60 | 1_000_000;
  readonly quantity: (usage: Usage, units: Units) => number;
  /** Heading of a receipt line in the dashboard. */
  readonly label: string;
  /** What the price buys, as in `$3 input, per million tokens`. */
  readonly priceLabel: string;
  /** The unit in the CLI's list of models. Left out where the list has a column for the price. */
  readonly unitLabel?: string;
}

const perToken = { isTokenPrice: true, per: 1_000_000 } as const;
const perText = { isTokenPrice: false, per: 1_000_000 } as const;
const each = { isTokenPrice: false, per: 1 } as const;

/**
 * Price classes by their name in the configuration, in the order of a receipt's lines. Their
 * quantities don't overlap, so nothing can be billed twice.
 */
export const priceClasses = {
  prompt: {
    ...perToken,
    quantity: ({ inputTokens }) => inputTokens,
    label: 'Input',
    priceLabel: 'input, per million tokens',
  },
  audio: {
    ...perToken,
    fallback: 'prompt',
    quantity: ({ inputAudioTokens = 0 }) => inputAudioTokens,
    label: 'Audio input',
    priceLabel: 'audio input, per million tokens',
  },
  cache_read: {
    ...perToken,
    fallback: 'prompt',
    quantity: ({ cacheReadTokens }) => cacheReadTokens,
    label: 'Cached input',
    priceLabel: 'cached input, per million tokens',
  },
  cache_write: {
    ...perToken,
    fallback: 'prompt',
    quantity: ({ cacheWriteTokens }) => cacheWriteTokens,
    label: 'Cache writes',
    priceLabel: 'cache writes, per million tokens',
  },
  cache_write_1h: {
    ...perToken,
    fallback: 'cache_write',
    quantity: ({ cacheWrite1hTokens = 0 }) => cacheWrite1hTokens,
    label: '1-hour cache writes',
    priceLabel: '1-hour cache writes, per million tokens',
  },
  completion: {
    ...perToken,
    quantity: ({ outputTokens }) => outputTokens,
    label: 'Output',
    priceLabel: 'output, per million tokens',
  },
  image: {
    ...each,
    quantity: (_, { inputImages = 0 }) => inputImages,
    label: 'Input images',
    priceLabel: 'per input image',
    unitLabel: 'input image',
  },
  output_image: {
    ...each,
    quantity: (_, { outputImages = 0 }) => outputImages,
    label: 'Images',
    priceLabel: 'per image',
    unitLabel: 'image',
  },
  characters: {
    ...perText,
    quantity: (_, { characters = 0 }) => characters,
    label: 'Characters',
    priceLabel: 'per million characters',
    unitLabel: 'M characters',
  },
  bytes: {
    ...perText,
    quantity: (_, { bytes = 0 }) => bytes,
    label: 'Bytes of text',
    priceLabel: 'per million bytes',
    unitLabel: 'M bytes',
  },
  minute: {
    isTokenPrice: false,
    per: 60,
    quantity: (_, { audioMs = 0 }) => audioMs / 1_000,
    label: 'Seconds of audio',
    priceLabel: 'per minute',
    unitLabel: 'minute',
  },
  request: {
    ...each,
    quantity: () => 1,
    label: 'Request',
    priceLabel: 'per request',
    unitLabel: 'request',
  },
} as const satisfies Record<string, PriceClass>;

export type PriceName = keyof typeof priceClasses;

export function isPriceName(name: string): name is PriceName {
  return Object.hasOwn(priceClasses, name);
}

export type TokenPriceName = {
  [Name in PriceName]: (typeof priceClasses)[Name]['isTokenPrice'] extends true ? Name : never;
}[PriceName];

interface NamedPriceClass extends PriceClass {
  readonly name: PriceName;
  readonly fallback?: PriceName;
}

const namedClasses = Object.entries(priceClasses).map(([name, entry]) => ({
  ...entry,
  name,
})) as readonly NamedPriceClass[];

export const priceNames: readonly PriceName[] = namedClasses.map(({ name }) => name);
/** Prices that a long prompt can change. */
export const tokenPrices = namedClasses.filter(({ isTokenPrice }) => isTokenPrice);
export const tokenPriceNames = tokenPrices.map(({ name }) => name as TokenPriceName);
/** Prices that apply once to the whole request, however many calls it took. */
export const unitPrices = namedClasses.filter(({ isTokenPrice }) => !isTokenPrice);

/** Builds an object with one property for each of these prices. */
export function mapPrices<Name extends PriceName, T>(
  names: readonly Name[],
  valueFor: (name: Name) => T,
): Record<Name, T> {
  const mapped: Partial<Record<Name, T>> = {};
  for (const name of names) mapped[name] = valueFor(name);
  return mapped as Record<Name, T>;
}

function entryOf(name: PriceName): Omit<NamedPriceClass, 'name'> {
  return priceClasses[name];
}

/** Returns the first price that is set: that of this class, or of one of its fallbacks. */
export function priceStringOf(
  priceStrings: Readonly<Record<string, string | undefined>>,
  name: PriceName,
): string | undefined {
  const priceString = priceStrings[name];
  if (priceString !== undefined) return priceString;
  const { fallback } = entryOf(name);
  return fallback === undefined ? undefined : priceStringOf(priceStrings, fallback);
}

/** Returns the unit of a price, as in `$3 per million`. */
export function perLabel(per: number): string {
  if (per === 1) return 'each';
  return per === 60 ? 'per minute' : 'per million';
}

/** Returns the exact cost of a quantity at a price for `per` units. */
export function priceOf(per: PriceClass['per'], price: UsdPrice, quantity: number): UsdAmount {
  if (per === 1) return perUnit(price, quantity);
  return per === 60 ? perMinute(price, quantity * 1_000) : perMillion(price, quantity);
}
