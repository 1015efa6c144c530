import { type RawBuilder, sql } from 'kysely';
import type {
  AnalyticsFilter,
  AnalyticsReads,
  DaySums,
  GroupSums,
  UsageSums,
} from '../../record/analytics.ts';
import { type Database, type Engine, OnDatabase } from '../database.ts';
import { byBytes } from '../expressions.ts';
import type { UsageDailyTable } from '../schema.ts';

const groupsPerPage = 500;

/** What each sum is called in the table. */
const sumColumns = {
  requests: 'requests',
  failed: 'failed_requests',
  promptTokens: 'prompt_tokens',
  completionTokens: 'completion_tokens',
  modelCharge: 'model_charge',
  byokPlatformFee: 'byok_platform_fee',
  managedToolFee: 'managed_tool_fee',
  agentRuntimeFee: 'agent_runtime_fee',
  searches: 'searches',
  durationMs: 'duration_ms',
} as const satisfies Record<keyof UsageSums, keyof UsageDailyTable>;

const sumNames = Object.keys(sumColumns) as (keyof UsageSums)[];

/** Each of the sums, over all rows of a group. */
export const sumsOfGroup = sumNames.map((name) =>
  sql<number>`sum(${sql.ref(sumColumns[name])})`.as(name),
);

/** Answered from the daily sums alone, without touching the log. */
export class SqlAnalytics extends OnDatabase implements AnalyticsReads {
  days(filter: AnalyticsFilter): Promise<DaySums[]> {
    return dailyRows(this.database, filter)
      .select('day')
      .select(sumsOfGroup)
      .groupBy('day')
      .orderBy('day')
      .execute();
  }

  /** No two groups share a place in the order, so that a page starts where the last one ended. */
  async *groups(filter: AnalyticsFilter): AsyncGenerator<readonly GroupSums[]> {
    const places = placesOf(this.database.engine);
    let last: GroupSums | undefined;
    do {
      const page: GroupSums[] = await dailyRows(this.database, filter)
        .select(['day', 'model', 'provider', 'traffic_mode as trafficMode', 'key_id as keyId'])
        .select(sumNames.map((name) => sql<number>`${sql.ref(sumColumns[name])}`.as(name)))
        .$if(last !== undefined, (query) => query.where(behind(last, places)))
        .orderBy(sql`${sql.join(places)}`)
        .limit(groupsPerPage)
        .execute();
      if (page.length > 0) yield page;
      last = page.length < groupsPerPage ? undefined : page.at(-1);
    } while (last);
  }
}

/** The daily sums that a filter lets through. */
export function dailyRows({ read }: Database, { tenantId, days, keyId }: AnalyticsFilter) {
  return read
    .selectFrom('usage_daily')
    .where('tenant_id', '=', tenantId)
    .where('day', '>=', days.first)
    .where('day', '<=', days.last)
    .$if(keyId !== null, (query) => query.where('key_id', '=', keyId));
}

function placesOf(engine: Engine): RawBuilder<unknown>[] {
  const names = (['model', 'provider', 'traffic_mode'] as const).map((it) => byBytes(it, engine));
  return [sql.ref('day'), sql.ref('key_id'), ...names];
}

function behind(last: GroupSums | undefined, places: readonly RawBuilder<unknown>[]) {
  const { day, keyId, model, provider, trafficMode } = last ?? {};
  return sql<boolean>`(${sql.join(places)})
    > (${day}, ${keyId}, ${model}, ${provider}, ${trafficMode})`;
}
