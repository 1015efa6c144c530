import { type DayRange, isoTime, monthAround } from './period.ts';

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
  of(tenantIds: readonly string[], days: DayRange): Promise<readonly TenantSums[]>;
}

/** The UTC month, by the days on which requests arrived. */
export function monthObject(sums: TenantSums | undefined, now: number) {
  return {
    start_date: isoTime(monthAround(now).from),
    requests: sums?.requests ?? 0,
    failed_requests: sums?.failed ?? 0,
    total_spend: sums?.spend ?? 0,
    written_off: sums?.writtenOff ?? 0,
  };
}
