import { sql } from 'kysely';
import type { DayRange } from '../../record/period.ts';
import type { TenantSumReads, TenantSums } from '../../record/tenant-sums.ts';
import { OnDatabase } from '../database.ts';
import { charged } from '../expressions.ts';

/** The daily sums of several tenants at once. */
export class SqlTenantSums extends OnDatabase implements TenantSumReads {
  async of(tenantIds: readonly string[], days: DayRange): Promise<TenantSums[]> {
    if (tenantIds.length === 0) return [];
    return this.database.read
      .selectFrom('usage_daily')
      .select([
        'tenant_id as tenantId',
        sql<number>`sum(requests)`.as('requests'),
        sql<number>`sum(failed_requests)`.as('failed'),
        sql<number>`sum(${charged})`.as('spend'),
        sql<number>`sum(written_off)`.as('writtenOff'),
      ])
      .where('tenant_id', 'in', tenantIds)
      .where('day', '>=', days.first)
      .where('day', '<=', days.last)
      .groupBy('tenant_id')
      .execute();
  }
}
