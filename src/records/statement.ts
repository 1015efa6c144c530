import type { StatementMonthObject } from '../contract/customer.ts';
import { promptTokens } from '../core/usage.ts';
import { feeNames, feesOf, totalCharge } from '../money/price/fee-kinds.ts';
import { type Cell, csvLine } from './csv.ts';
import { allTime, isoTime, monthAround, type Period } from './period.ts';
import type { RequestRecord } from './request-record.ts';

/**
 * The statement of a wallet for one month. A charge belongs to the month in which it was booked,
 * not to the one in which its request arrived, so that a past month's statement doesn't change. The
 * one exception is a booking that reads the time before midnight and then waits for a lock until
 * after midnight.
 */

/** The entries of one wallet between two past points of its history. */
export interface StatementRange {
  readonly accountId: number;
  readonly opening: number;
  /** Exclusive. */
  readonly afterEntry: number;
  /** Inclusive. */
  readonly lastEntry: number;
}

export type StatementRequest = Pick<
  RequestRecord,
  'requestId' | 'keyId' | 'requestedModel' | 'provider' | 'trafficMode' | 'usage' | 'charges'
>;

/**
 * An entry with one of its requests. `request` is null if the entry has none, or if its requests
 * were deleted from the log.
 */
export interface StatementLine {
  /** Numbered across all wallets, so never show it to a tenant. */
  readonly entryId: number;
  readonly kind: string;
  readonly amount: number;
  readonly bookedAt: number;
  readonly request: StatementRequest | null;
}

export interface StatementReads {
  range(tenantId: string, period: Period): Promise<StatementRange>;
  /** Returns pages in the order of booking; the requests of an entry are consecutive. */
  lines(range: StatementRange): AsyncIterable<readonly StatementLine[]>;
}

const columns = [
  'time',
  'entry_id',
  'type',
  'request_id',
  'api_key_id',
  'model',
  'provider',
  'traffic_mode',
  'prompt_tokens',
  'completion_tokens',
  ...feeNames,
  'amount',
  'balance',
] as const;

type Row = Partial<Record<(typeof columns)[number], Cell>>;

/**
 * Writes a statement as CSV. The opening balance plus all amounts equals the closing balance, even
 * if entries are booked meanwhile.
 */
export async function* statementCsv(
  reads: StatementReads,
  tenantId: string,
  month: Period,
  now: number,
): AsyncGenerator<string> {
  // Entries booked by a process whose clock is ahead belong to the current month.
  const until = month.until > now ? allTime.until : month.until;
  const range = await reads.range(tenantId, { from: month.from, until });
  const running = new RunningStatement(range.opening, month);
  yield csvLine(columns) +
    csvRow({
      time: isoTime(month.from),
      type: 'opening_balance',
      amount: 0,
      balance: range.opening,
    });
  for await (const lines of reads.lines(range)) {
    const text = lines.flatMap((line) => running.add(line).map(csvRow)).join('');
    if (text !== '') yield text;
  }
  const last = running.close().map(csvRow).join('');
  yield last +
    csvRow({
      time: isoTime(Math.min(month.until - 1, now)),
      type: 'closing_balance',
      amount: 0,
      balance: running.balance,
    });
}

function csvRow(row: Row): string {
  return csvLine(columns.map((name) => row[name] ?? null));
}

/** Almost 400 entries per second for a month: more than one wallet can book. */
const entriesPerMonthMax = 1_000_000_000;

/** Converts lines to rows whose amounts add up to their entry, with a running balance. */
class RunningStatement {
  balance: number;
  #entry: StatementLine | undefined;
  /** The part of the current entry that has no row yet. */
  #remaining = 0;
  /**
   * The entry's number for the tenant: its month and its index in that month, as in
   * `202803000000017`.
   */
  #number: number;

  constructor(opening: number, month: Period) {
    this.balance = opening;
    const first = new Date(month.from);
    this.#number = (first.getUTCFullYear() * 100 + first.getUTCMonth() + 1) * entriesPerMonthMax;
  }

  add(line: StatementLine): Row[] {
    const rows: Row[] = [];
    if (line.entryId !== this.#entry?.entryId) {
      rows.push(...this.close());
      this.#entry = line;
      this.#number += 1;
      this.#remaining = line.amount;
    }
    if (line.request) rows.push(this.#requestRow(line, line.request));
    return rows;
  }

  /** Returns a row for the rest of an entry: a grant, or charges whose requests were deleted. */
  close(): Row[] {
    const entry = this.#entry;
    if (!entry || this.#remaining === 0) return [];
    return [this.#row(entry, this.#remaining)];
  }

  #requestRow(line: StatementLine, request: StatementRequest): Row {
    const { usage, charges } = request;
    return {
      ...this.#row(line, -totalCharge(charges)),
      request_id: request.requestId,
      api_key_id: request.keyId,
      model: request.requestedModel,
      provider: request.provider,
      traffic_mode: request.trafficMode,
      prompt_tokens: promptTokens(usage),
      completion_tokens: usage.outputTokens,
      ...feesOf(charges),
    };
  }

  #row(entry: StatementLine, amount: number): Row {
    this.#remaining -= amount;
    this.balance += amount;
    return {
      time: isoTime(entry.bookedAt),
      entry_id: this.#number,
      type: entry.kind,
      amount,
      balance: this.balance,
    };
  }
}

/** Monthly statements: only the opening and closing balances and the sums. */

export type EntryRange = Omit<StatementRange, 'opening'>;

export interface MonthReads {
  /** Returns the grants and the corrections (usually negative), in whole credits. */
  manualChanges(
    range: EntryRange,
  ): Promise<{ readonly granted: number; readonly corrected: number }>;
}

/** Returns months, newest first. Opening + granted + corrected - charged = closing. */
export async function statementMonths(
  reads: { readonly statements: Pick<StatementReads, 'range'>; readonly months: MonthReads },
  tenantId: string,
  count: number,
  now: number,
): Promise<readonly StatementMonthObject[]> {
  const current = monthAround(now);
  const months = [current];
  for (let index = 1; index < count; index++)
    months.unshift(monthAround((months[0] ?? current).from - 1));
  const openings: StatementRange[] = [];
  for (const month of months) openings.push(await reads.statements.range(tenantId, month));
  // The current month includes every later entry, even if the clock that booked it is ahead.
  const { until } = allTime;
  openings.push(await reads.statements.range(tenantId, { from: until, until }));
  const objects: StatementMonthObject[] = [];
  for (const [index, month] of months.entries()) {
    const [begin, end] = [openings[index], openings[index + 1]];
    if (begin && end) objects.unshift(await monthObject(reads.months, month, begin, end));
  }
  return objects;
}

async function monthObject(
  reads: MonthReads,
  month: Period,
  begin: StatementRange,
  end: StatementRange,
): Promise<StatementMonthObject> {
  const { granted, corrected } = await reads.manualChanges({
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

/** The sums of a wallet since its first grant, in whole credits. */
export interface WalletTotals {
  readonly balance: number;
  /** What running requests hold. */
  readonly held: number;
  /** All grants, and all corrections (negative if credits were taken back). */
  readonly granted: number;
  readonly adjusted: number;
  readonly spent: number;
  readonly requests: number;
}

export interface WalletReads {
  /**
   * Returns zeros for a tenant without a wallet. `exceptProcess` is a process whose holds don't
   * count.
   */
  totals(tenantId: string, exceptProcess?: string): Promise<WalletTotals>;
}
