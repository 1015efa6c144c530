/** No single answer reaches this; a larger number is a bug that must not become a bill. */
const tokensMax = 1_000_000_000;

/** A count; 0 when absent, NaN when it is no count, so that one check at the end finds it. */
export function readCount(value: unknown): number {
  if (value === undefined || value === null) return 0;
  const isCount = typeof value === 'number' && Number.isInteger(value);
  return isCount && value >= 0 && value <= tokensMax ? value : Number.NaN;
}
