import type { TrafficMode } from '../../core/caller.ts';
import type { Measured } from '../../core/usage.ts';

/**
 * The fee kinds of the gateway. Bills, log rows, daily sums, statements, CSV columns, metrics, the
 * API schemas, the CLI, and the dashboard all read this table. To add a fee kind, add an entry to
 * `feeKinds` and a migration that adds its column to `request_log` and `usage_daily`.
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
  /**
   * Returns the fee in credits that the operation itself has counted. Absent for fees that are
   * computed from prices.
   */
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
    description: 'Always 0 for now: no operation charges it.',
    counted: () => 0,
  },
} as const satisfies Record<string, FeeKindEntry>;

export type FeeKind = keyof typeof feeKinds;
export type FeeName = (typeof feeKinds)[FeeKind]['name'];
type FeeSumName = (typeof feeKinds)[FeeKind]['sumName'];

/** Whole credits, by fee kind. */
export type Charges = Readonly<Record<FeeKind, number>>;

/**
 * The fee kind that is computed from an offer's prices. It depends on whose provider key served the
 * request.
 */
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

/** Builds charges by calling `amount` for each fee kind, in order. */
export function byFeeKind(amount: (kind: FeeKind, entry: FeeKindEntry) => number): Charges {
  const charges: Partial<Record<FeeKind, number>> = {};
  for (const [kind, entry] of feeEntries) charges[kind] = amount(kind, entry);
  return charges as Charges;
}

export const noCharges: Charges = byFeeKind(() => 0);

/** Returns a request's fees. `modelCredits` is the fee computed from the offer's prices. */
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
