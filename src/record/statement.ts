import { promptTokens } from '../core/usage.ts';
import { type Cell, csvLine } from './csv.ts';
import { allTime, isoTime, type Period } from './period.ts';
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
  const bill = new RunningBill(frame.opening, month);
  yield csvLine(columns) +
    written({
      time: isoTime(month.from),
      type: 'opening_balance',
      amount: 0,
      balance: frame.opening,
    });
  for await (const lines of reads.lines(frame)) {
    const text = lines.flatMap((line) => bill.add(line).map(written)).join('');
    if (text !== '') yield text;
  }
  const last = bill.close().map(written).join('');
  yield last +
    written({
      time: isoTime(Math.min(month.until - 1, now)),
      type: 'closing_balance',
      amount: 0,
      balance: bill.balance,
    });
}

function written(row: Row): string {
  return csvLine(columns.map((name) => row[name] ?? null));
}

/** Four hundred entries a second for a month: more than can be booked on one wallet. */
const entriesAMonthMax = 1_000_000_000;

/** Turns lines into rows whose amounts add up to their entry, and keeps the balance beside them. */
class RunningBill {
  balance: number;
  #entry: StatementLine | undefined;
  /** What the rows of the running entry do not account for yet. */
  #rest = 0;
  /** What a tenant knows the entry by: its month and its place there, `202803000000017`. */
  #number: number;

  constructor(opening: number, month: Period) {
    this.balance = opening;
    const first = new Date(month.from);
    this.#number = (first.getUTCFullYear() * 100 + first.getUTCMonth() + 1) * entriesAMonthMax;
  }

  add(line: StatementLine): Row[] {
    const rows: Row[] = [];
    if (line.entryId !== this.#entry?.entryId) {
      rows.push(...this.close());
      this.#entry = line;
      this.#number += 1;
      this.#rest = line.amount;
    }
    if (line.request) rows.push(this.#requestRow(line, line.request));
    return rows;
  }

  /** A grant, or charges whose requests are no longer kept: one row for what is left. */
  close(): Row[] {
    const entry = this.#entry;
    if (!entry || this.#rest === 0) return [];
    return [this.#row(entry, this.#rest)];
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
    this.#rest -= amount;
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
