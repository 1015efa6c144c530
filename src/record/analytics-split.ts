import {
  type AnalyticsFilter,
  type DaySums,
  dayObject,
  subtractSums,
  summaryOf,
  sumOf,
} from './analytics.ts';

/** A period's sums divided by one property, the largest spenders one by one. */

export const splits = ['model', 'provider', 'api_key_id', 'traffic_mode'] as const;
export type Split = (typeof splits)[number];

/** More lines than this nobody tells apart in a chart; the others stand together in one. */
export const partsMax = 10;

export interface PartSums extends DaySums {
  /** The model, provider, key or mode. */
  readonly value: string;
}

export interface SplitReads {
  /** Day by day, the parts that spent most; all of them together are at most the whole. */
  parts(filter: AnalyticsFilter, split: Split): Promise<readonly PartSums[]>;
}

export function groupObjects(whole: readonly DaySums[], parts: readonly PartSums[]) {
  const byValue = Map.groupBy(parts, ({ value }) => value);
  const rest = restOf(whole, parts);
  return [
    ...[...byValue].map(([value, days]) => groupObject(value, days)),
    ...(rest.length > 0 ? [groupObject(null, rest)] : []),
  ];
}

/** `null` stands for all that are not listed. */
function groupObject(value: string | null, days: readonly DaySums[]) {
  return {
    value,
    summary: summaryOf(sumOf(days)),
    timeseries: days.map((sums) => dayObject(sums.day, sums)),
  };
}

function restOf(whole: readonly DaySums[], parts: readonly PartSums[]): DaySums[] {
  const byDay = Map.groupBy(parts, ({ day }) => day);
  return whole.flatMap((sums) => {
    const listed = sumOf(byDay.get(sums.day) ?? []);
    const rest = { ...subtractSums(sums, listed), day: sums.day };
    // A request that was booked between the two reads may be in the parts only.
    return rest.requests > 0 ? [rest] : [];
  });
}
