import { sql } from 'kysely';
import type { AnalyticsFilter } from '../../record/analytics.ts';
import {
  type PartSums,
  partsMax,
  type Split,
  type SplitReads,
} from '../../record/analytics-split.ts';
import { OnDatabase } from '../database.ts';
import { byBytes, charged } from '../expressions.ts';
import type { UsageDailyTable } from '../schema.ts';
import { dailyRows, sumsOfGroup } from './analytics.ts';

const columns = {
  model: 'model',
  provider: 'provider',
  api_key_id: 'key_id',
  traffic_mode: 'traffic_mode',
} as const satisfies Record<Split, keyof UsageDailyTable>;

/** The daily sums by one of their properties; no more parts leave the database than are shown. */
export class SqlAnalyticsSplit extends OnDatabase implements SplitReads {
  async parts(filter: AnalyticsFilter, split: Split): Promise<PartSums[]> {
    const column = columns[split];
    const largest = await dailyRows(this.database, filter)
      .select(column)
      .groupBy(column)
      .orderBy(sql`sum(${charged})`, 'desc')
      .orderBy(sql`sum(requests)`, 'desc')
      .orderBy(byBytes(column, this.database.engine))
      .limit(partsMax)
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
    const rank = new Map(values.map((value, at) => [value, at]));
    const rankOf = ({ value }: PartSums) => rank.get(value) ?? values.length;
    return days.toSorted((a, b) => rankOf(a) - rankOf(b) || a.day - b.day);
  }
}
