import { allTime, isoTime, monthAround, type Period } from './period.ts';
import type { StatementFrame, StatementReads } from './statement.ts';

/** A wallet month by month: the first and last lines of its statements, without those between. */

export type EntryRange = Omit<StatementFrame, 'opening'>;

export interface MonthReads {
  /** What people booked by hand, whole credits: grants, and corrections, which are negative. */
  byHand(range: EntryRange): Promise<{ readonly granted: number; readonly corrected: number }>;
}

/** Newest first; opening balance, grants and corrections less charges is the closing balance. */
export async function statementMonths(
  reads: { readonly statements: Pick<StatementReads, 'frame'>; readonly months: MonthReads },
  tenantId: string,
  count: number,
  now: number,
) {
  const current = monthAround(now);
  const months = [current];
  for (let at = 1; at < count; at++) months.unshift(monthAround((months[0] ?? current).from - 1));
  const openings: StatementFrame[] = [];
  for (const month of months) openings.push(await reads.statements.frame(tenantId, month));
  // The running month takes every entry that no month before it has, even if a clock was ahead.
  const { until } = allTime;
  openings.push(await reads.statements.frame(tenantId, { from: until, until }));
  const objects: Awaited<ReturnType<typeof monthObject>>[] = [];
  for (const [at, month] of months.entries()) {
    const [begin, end] = [openings[at], openings[at + 1]];
    if (begin && end) objects.unshift(await monthObject(reads.months, month, begin, end));
  }
  return objects;
}

async function monthObject(
  reads: MonthReads,
  month: Period,
  begin: StatementFrame,
  end: StatementFrame,
) {
  const { granted, corrected } = await reads.byHand({
    accountId: end.accountId,
    afterEntry: begin.afterEntry,
    lastEntry: end.afterEntry,
  });
  return {
    month: isoTime(month.from).slice(0, 7),
    opening_balance: begin.opening,
    granted,
    corrected,
    charged: begin.opening + granted + corrected - end.opening,
    closing_balance: end.opening,
  };
}
