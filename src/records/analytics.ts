import type { TenantMonthObject } from '../contract/admin.ts';
import type {
  AnalyticsObject,
  Granularity,
  GroupBy,
  UsageBucketObject,
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
import {
  type DayRange,
  type HourRange,
  hourMs,
  hoursPerDay,
  isoDay,
  isoTime,
  monthAround,
} from './period.ts';

/** A tenant's usage and spend by day or hour. They are read from sums, never from the log. */

export interface AnalyticsFilter {
  readonly tenantId: string;
  readonly days: DayRange;
  /** The hours of these days to count. By default, all of them. */
  readonly hours?: HourRange | undefined;
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

export interface BucketSums extends UsageSums {
  /** The UTC day or hour, counted since 1970. */
  readonly bucket: number;
}

export interface DetailedSums extends UsageSums {
  readonly day: number;
  readonly model: string;
  readonly provider: string;
  readonly trafficMode: string;
  readonly keyId: string;
}

export interface AnalyticsReads {
  /** Returns the days or hours with requests, in order. */
  series(filter: AnalyticsFilter, granularity: Granularity): Promise<readonly BucketSums[]>;
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

interface Series {
  readonly granularity: Granularity;
  /** The days or hours with requests. */
  readonly active: readonly BucketSums[];
}

/**
 * Returns the hours of a day, or its sum if hours are missing: of requests from before there were
 * hourly sums, of rows deleted by `logs.keep_days`, or while a process of an older version runs.
 */
export async function readSeries(
  reads: AnalyticsReads,
  filter: AnalyticsFilter,
  requested: Granularity,
): Promise<Series> {
  // Read the days first: a request that is booked between the reads adds to the hours only.
  const days = await reads.series(filter, 'day');
  if (requested === 'day') return { granularity: 'day', active: days };
  const hours = await reads.series(filter, 'hour');
  const isComplete = sumOf(hours).requests >= sumOf(days).requests;
  return isComplete ? { granularity: 'hour', active: hours } : { granularity: 'day', active: days };
}

/**
 * Returns the filter without its hours if the hourly sums of its days are incomplete. Then the
 * report covers the full days, as its period says.
 */
export async function withCompleteHours(
  reads: AnalyticsReads,
  { hours, ...filter }: AnalyticsFilter,
): Promise<AnalyticsFilter> {
  if (hours === undefined) return filter;
  // Read the days first, as in `readSeries`.
  const days = await reads.series(filter, 'day');
  const byHour = await reads.series({ ...filter, hours: hoursOf(filter.days) }, 'day');
  return sumOf(byHour).requests >= sumOf(days).requests ? { ...filter, hours } : filter;
}

function hoursOf({ first, last }: DayRange): HourRange {
  return { first: first * hoursPerDay, last: (last + 1) * hoursPerDay - 1 };
}

/** The time series also has the days or hours without requests. */
export function analyticsObject(
  { days, hours = hoursOf(days) }: Pick<AnalyticsFilter, 'days' | 'hours'>,
  { granularity, active }: Series,
): Omit<AnalyticsObject, 'group_by' | 'groups'> {
  const byBucket = new Map(active.map((sums) => [sums.bucket, sums]));
  const { first, last } = granularity === 'hour' ? hours : days;
  const buckets = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  return {
    period: {
      start_date: isoTime(hours.first * hourMs),
      end_date: isoTime((hours.last + 1) * hourMs - 1),
    },
    ...(granularity === 'hour' ? { granularity } : {}),
    summary: summaryOf(sumOf(active)),
    timeseries: buckets.map((bucket) =>
      bucketObject(byBucket.get(bucket) ?? { ...noSums, bucket }, granularity),
    ),
  };
}

export const bucketsPerDay: Readonly<Record<Granularity, number>> = { day: 1, hour: hoursPerDay };

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

function bucketObject(sums: BucketSums, granularity: Granularity): UsageBucketObject {
  const perDay = bucketsPerDay[granularity];
  return {
    date: isoDay(Math.floor(sums.bucket / perDay)),
    ...(granularity === 'hour' ? { hour: sums.bucket % perDay } : {}),
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
    ...bucketObject({ ...sums, bucket: sums.day }, 'day'),
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

export interface UsageGroupSums extends BucketSums {
  /** The model, provider, key id, or traffic mode. */
  readonly value: string;
}

export interface UsageGroupReads {
  /** Returns the sums by day or hour of the values with the highest spend. */
  sumsBy(
    filter: AnalyticsFilter,
    groupBy: GroupBy,
    granularity: Granularity,
  ): Promise<readonly UsageGroupSums[]>;
}

export function groupObjects(
  { granularity, active }: Series,
  groupSums: readonly UsageGroupSums[],
): readonly UsageGroupObject[] {
  const byValue = Map.groupBy(groupSums, ({ value }) => value);
  const remainder = remainderOf(active, groupSums);
  // `null` stands for all values that are not listed.
  const groupObject = (value: string | null, buckets: readonly BucketSums[]): UsageGroupObject => ({
    value,
    summary: summaryOf(sumOf(buckets)),
    timeseries: buckets.map((sums) => bucketObject(sums, granularity)),
  });
  return [
    ...[...byValue].map(([value, buckets]) => groupObject(value, buckets)),
    ...(remainder.length > 0 ? [groupObject(null, remainder)] : []),
  ];
}

function remainderOf(
  totals: readonly BucketSums[],
  groupSums: readonly UsageGroupSums[],
): BucketSums[] {
  const byBucket = Map.groupBy(groupSums, ({ bucket }) => bucket);
  return totals.flatMap((sums) => {
    const listed = sumOf(byBucket.get(sums.bucket) ?? []);
    const remainder = { ...subtractSums(sums, listed), bucket: sums.bucket };
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
