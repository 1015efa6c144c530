import { type Cell, csvTable } from './csv.ts';
import { type DayRange, dayMs, isoDay, isoTime, monthAround } from './period.ts';
import { type Charges, noCharges, totalCharge } from './request-record.ts';

/** What a tenant used and spent, day by day, out of the daily sums and never out of the log. */

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

export interface GroupSums extends DaySums {
  readonly model: string;
  readonly provider: string;
  readonly trafficMode: string;
  readonly keyId: string;
}

export interface AnalyticsReads {
  /** The days on which anything happened, in order. */
  days(filter: AnalyticsFilter): Promise<readonly DaySums[]>;
  /** The finest sums there are, day by day, in pages. */
  groups(filter: AnalyticsFilter): AsyncIterable<readonly GroupSums[]>;
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
  return all.reduce((sum, one) => combine(sum, one, 1), noSums);
}

function subtractSums(one: UsageSums, other: UsageSums): UsageSums {
  return combine(one, other, -1);
}

const sumNames = Object.keys(noSums) as (keyof UsageSums)[];

function combine(one: UsageSums, other: UsageSums, sign: 1 | -1): UsageSums {
  const sums: Record<keyof UsageSums, number> = { ...noSums };
  for (const name of sumNames) sums[name] = one[name] + sign * other[name];
  return sums;
}

/** The fee lines under the names that every report gives them. */
export function spendOf(sums: UsageSums) {
  return {
    shared_model_spend: sums.modelCharge,
    byok_platform_fees: sums.byokPlatformFee,
    managed_tool_fees: sums.managedToolFee,
    agent_runtime_fees: sums.agentRuntimeFee,
  };
}

export function analyticsObject({ first, last }: DayRange, activeDays: readonly DaySums[]) {
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

function summaryOf(sums: UsageSums) {
  return {
    total_requests: sums.requests,
    successful_requests: sums.requests - sums.failed,
    failed_requests: sums.failed,
    error_rate: ratio(sums.failed * 100, sums.requests),
    total_tokens: sums.promptTokens + sums.completionTokens,
    prompt_tokens: sums.promptTokens,
    completion_tokens: sums.completionTokens,
    ...spendOf(sums),
    search_requests: sums.searches,
    total_spend: totalCharge(sums),
    avg_latency_ms: ratio(sums.durationMs, sums.requests),
  };
}

function dayObject(day: number, sums: UsageSums) {
  return {
    date: isoDay(day),
    requests: sums.requests,
    failed_requests: sums.failed,
    prompt_tokens: sums.promptTokens,
    completion_tokens: sums.completionTokens,
    tokens: sums.promptTokens + sums.completionTokens,
    ...spendOf(sums),
    search_requests: sums.searches,
    spend: totalCharge(sums),
    avg_latency_ms: ratio(sums.durationMs, sums.requests),
  };
}

/** Two decimals are as fine as anybody reads; nothing of nothing is 0. */
function ratio(part: number, total: number): number {
  return total === 0 ? 0 : Math.round((part / total) * 100) / 100;
}

export function analyticsCsv(pages: AsyncIterable<readonly GroupSums[]>): AsyncGenerator<string> {
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
  'shared_model_spend',
  'byok_platform_fees',
  'managed_tool_fees',
  'agent_runtime_fees',
  'search_requests',
  'total_spend',
  'avg_latency_ms',
] as const;

function cellsOf(group: GroupSums): Cell[] {
  const flat: Record<(typeof columns)[number], Cell> = {
    ...dayObject(group.day, group),
    ...summaryOf(group),
    model: group.model,
    provider: group.provider,
    traffic_mode: group.trafficMode,
    api_key_id: group.keyId,
  };
  return columns.map((name) => flat[name]);
}

/** A period's sums divided by one property, the largest spenders one by one. */

export const splitProperties = ['model', 'provider', 'api_key_id', 'traffic_mode'] as const;
export type Split = (typeof splitProperties)[number];

/** More lines than this nobody tells apart in a chart; the others stand together in one. */
export const splitValuesMax = 10;

export interface SplitSums extends DaySums {
  /** The model, provider, key or mode. */
  readonly value: string;
}

export interface SplitReads {
  /** Day by day, the parts that spent most; all of them together are at most the whole. */
  splitSums(filter: AnalyticsFilter, split: Split): Promise<readonly SplitSums[]>;
}

export function groupObjects(totals: readonly DaySums[], splitSums: readonly SplitSums[]) {
  const byValue = Map.groupBy(splitSums, ({ value }) => value);
  const remainder = remainderOf(totals, splitSums);
  return [
    ...[...byValue].map(([value, days]) => groupObject(value, days)),
    ...(remainder.length > 0 ? [groupObject(null, remainder)] : []),
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

function remainderOf(totals: readonly DaySums[], splitSums: readonly SplitSums[]): DaySums[] {
  const byDay = Map.groupBy(splitSums, ({ day }) => day);
  return totals.flatMap((sums) => {
    const listed = sumOf(byDay.get(sums.day) ?? []);
    const remainder = { ...subtractSums(sums, listed), day: sums.day };
    // A request that was booked between the two reads may be in the parts only.
    return remainder.requests > 0 ? [remainder] : [];
  });
}

/** What a tenant did in some days, as an operator looks at it. */
export interface TenantSums {
  readonly tenantId: string;
  readonly requests: number;
  readonly failed: number;
  readonly spend: number;
  readonly writtenOff: number;
}

export interface TenantSumReads {
  /** Those of the tenants that did anything, in any order. */
  sumsOf(tenantIds: readonly string[], days: DayRange): Promise<readonly TenantSums[]>;
}

/** The UTC month, by the days on which requests arrived. */
export function tenantMonthObject(sums: TenantSums | undefined, now: number) {
  return {
    start_date: isoTime(monthAround(now).from),
    requests: sums?.requests ?? 0,
    failed_requests: sums?.failed ?? 0,
    total_spend: sums?.spend ?? 0,
    written_off: sums?.writtenOff ?? 0,
  };
}
