import { sql } from 'kysely';
import type { AnalyticsFilter, UsageSums } from '../record/analytics.ts';
import { type PartSums, partsMax, type Split, type SplitReads } from '../record/analytics-split.ts';
import type { Database } from './database.ts';
import type { UsageDailyTable } from './schema.ts';

const columns = {
  model: 'model',
  provider: 'provider',
  api_key_id: 'key_id',
  traffic_mode: 'traffic_mode',
} as const satisfies Record<Split, keyof UsageDailyTable>;

const sums = {
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

const names = Object.keys(sums) as (keyof UsageSums)[];

const spend = sql`sum(model_charge + byok_platform_fee + managed_tool_fee + agent_runtime_fee)`;

/** The daily sums by one of their properties; no more parts leave the database than are shown. */
export class SqlAnalyticsSplit implements SplitReads {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async parts(filter: AnalyticsFilter, split: Split): Promise<PartSums[]> {
    const column = columns[split];
    const largest = await this.#rows(filter)
      .select(column)
      .groupBy(column)
      .orderBy(spend, 'desc')
      .orderBy(sql`sum(requests)`, 'desc')
      .orderBy(column)
      .limit(partsMax)
      .execute();
    const values = largest.map((row) => String(Object.values(row)[0]));
    if (values.length === 0) return [];
    const days = await this.#rows(filter)
      .where(sql.ref<string>(column), 'in', values)
      .select(['day', sql.ref<string>(column).as('value')])
      .select(names.map((name) => sql<number>`sum(${sql.ref(sums[name])})`.as(name)))
      .groupBy(['day', column])
      .orderBy('day')
      .execute();
    const rank = new Map(values.map((value, at) => [value, at]));
    const rankOf = ({ value }: PartSums) => rank.get(value) ?? values.length;
    return days.toSorted((a, b) => rankOf(a) - rankOf(b) || a.day - b.day);
  }

  #rows({ tenantId, days, keyId }: AnalyticsFilter) {
    return this.#database.read
      .selectFrom('usage_daily')
      .where('tenant_id', '=', tenantId)
      .where('day', '>=', days.first)
      .where('day', '<=', days.last)
      .$if(keyId !== null, (query) => query.where('key_id', '=', keyId));
  }
}
