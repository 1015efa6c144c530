import { type RawBuilder, sql } from 'kysely';
import type { Granularity, GroupBy } from '../../contract/customer.ts';
import { type FeeKind, type FeeName, feeEntries } from '../../money/price/fee-kinds.ts';
import {
  type AnalyticsFilter,
  type AnalyticsReads,
  type BucketSums,
  bucketsPerDay,
  type DetailedSums,
  type UsageGroupReads,
  type UsageGroupSums,
  type UsageSums,
  usageGroupsMax,
} from '../../records/analytics.ts';
import { hoursPerDay } from '../../records/period.ts';
import { byBytes, charged, type Database, type Engine, SqlRepository } from '../database.ts';
import type { UsageDailyTable } from '../schema.ts';

const rowsPerPage = 500;

const feeColumns = Object.fromEntries(feeEntries.map(([kind, { name }]) => [kind, name])) as {
  readonly [Kind in FeeKind]: FeeName;
};

/** The column of each sum. */
const sumColumns = {
  requests: 'requests',
  failed: 'failed_requests',
  promptTokens: 'prompt_tokens',
  completionTokens: 'completion_tokens',
  ...feeColumns,
  searches: 'searches',
  durationMs: 'duration_ms',
} as const satisfies Record<keyof UsageSums, keyof UsageDailyTable>;

const sumNames = Object.keys(sumColumns) as (keyof UsageSums)[];

/** Each sum over all rows of a group. */
const sumsOfGroup = sumNames.map((name) => sql<number>`sum(${sql.ref(sumColumns[name])})`.as(name));

/** Reads analytics from the daily and hourly sums alone, without reading the log. */
export class SqlAnalytics extends SqlRepository implements AnalyticsReads {
  series(filter: AnalyticsFilter, granularity: Granularity): Promise<BucketSums[]> {
    return sumRows(this.database, filter, granularity)
      .select('bucket')
      .select(sumsOfGroup)
      .groupBy('bucket')
      .orderBy('bucket')
      .execute();
  }

  /**
   * Sorts by columns that are unique together, so that a page starts where the previous one ended.
   */
  async *details(filter: AnalyticsFilter): AsyncGenerator<readonly DetailedSums[]> {
    const orderColumns = orderColumnsOf(this.database.engine);
    let last: DetailedSums | undefined;
    do {
      const page: DetailedSums[] = await sumRows(this.database, filter, 'day')
        .select([
          'bucket as day',
          'model',
          'provider',
          'traffic_mode as trafficMode',
          'key_id as keyId',
        ])
        .select(sumsOfGroup)
        .groupBy(['bucket', 'model', 'provider', 'traffic_mode', 'key_id'])
        .$if(last !== undefined, (query) => query.where(afterRow(last, orderColumns)))
        .orderBy(sql`${sql.join(orderColumns)}`)
        .limit(rowsPerPage)
        .execute();
      if (page.length > 0) yield page;
      last = page.length < rowsPerPage ? undefined : page.at(-1);
    } while (last);
  }
}

type UsageTable = UsageDailyTable & { readonly bucket: number; readonly unit: number };

/** Each table's sums with its own day or hour as `unit`, and the day or hour of the report. */
const usageTables = {
  day: sql<UsageTable>`(select day as bucket, day as unit, usage_daily.* from usage_daily)`,
  hour: sql<UsageTable>`(select hour as bucket, hour as unit, usage_hourly.* from usage_hourly)`,
  dayOfHours: sql<UsageTable>`(
    select hour / ${sql.lit(hoursPerDay)} as bucket, hour as unit, usage_hourly.* from usage_hourly
  )`,
};

/** Selects the daily or hourly sums that match a filter. */
function sumRows(
  { read }: Database,
  { tenantId, days, hours, keyId }: AnalyticsFilter,
  granularity: Granularity,
) {
  const perDay = bucketsPerDay[granularity];
  const first = hours?.first ?? days.first * perDay;
  const until = hours ? hours.last + 1 : (days.last + 1) * perDay;
  const table = hours && granularity === 'day' ? 'dayOfHours' : granularity;
  return read
    .selectFrom(usageTables[table].as('usage'))
    .where('tenant_id', '=', tenantId)
    .where('unit', '>=', first)
    .where('unit', '<', until)
    .$if(keyId !== null, (query) => query.where('key_id', '=', keyId));
}

function orderColumnsOf(engine: Engine): RawBuilder<unknown>[] {
  const names = (['model', 'provider', 'traffic_mode'] as const).map((column) =>
    byBytes(column, engine),
  );
  return [sql.ref('bucket'), sql.ref('key_id'), ...names];
}

function afterRow(last: DetailedSums | undefined, orderColumns: readonly RawBuilder<unknown>[]) {
  const { day, keyId, model, provider, trafficMode } = last ?? {};
  return sql<boolean>`(${sql.join(orderColumns)})
    > (${day}, ${keyId}, ${model}, ${provider}, ${trafficMode})`;
}

const groupByColumns = {
  model: 'model',
  provider: 'provider',
  api_key_id: 'key_id',
  traffic_mode: 'traffic_mode',
} as const satisfies Record<GroupBy, keyof UsageDailyTable>;

/** Sums by one property, limited in SQL to the number of values that are shown. */
export class SqlUsageGroups extends SqlRepository implements UsageGroupReads {
  async sumsBy(
    filter: AnalyticsFilter,
    groupBy: GroupBy,
    granularity: Granularity,
  ): Promise<UsageGroupSums[]> {
    const column = groupByColumns[groupBy];
    const largest = await sumRows(this.database, filter, granularity)
      .select(column)
      .groupBy(column)
      .orderBy(sql`sum(${charged})`, 'desc')
      .orderBy(sql`sum(requests)`, 'desc')
      .orderBy(byBytes(column, this.database.engine))
      .limit(usageGroupsMax)
      .execute();
    const values = largest.map((row) => String(Object.values(row)[0]));
    if (values.length === 0) return [];
    const sums = await sumRows(this.database, filter, granularity)
      .where(sql.ref<string>(column), 'in', values)
      .select(['bucket', sql.ref<string>(column).as('value')])
      .select(sumsOfGroup)
      .groupBy(['bucket', column])
      .orderBy('bucket')
      .execute();
    const rank = new Map(values.map((value, index) => [value, index]));
    const rankOf = ({ value }: UsageGroupSums) => rank.get(value) ?? values.length;
    return sums.toSorted((a, b) => rankOf(a) - rankOf(b) || a.bucket - b.bucket);
  }
}
