import { logText } from '../../core/text.ts';
import { promptTokens } from '../../core/usage.ts';
import type { Settlement } from '../../money/ledger.ts';
import { mapFees } from '../../money/price/fee-kinds.ts';
import { hourMs, hoursPerDay } from '../../records/period.ts';
import type { RequestRecord } from '../../records/request-record.ts';
import { type Engine, insertRows, type StoreTransaction } from '../database.ts';
import {
  type DailySum,
  dailySums,
  type UsageDailyTable,
  type UsageHourlyTable,
} from '../schema.ts';

const groupColumns = ['tenant_id', 'key_id', 'model', 'provider', 'traffic_mode'] as const;

/**
 * What one request adds to a daily sum: computed in code, and in SQL from its row of the request
 * log.
 */
interface Addend {
  readonly of: (settlement: Settlement) => number;
  readonly sql: string;
}

const feeAddends = mapFees(
  ({ name }) => name,
  (kind, { name }): Addend => ({ of: ({ record }) => record.charges[kind], sql: name }),
);

export const dailyAddends: Readonly<Record<DailySum, Addend>> = {
  requests: { of: () => 1, sql: '1' },
  failed_requests: {
    of: ({ record }) => (record.status === 'error' ? 1 : 0),
    sql: "case when status = 'error' then 1 else 0 end",
  },
  prompt_tokens: {
    of: ({ record }) => promptTokens(record.usage),
    sql: 'input_tokens + cache_read_tokens + cache_write_tokens',
  },
  completion_tokens: { of: ({ record }) => record.usage.outputTokens, sql: 'output_tokens' },
  ...feeAddends,
  written_off: { of: ({ writtenOff }) => writtenOff, sql: 'written_off' },
  searches: { of: ({ record }) => record.searches, sql: 'searches' },
  duration_ms: { of: ({ record }) => record.durationMs, sql: 'duration_ms' },
};

/** Adds to the row that exists already for the same group. */
const addTo = (table: 'usage_daily' | 'usage_hourly', bucket: 'day' | 'hour') =>
  `on conflict (${[bucket, ...groupColumns].join(', ')}) do update set ${dailySums
    .map((name) => `${name} = ${table}.${name} + excluded.${name}`)
    .join(', ')}`;

const addToDay = addTo('usage_daily', 'day');
const addToHour = addTo('usage_hourly', 'hour');

/** An insert into one of the tables, which adds to the rows that exist. */
export type UsageInsert = ReturnType<typeof usageInserts>[number];

/** Returns what a batch adds to the hourly and daily sums: one row for each group of requests. */
export function usageInserts(settlements: readonly Settlement[]) {
  const hourly = hourlyRows(settlements);
  return [
    {
      table: 'usage_hourly',
      columns: ['hour', ...groupColumns, ...dailySums],
      rows: hourly,
      conflict: addToHour,
    },
    {
      table: 'usage_daily',
      columns: ['day', ...groupColumns, ...dailySums],
      rows: dailyRows(hourly),
      conflict: addToDay,
    },
  ] as const;
}

/** Adds a batch to the hourly and daily sums. */
export async function addUsageSums(
  trx: StoreTransaction,
  engine: Engine,
  settlements: readonly Settlement[],
): Promise<void> {
  const [hourly, daily] = usageInserts(settlements);
  await insertRows(trx, engine, hourly);
  await insertRows(trx, engine, daily);
}

function hourlyRows(settlements: readonly Settlement[]): UsageHourlyTable[] {
  const rows = new Map<string, UsageHourlyTable>();
  for (const settlement of settlements) {
    const group = groupOf(settlement.record);
    const name = groupKey(group, group.hour);
    let row = rows.get(name);
    if (!row) {
      row = { ...group, ...noSums };
      rows.set(name, row);
    }
    for (const name of dailySums) row[name] += dailyAddends[name].of(settlement);
  }
  return [...rows.values()];
}

/** Combines the hours of a day. Most batches have one hour, so this adds nothing per request. */
function dailyRows(hourly: readonly UsageHourlyTable[]): UsageDailyTable[] {
  const rows = new Map<string, UsageDailyTable>();
  for (const { hour, ...group } of hourly) {
    const day = Math.floor(hour / hoursPerDay);
    const name = groupKey(group, day);
    const row = rows.get(name);
    if (row) for (const name of dailySums) row[name] += group[name];
    else rows.set(name, { ...group, day });
  }
  return [...rows.values()];
}

type UsageGroup = Pick<UsageDailyTable, (typeof groupColumns)[number]>;

function groupOf(record: RequestRecord): UsageGroup & Pick<UsageHourlyTable, 'hour'> {
  return {
    tenant_id: record.tenantId,
    hour: Math.floor(record.createdAt / hourMs),
    key_id: record.keyId,
    model: logText(record.requestedModel),
    provider: record.provider ?? '',
    traffic_mode: record.trafficMode,
  };
}

/** Spelled out instead of looped, because it runs for every request. */
function groupKey(group: UsageGroup, bucket: number): string {
  const { tenant_id, key_id, model, provider, traffic_mode } = group;
  return `${tenant_id}\n${bucket}\n${key_id}\n${model}\n${provider}\n${traffic_mode}`;
}

const noSums = Object.fromEntries(dailySums.map((name) => [name, 0])) as Record<DailySum, number>;
