import { promptTokens } from '../core/usage.ts';
import { type Cell, csvLine } from './csv.ts';
import { allTime, isoTime, monthAround, type Period } from './period.ts';
import { feesOf, type RequestRecord, totalCharge } from './request-record.ts';

/**
 * A month of a wallet, for the people who keep accounts. A charge belongs to the month in which it
 * was booked, not to the one in which its request arrived, so that the statement of a month that
 * is over does not change. Only a booking that takes its time before midnight and waits for a lock
 * until after it comes late.
 */

/** The entries of one wallet between two points of its history, both in the past for good. */
export interface StatementFrame {
  readonly accountId: number;
  readonly opening: number;
  /** Entries with greater numbers than this, up to and including the last. */
  readonly afterEntry: number;
  readonly lastEntry: number;
}

export type StatementRequest = Pick<
  RequestRecord,
  'requestId' | 'keyId' | 'requestedModel' | 'provider' | 'trafficMode' | 'usage' | 'charges'
>;

/** One request under its entry; the entry alone when it has none, or its requests are not kept. */
export interface StatementLine {
  /** Counts over all wallets, so it is never shown to a tenant. */
  readonly entryId: number;
  readonly kind: string;
  readonly amount: number;
  readonly bookedAt: number;
  readonly request: StatementRequest | null;
}

export interface StatementReads {
  frame(tenantId: string, period: Period): Promise<StatementFrame>;
  /** In the order of booking, the requests of an entry one after the other; in pages. */
  lines(frame: StatementFrame): AsyncIterable<readonly StatementLine[]>;
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
  'model_charge',
  'byok_platform_fee',
  'managed_tool_fee',
  'agent_runtime_fee',
  'amount',
  'balance',
] as const;

type Row = Partial<Record<(typeof columns)[number], Cell>>;

/** Opening balance plus all amounts is the closing balance, whatever happens meanwhile. */
export async function* statementCsv(
  reads: StatementReads,
  tenantId: string,
  month: Period,
  now: number,
): AsyncGenerator<string> {
  // Nothing is later than now: what a clock that was ahead has booked belongs to the running month.
  const until = month.until > now ? allTime.until : month.until;
  const frame = await reads.frame(tenantId, { from: month.from, until });
  const running = new RunningStatement(frame.opening, month);
  yield csvLine(columns) +
    csvRow({
      time: isoTime(month.from),
      type: 'opening_balance',
      amount: 0,
      balance: frame.opening,
    });
  for await (const lines of reads.lines(frame)) {
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

/** Four hundred entries a second for a month: more than can be booked on one wallet. */
const entriesPerMonthMax = 1_000_000_000;

/** Turns lines into rows whose amounts add up to their entry, and keeps the balance beside them. */
class RunningStatement {
  balance: number;
  #entry: StatementLine | undefined;
  /** What the rows of the running entry do not account for yet. */
  #remaining = 0;
  /** What a tenant knows the entry by: its month and its place there, `202803000000017`. */
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

  /** A grant, or charges whose requests are no longer kept: one row for what is left. */
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

/** A wallet month by month: the first and last lines of its statements, without those between. */

export type EntryRange = Omit<StatementFrame, 'opening'>;

export interface MonthReads {
  /** What people booked by hand, whole credits: grants, and corrections, which are negative. */
  manualChanges(
    range: EntryRange,
  ): Promise<{ readonly granted: number; readonly corrected: number }>;
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
  for (let index = 1; index < count; index++)
    months.unshift(monthAround((months[0] ?? current).from - 1));
  const openings: StatementFrame[] = [];
  for (const month of months) openings.push(await reads.statements.frame(tenantId, month));
  // The running month takes every entry that no month before it has, even if a clock was ahead.
  const { until } = allTime;
  openings.push(await reads.statements.frame(tenantId, { from: until, until }));
  const objects: Awaited<ReturnType<typeof monthObject>>[] = [];
  for (const [index, month] of months.entries()) {
    const [begin, end] = [openings[index], openings[index + 1]];
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

/** A wallet since its first grant, in whole credits. */
export interface WalletTotals {
  readonly balance: number;
  readonly leased: number;
  /** Everything ever given, and everything the operator took back or corrected (below zero). */
  readonly granted: number;
  readonly adjusted: number;
  readonly spent: number;
  readonly requests: number;
}

export interface WalletReads {
  /** A tenant without a wallet has an empty one. */
  totals(tenantId: string): Promise<WalletTotals>;
}
