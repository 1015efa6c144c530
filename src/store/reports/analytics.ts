import { type RawBuilder, sql } from 'kysely';
import type { GroupBy } from '../../contract/customer.ts';
import { type FeeKind, type FeeName, feeEntries } from '../../money/price/fee-kinds.ts';
import {
  type AnalyticsFilter,
  type AnalyticsReads,
  type DaySums,
  type DetailedSums,
  type UsageGroupReads,
  type UsageGroupSums,
  type UsageSums,
  usageGroupsMax,
} from '../../records/analytics.ts';
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

/** Reads analytics from the daily sums alone, without reading the log. */
export class SqlAnalytics extends SqlRepository implements AnalyticsReads {
  days(filter: AnalyticsFilter): Promise<DaySums[]> {
    return dailyRows(this.database, filter)
      .select('day')
      .select(sumsOfGroup)
      .groupBy('day')
      .orderBy('day')
      .execute();
  }

  /**
   * Sorts by columns that are unique together, so that a page starts where the previous one ended.
   */
  async *details(filter: AnalyticsFilter): AsyncGenerator<readonly DetailedSums[]> {
    const orderColumns = orderColumnsOf(this.database.engine);
    let last: DetailedSums | undefined;
    do {
      const page: DetailedSums[] = await dailyRows(this.database, filter)
        .select(['day', 'model', 'provider', 'traffic_mode as trafficMode', 'key_id as keyId'])
        .select(sumNames.map((name) => sql<number>`${sql.ref(sumColumns[name])}`.as(name)))
        .$if(last !== undefined, (query) => query.where(afterRow(last, orderColumns)))
        .orderBy(sql`${sql.join(orderColumns)}`)
        .limit(rowsPerPage)
        .execute();
      if (page.length > 0) yield page;
      last = page.length < rowsPerPage ? undefined : page.at(-1);
    } while (last);
  }
}

/** Selects the daily sums that match a filter. */
function dailyRows({ read }: Database, { tenantId, days, keyId }: AnalyticsFilter) {
  return read
    .selectFrom('usage_daily')
    .where('tenant_id', '=', tenantId)
    .where('day', '>=', days.first)
    .where('day', '<=', days.last)
    .$if(keyId !== null, (query) => query.where('key_id', '=', keyId));
}

function orderColumnsOf(engine: Engine): RawBuilder<unknown>[] {
  const names = (['model', 'provider', 'traffic_mode'] as const).map((column) =>
    byBytes(column, engine),
  );
  return [sql.ref('day'), sql.ref('key_id'), ...names];
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

/** Daily sums by one property, limited in SQL to the number of values that are shown. */
export class SqlUsageGroups extends SqlRepository implements UsageGroupReads {
  async sumsBy(filter: AnalyticsFilter, groupBy: GroupBy): Promise<UsageGroupSums[]> {
    const column = groupByColumns[groupBy];
    const largest = await dailyRows(this.database, filter)
      .select(column)
      .groupBy(column)
      .orderBy(sql`sum(${charged})`, 'desc')
      .orderBy(sql`sum(requests)`, 'desc')
      .orderBy(byBytes(column, this.database.engine))
      .limit(usageGroupsMax)
      .execute();
    const values = largest.map((row) => String(Object.values(row)[0]));
    if (values.length === 0) return [];
    const days = await dailyRows(this.database, filter)
      .where(sql.ref<string>(column), 'in', values)
      .select(['day', sql.ref<string>(column).as('value')])
      .select(sumsOfGroup)
      .groupBy(['day', column])
      .orderBy('day')
      .execute();
    const rank = new Map(values.map((value, index) => [value, index]));
    const rankOf = ({ value }: UsageGroupSums) => rank.get(value) ?? values.length;
    return days.toSorted((a, b) => rankOf(a) - rankOf(b) || a.day - b.day);
  }
}
