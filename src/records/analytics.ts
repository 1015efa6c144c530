import type { TenantMonthObject } from '../contract/admin.ts';
import type {
  AnalyticsObject,
  GroupBy,
  UsageDayObject,
  UsageGroupObject,
  UsageSummaryObject,
} from '../contract/customer.ts';
import {
  type Charges,
  feeSumNames,
  feeSumsOf,
  noCharges,
  totalCharge,
} from '../money/price/fee-kinds.ts';
import { type Cell, csvTable } from './csv.ts';
import { type DayRange, dayMs, isoDay, isoTime, monthAround } from './period.ts';

/** A tenant's usage and spend by day. They are read from the daily sums, never from the log. */

export interface AnalyticsFilter {
  readonly tenantId: string;
  readonly days: DayRange;
  readonly keyId: string | null;
}

export interface UsageSums extends Charges {
  readonly requests: number;
  readonly failed: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly searches: number;
  readonly durationMs: number;
}

export interface DaySums extends UsageSums {
  readonly day: number;
}

export interface DetailedSums extends DaySums {
  readonly model: string;
  readonly provider: string;
  readonly trafficMode: string;
  readonly keyId: string;
}

export interface AnalyticsReads {
  /** Returns the days with requests, in order. */
  days(filter: AnalyticsFilter): Promise<readonly DaySums[]>;
  /** Returns the most detailed sums by day, in pages. */
  details(filter: AnalyticsFilter): AsyncIterable<readonly DetailedSums[]>;
}

export const noSums: UsageSums = {
  requests: 0,
  failed: 0,
  promptTokens: 0,
  completionTokens: 0,
  ...noCharges,
  searches: 0,
  durationMs: 0,
};

export function sumOf(all: readonly UsageSums[]): UsageSums {
  return all.reduce((sum, sums) => combine(sum, sums, 1), noSums);
}

function subtractSums(total: UsageSums, part: UsageSums): UsageSums {
  return combine(total, part, -1);
}

const sumNames = Object.keys(noSums) as (keyof UsageSums)[];

function combine(a: UsageSums, b: UsageSums, sign: 1 | -1): UsageSums {
  const sums: Record<keyof UsageSums, number> = { ...noSums };
  for (const name of sumNames) sums[name] = a[name] + sign * b[name];
  return sums;
}

/** `activeDays` are the days with requests. The time series also has the other days. */
export function analyticsObject(
  { first, last }: DayRange,
  activeDays: readonly DaySums[],
): Omit<AnalyticsObject, 'group_by' | 'groups'> {
  const byDay = new Map(activeDays.map((sums) => [sums.day, sums]));
  const days = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return {
    period: {
      start_date: isoTime(first * dayMs),
      end_date: isoTime((last + 1) * dayMs - 1),
    },
    summary: summaryOf(sumOf(activeDays)),
    timeseries: days.map((day) => dayObject(day, byDay.get(day) ?? noSums)),
  };
}

function summaryOf(sums: UsageSums): UsageSummaryObject {
  return {
    total_requests: sums.requests,
    successful_requests: sums.requests - sums.failed,
    failed_requests: sums.failed,
    error_rate: ratio(sums.failed * 100, sums.requests),
    total_tokens: sums.promptTokens + sums.completionTokens,
    prompt_tokens: sums.promptTokens,
    completion_tokens: sums.completionTokens,
    ...feeSumsOf(sums),
    search_requests: sums.searches,
    total_spend: totalCharge(sums),
    avg_latency_ms: ratio(sums.durationMs, sums.requests),
  };
}

function dayObject(day: number, sums: UsageSums): UsageDayObject {
  return {
    date: isoDay(day),
    requests: sums.requests,
    failed_requests: sums.failed,
    prompt_tokens: sums.promptTokens,
    completion_tokens: sums.completionTokens,
    tokens: sums.promptTokens + sums.completionTokens,
    ...feeSumsOf(sums),
    search_requests: sums.searches,
    spend: totalCharge(sums),
    avg_latency_ms: ratio(sums.durationMs, sums.requests),
  };
}

