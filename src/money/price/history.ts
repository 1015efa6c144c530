/** The prices of an endpoint over time. */
interface PriceHistory<Pricing> {
  /** The prices before the first change. */
  readonly pricing: Pricing;
  /** In ascending order of time. */
  readonly priceChanges?: readonly { readonly from: number; readonly pricing: Pricing }[];
}

/** Returns the prices at a moment, and when they took effect. Times are epoch milliseconds. */
export function priceAt<Pricing>(
  { pricing, priceChanges = [] }: PriceHistory<Pricing>,
  at: number,
): { readonly from: number | null; readonly pricing: Pricing } {
  return priceChanges.findLast(({ from }) => from <= at) ?? { from: null, pricing };
}
