import type { TrafficMode } from '../../core/caller.ts';
import type { Measured, Units, Usage } from '../../core/usage.ts';
import { type FemtoUsd, type NanoUsd, perMillion, perMinute, perUnit } from './usd.ts';

/**
 * The fee kinds and price classes of the gateway. Bills, log rows, daily sums, statements, CSV
 * columns, metrics, the API schemas, the configuration, the CLI, and the dashboard all read these
 * two tables.
 *
 * To add a price class, add an entry to `priceClasses`, a field for its quantity to `Usage` or
 * `Units`, the dialects that report the quantity, and a price to the catalog. To add a fee kind,
 * add an entry to `feeKinds` and a migration that adds its column to `request_log` and
 * `usage_daily`.
 */

export interface FeeKindEntry {
  /** Field of a cost breakdown, CSV column, and SQL column. */
  readonly name: string;
  /** Field of the sums over a period, as in analytics. */
  readonly sumName: string;
  /** Value of the `fee` label of `tollgate_credits_charged_total`. */
  readonly metric: string;
  /** Heading on a receipt in the dashboard. */
  readonly label: string;
  /** Heading of the sum over a period in the dashboard. */
  readonly sumLabel: string;
  /** Explanation in the API reference. */
  readonly description?: string;
  /** What the fee counts, shown beside its amount. */
  readonly quantity?: {
    readonly field: 'search_requests';
    readonly singular: string;
    readonly plural: string;
  };
  /** Returns the credits that an operation counted itself. Left out for fees made from prices. */
  readonly counted?: (measured: Pick<Measured, 'toolCredits'>) => number;
}

/** Fees in the order in which reports list them. A charge has one amount of each kind. */
export const feeKinds = {
  modelCharge: {
    name: 'model_charge',
    sumName: 'shared_model_spend',
    metric: 'model',
    label: 'Model charge',
    sumLabel: 'Shared models',
    description: 'For requests served with shared capacity.',
  },
  byokPlatformFee: {
    name: 'byok_platform_fee',
    sumName: 'byok_platform_fees',
    metric: 'byok_platform',
    label: 'Platform fee for your own provider key',
    sumLabel: 'Provider keys (BYOK)',
    description: 'For requests served with your own provider key.',
  },
  managedToolFee: {
    name: 'managed_tool_fee',
    sumName: 'managed_tool_fees',
    metric: 'managed_tool',
    label: 'Managed tools',
    sumLabel: 'Managed tools',
    description: 'For web searches and other tools that the gateway runs.',
    quantity: { field: 'search_requests', singular: 'web search', plural: 'web searches' },
    counted: ({ toolCredits = 0 }) => toolCredits,
  },
  agentRuntimeFee: {
    name: 'agent_runtime_fee',
    sumName: 'agent_runtime_fees',
    metric: 'agent_runtime',
    label: 'Agent runtime',
    sumLabel: 'Agent runtime',
    description: 'Always 0 so far.',
    counted: () => 0,
  },
} as const satisfies Record<string, FeeKindEntry>;

export type FeeKind = keyof typeof feeKinds;
export type FeeName = (typeof feeKinds)[FeeKind]['name'];
export type FeeSumName = (typeof feeKinds)[FeeKind]['sumName'];

/** Whole credits, by fee kind. */
export type Charges = Readonly<Record<FeeKind, number>>;

/** The fee that is computed from an offer's prices, by whose provider key served the request. */
export const pricedFee = {
  shared: 'modelCharge',
  byok: 'byokPlatformFee',
} as const satisfies Record<TrafficMode, FeeKind>;

/** Every fee kind with its entry, in order. */
export const feeEntries = Object.entries(feeKinds) as readonly [
  FeeKind,
  FeeKindEntry & (typeof feeKinds)[FeeKind],
][];
export const feeNames: readonly FeeName[] = feeEntries.map(([, { name }]) => name);
export const feeSumNames: readonly FeeSumName[] = feeEntries.map(([, { sumName }]) => sumName);

/** Builds charges with an amount for each fee kind, called in order. */
export function byFeeKind(amount: (kind: FeeKind, entry: FeeKindEntry) => number): Charges {
  const charges: Partial<Record<FeeKind, number>> = {};
  for (const [kind, entry] of feeEntries) charges[kind] = amount(kind, entry);
  return charges as Charges;
}

export const noCharges: Charges = byFeeKind(() => 0);

/** Returns the fees of a request whose tokens and units cost `modelCredits` at its prices. */
export function chargesFor(
  trafficMode: TrafficMode,
  modelCredits: number,
  measured: Pick<Measured, 'toolCredits'>,
): Charges {
  const priced = pricedFee[trafficMode];
  return byFeeKind((kind, { counted }) => {
    if (kind === priced) return modelCredits;
    return counted ? counted(measured) : 0;
  });
}

export function totalCharge(charges: Charges): number {
  let total = 0;
  for (const [kind] of feeEntries) total += charges[kind];
  return total;
}

/** Returns the fees under the names that logs, receipts, statements, and SQL columns give them. */
export function feesOf(charges: Charges): Record<FeeName, number> {
  return mapFees(
    ({ name }) => name,
    (kind) => charges[kind],
  );
}

/** Reads the fees from a row with one field for each fee kind. */
export function chargesFromFees(fees: Readonly<Record<FeeName, number>>): Charges {
  return byFeeKind((_, entry) => fees[entry.name as FeeName]);
}

/** Returns the fees under the names that reports give to sums over a period. */
export function feeSumsOf(charges: Charges): Record<FeeSumName, number> {
  return mapFees(
    ({ sumName }) => sumName,
    (kind) => charges[kind],
  );
}

/** Builds an object with one property for each fee kind. */
export function mapFees<Name extends string, T>(
  nameOf: (entry: (typeof feeKinds)[FeeKind]) => Name,
  valueFor: (kind: FeeKind, entry: FeeKindEntry) => T,
): Record<Name, T> {
  const mapped: Partial<Record<Name, T>> = {};
  for (const [kind, entry] of feeEntries) mapped[nameOf(entry)] = valueFor(kind, entry);
  return mapped as Record<Name, T>;
}

interface PriceClass {
  /** The price that applies where this one isn't set; without it, the class is free. */
  readonly fallback?: string;
  /** Token prices can change with the length of the prompt. */
  readonly isTokenPrice: boolean;
  /** How many units one price buys: 60 for a price per minute, as its quantity is in seconds. */
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

/** Returns the first text of a price and its fallbacks that is set. */
export function priceTextOf(
  texts: Readonly<Record<string, string | undefined>>,
  name: PriceName,
): string | undefined {
  const text = texts[name];
  if (text !== undefined) return text;
  const { fallback } = entryOf(name);
  return fallback === undefined ? undefined : priceTextOf(texts, fallback);
}

/** Returns what a quantity costs at a price for `per` units. Exact. */
export function priceOf(per: PriceClass['per'], price: NanoUsd, quantity: number): FemtoUsd {
  if (per === 1) return perUnit(price, quantity);
  return per === 60 ? perMinute(price, quantity * 1_000) : perMillion(price, quantity);
}