/** Returns a quotient rounded to 2 decimals, or 0 for 0 / 0. */
function ratio(part: number, total: number): number {
  return total === 0 ? 0 : Math.round((part / total) * 100) / 100;
}

export function analyticsCsv(
  pages: AsyncIterable<readonly DetailedSums[]>,
): AsyncGenerator<string> {
  return csvTable(columns, pages, cellsOf);
}

const columns = [
  'date',
  'model',
  'provider',
  'traffic_mode',
  'api_key_id',
  'requests',
  'successful_requests',
  'failed_requests',
  'prompt_tokens',
  'completion_tokens',
  'tokens',
  ...feeSumNames,
  'search_requests',
  'total_spend',
  'avg_latency_ms',
] as const;

function cellsOf(sums: DetailedSums): Cell[] {
  const flat: Record<(typeof columns)[number], Cell> = {
    ...dayObject(sums.day, sums),
    ...summaryOf(sums),
    model: sums.model,
    provider: sums.provider,
    traffic_mode: sums.trafficMode,
    api_key_id: sums.keyId,
  };
  return columns.map((name) => flat[name]);
}

/** The groups of an analytics report, one for each value of the `group_by` property. */

/** The values with the highest spend have their own groups. All others share one group. */
export const usageGroupsMax = 10;

export interface UsageGroupSums extends DaySums {
  /** The model, provider, key id, or traffic mode. */
  readonly value: string;
}

export interface UsageGroupReads {
  /** Returns the sums by day of the values with the highest spend. */
  sumsBy(filter: AnalyticsFilter, groupBy: GroupBy): Promise<readonly UsageGroupSums[]>;
}

export function groupObjects(
  totals: readonly DaySums[],
  groupSums: readonly UsageGroupSums[],
): readonly UsageGroupObject[] {
  const byValue = Map.groupBy(groupSums, ({ value }) => value);
  const remainder = remainderOf(totals, groupSums);
  return [
    ...[...byValue].map(([value, days]) => groupObject(value, days)),
    ...(remainder.length > 0 ? [groupObject(null, remainder)] : []),
  ];
}

/** `null` stands for all values that are not listed. */
function groupObject(value: string | null, days: readonly DaySums[]): UsageGroupObject {
  return {
    value,
    summary: summaryOf(sumOf(days)),
    timeseries: days.map((sums) => dayObject(sums.day, sums)),
  };
}

function remainderOf(totals: readonly DaySums[], groupSums: readonly UsageGroupSums[]): DaySums[] {
  const byDay = Map.groupBy(groupSums, ({ day }) => day);
  return totals.flatMap((sums) => {
    const listed = sumOf(byDay.get(sums.day) ?? []);
    const remainder = { ...subtractSums(sums, listed), day: sums.day };
    // A request booked between the two reads may be in the groups but not in the total.
    return remainder.requests > 0 ? [remainder] : [];
  });
}

/** The sums of one tenant over some days, for operators. */
export interface TenantSums {
  readonly tenantId: string;
  readonly requests: number;
  readonly failed: number;
  readonly spend: number;
  readonly writtenOff: number;
}

export interface TenantSumReads {
  /** Returns the sums of the tenants that had requests, in any order. */
  sumsOf(tenantIds: readonly string[], days: DayRange): Promise<readonly TenantSums[]>;
}

/** Describes the current UTC month. A request belongs to the day on which it arrived. */
export function tenantMonthObject(sums: TenantSums | undefined, now: number): TenantMonthObject {
  return {
    start_date: isoTime(monthAround(now).from),
    requests: sums?.requests ?? 0,
    failed_requests: sums?.failed ?? 0,
    total_spend: sums?.spend ?? 0,
    written_off: sums?.writtenOff ?? 0,
  };
}
