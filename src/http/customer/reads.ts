import type { Caller } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { analyticsCsv, analyticsObject } from '../../record/analytics.ts';
import { groupObjects, type SplitReads } from '../../record/analytics-split.ts';
import type { LogReads } from '../../record/log-reads.ts';
import { logObject, logsCsv } from '../../record/log-row.ts';
import { isoTime, readDays, readMonth } from '../../record/period.ts';
import { receiptObject } from '../../record/receipt.ts';
import type { RequestLog } from '../../record/request-log.ts';
import { type StatementReads, statementCsv } from '../../record/statement.ts';
import { type MonthReads, statementMonths } from '../../record/statement-months.ts';
import type { Exchange } from '../exchange.ts';
import { customerDocs } from '../openapi/customer.ts';
import { readLimit, readOffset } from '../query.ts';
import type { ReadTurns } from '../read-turns.ts';
import { json } from '../reply.ts';
import { type Route, routesFor } from '../routes.ts';
import { type CreditsParts, creditsObject } from './credits.ts';
import { csvReply } from './csv.ts';
import { datesOf, readKeyId, readLogFilter, readMonths, readSplit } from './query.ts';

export interface CustomerParts extends CreditsParts {
  readonly logs: LogReads;
  readonly splits: SplitReads;
  readonly requests: RequestLog;
  readonly statements: StatementReads;
  readonly months: MonthReads;
  /** The time by which entries are booked; `now` is that by which requests arrive. */
  booksNow(): number;
  /** What is read behind every request that has ended: a client finds what it just did. */
  settled<T>(read: () => Promise<T>, tenantId: string): Promise<T>;
  readonly turns: CustomerTurns;
}

interface CustomerTurns {
  readonly lists: ReadTurns;
  /**
   * The first piece of a file waits for a turn among the files of all tenants (csv.ts): in one line
   * with lists, a tenant's lists would wait for the downloads of others.
   */
  readonly files: ReadTurns;
}

type Read = (parts: CustomerParts, exchange: Exchange, caller: Caller) => Promise<Response>;

const either = routesFor({ access: 'either', scope: 'customer' });
const management = routesFor({ access: 'management' });

/** What a tenant may know of its own requests and credits. */
export function customerRoutes(parts: CustomerParts): Route[] {
  const shortBy = (read: Read) => (exchange: Exchange, caller: Caller) =>
    parts.settled(() => read(parts, exchange, caller), caller.tenantId);
  const inTurn = (line: keyof CustomerTurns) => (read: Read) => (exchange: Exchange, who: Caller) =>
    parts.turns[line].inTurn(who.tenantId, exchange.request.signal, () =>
      shortBy(read)(exchange, who),
    );
  const listBy = inTurn('lists');
  const fileBy = inTurn('files');
  return [
    either.get('/v1/customer/logs', customerDocs.logs, listBy(showLogs)),
    either.get('/v1/customer/logs/export.csv', customerDocs.logsCsv, fileBy(exportLogs)),
    either.get('/v1/customer/analytics', customerDocs.analytics, listBy(showAnalytics)),
    either.get(
      '/v1/customer/analytics/export.csv',
      customerDocs.analyticsCsv,
      fileBy(exportAnalytics),
    ),
    either.get(
      '/v1/customer/billing/usage-statement.csv',
      customerDocs.statementCsv,
      fileBy(exportStatement),
    ),
    either.get('/v1/customer/credits', customerDocs.credits, shortBy(showCredits)),
    management.get('/api/v1/credits', customerDocs.totals, shortBy(showTotals)),
    either.get('/v1/customer/logs/:id', customerDocs.receipt, shortBy(showReceipt)),
    either.get('/v1/customer/billing/statements', customerDocs.statements, listBy(listStatements)),
  ];
}

async function showLogs({ logs }: CustomerParts, exchange: Exchange, caller: Caller) {
  const { query } = exchange;
  const [limit, offset] = [readLimit(query), readOffset(query)];
  const filter = await readLogFilter(query, caller, logs);
  const { rows, total } = await logs.page(filter, limit, offset);
  const has_more = offset + rows.length < total && rows.length > 0;
  return json(exchange, {
    logs: rows.map(logObject),
    pagination: { total, limit, offset, has_more },
  });
}

async function exportLogs({ logs }: CustomerParts, exchange: Exchange, caller: Caller) {
  const filter = await readLogFilter(exchange.query, caller, logs);
  return csvReply(exchange, 'tollgate-logs.csv', logsCsv(logs.all(filter)));
}

async function showAnalytics(parts: CustomerParts, exchange: Exchange, caller: Caller) {
  const filter = await analyticsFilter(parts, exchange, caller);
  const split = readSplit(exchange.query);
  const days = await parts.analytics.days(filter);
  const whole = analyticsObject(filter.days, days);
  if (split === null) return json(exchange, whole);
  const groups = groupObjects(days, await parts.splits.parts(filter, split));
  return json(exchange, { ...whole, group_by: split, groups });
}

async function exportAnalytics(parts: CustomerParts, exchange: Exchange, caller: Caller) {
  const filter = await analyticsFilter(parts, exchange, caller);
  const pieces = analyticsCsv(parts.analytics.groups(filter));
  return csvReply(exchange, 'tollgate-analytics.csv', pieces);
}

async function analyticsFilter(
  { logs, now }: CustomerParts,
  { query }: Exchange,
  { tenantId }: Caller,
) {
  const days = readDays(datesOf(query), now());
  return { tenantId, days, keyId: await readKeyId(query, tenantId, logs) };
}

async function exportStatement(
  { statements, booksNow }: CustomerParts,
  exchange: Exchange,
  { tenantId }: Caller,
) {
  const month = readMonth(exchange.query.get('month'), booksNow());
  const pieces = statementCsv(statements, tenantId, month, booksNow());
  return csvReply(exchange, `tollgate-statement-${isoTime(month.from).slice(0, 7)}.csv`, pieces);
}

async function showCredits(parts: CustomerParts, exchange: Exchange, caller: Caller) {
  return json(exchange, await creditsObject(parts, caller));
}

/** OpenRouter's two numbers: everything ever granted or corrected, everything ever charged. */
async function showTotals({ wallets }: CustomerParts, exchange: Exchange, { tenantId }: Caller) {
  const { granted, adjusted, spent } = await wallets.totals(tenantId);
  return json(exchange, { data: { total_credits: granted + adjusted, total_usage: spent } });
}

async function showReceipt(
  { requests, creditsPerUsd }: CustomerParts,
  exchange: Exchange,
  { tenantId }: Caller,
) {
  const record = await requests.find(tenantId, toRequestId(exchange.param('id')));
  if (!record) throw notFound('There is no request with this id.', 'id');
  return json(exchange, { data: receiptObject(record, creditsPerUsd) });
}

async function listStatements(parts: CustomerParts, exchange: Exchange, { tenantId }: Caller) {
  const count = readMonths(exchange.query);
  return json(exchange, { data: await statementMonths(parts, tenantId, count, parts.booksNow()) });
}
