import { walletObject } from '../../auth/management/credits.ts';
import { type KeySpending, nothingSpent, spentInPeriod } from '../../auth/management/keys.ts';
import {
  type AnalyticsObject,
  type CreditsObject,
  type CreditTotalsObject,
  type CurrentPeriodObject,
  customerDocs,
  type KeyQuotaObject,
  type LogPageObject,
} from '../../contract/customer.ts';
import { type Caller, limitPeriod } from '../../core/caller.ts';
import { notFound } from '../../core/errors.ts';
import { toRequestId } from '../../core/ids.ts';
import { feeSumsOf, totalCharge } from '../../money/price/fee-kinds.ts';
import {
  type AnalyticsReads,
  analyticsCsv,
  analyticsObject,
  groupObjects,
  readSeries,
  sumOf,
  type UsageGroupReads,
  withCompleteHours,
} from '../../records/analytics.ts';
import { type LogReads, logObject, logsCsv, type RequestLog } from '../../records/customer-log.ts';
import {
  daysOf,
  isoTime,
  monthAround,
  readDays,
  readHours,
  readMonth,
} from '../../records/period.ts';
import { receiptObject } from '../../records/receipt.ts';
import {
  type MonthReads,
  type StatementReads,
  statementCsv,
  statementMonths,
  type WalletReads,
} from '../../records/statement.ts';
import { readLimit, readOffset } from '../query.ts';
import type { TenantReadQueue } from '../read-queue.ts';
import { json } from '../reply.ts';
import { type Exchange, type Route, routesFor } from '../routes.ts';
import { csvReply } from './csv.ts';
import {
  datesOf,
  readGranularity,
  readGroupBy,
  readKeyId,
  readLogFilter,
  readMonths,
} from './query.ts';

export interface CustomerDeps extends CreditsDeps {
  readonly logs: LogReads;
  readonly usageGroups: UsageGroupReads;
  readonly requests: RequestLog;
  readonly statements: StatementReads;
  readonly months: MonthReads;
  /** The clock for ledger entries. `now` is the clock for the arrival of requests. */
  accountingNow(): number;
  /** Runs a read once the tenant's ended requests are booked, so that it includes them. */
  settled<T>(read: () => Promise<T>, tenantId: string): Promise<T>;
  readonly queues: ReadQueues;
}

interface ReadQueues {
  readonly lists: TenantReadQueue;
  /**
   * Separate from `lists`, because a download waits for the downloads of all tenants (csv.ts), and
   * a list must not wait for a download.
   */
  readonly files: TenantReadQueue;
}

type ReadHandler = (deps: CustomerDeps, exchange: Exchange, caller: Caller) => Promise<Response>;

const either = routesFor({ access: 'either', scope: 'customer' });
const management = routesFor({ access: 'management' });

/** Routes that return a tenant's own requests and credits. */
export function customerRoutes(deps: CustomerDeps): Route[] {
  const unqueued = (read: ReadHandler) => (exchange: Exchange, caller: Caller) =>
    deps.settled(() => read(deps, exchange, caller), caller.tenantId);
  const queued =
    (queue: keyof ReadQueues) => (read: ReadHandler) => (exchange: Exchange, caller: Caller) =>
      deps.queues[queue].run(caller.tenantId, exchange.request.signal, () =>
        unqueued(read)(exchange, caller),
      );
  const listHandler = queued('lists');
  const fileHandler = queued('files');
  return [
    either.get('/v1/customer/logs', customerDocs.logs, listHandler(showLogs)),
    either.get('/v1/customer/logs/export.csv', customerDocs.logsCsv, fileHandler(exportLogs)),
    either.get('/v1/customer/analytics', customerDocs.analytics, listHandler(showAnalytics)),
    either.get(
      '/v1/customer/analytics/export.csv',
      customerDocs.analyticsCsv,
      fileHandler(exportAnalytics),
    ),
    either.get(
      '/v1/customer/billing/usage-statement.csv',
      customerDocs.statementCsv,
      fileHandler(exportStatement),
    ),
    either.get('/v1/customer/credits', customerDocs.credits, unqueued(showCredits)),
    management.get('/api/v1/credits', customerDocs.totals, unqueued(showTotals)),
    either.get('/v1/customer/logs/:id', customerDocs.receipt, unqueued(showReceipt)),
    either.get(
      '/v1/customer/billing/statements',
      customerDocs.statements,
      listHandler(listStatements),
    ),
  ];
}

async function showLogs({ logs }: CustomerDeps, exchange: Exchange, caller: Caller) {
  const { query } = exchange;
  const [limit, offset] = [readLimit(query), readOffset(query)];
  const filter = await readLogFilter(query, caller, logs);
  const { rows, total } = await logs.page(filter, limit, offset);
  const has_more = offset + rows.length < total && rows.length > 0;
  const logPage: LogPageObject = {
    logs: rows.map(logObject),
    pagination: { total, limit, offset, has_more },
  };
  return json(exchange, logPage);
}

async function exportLogs({ logs }: CustomerDeps, exchange: Exchange, caller: Caller) {
  const filter = await readLogFilter(exchange.query, caller, logs);
  return csvReply(exchange, 'tollgate-logs.csv', logsCsv(logs.all(filter)));
}

async function showAnalytics(deps: CustomerDeps, exchange: Exchange, caller: Caller) {
  const filter = await analyticsFilter(deps, exchange, caller);
  const groupBy = readGroupBy(exchange.query);
  const requested = readGranularity(exchange.query, filter.days);
  const series = await readSeries(deps.analytics, filter, requested);
  const totals = analyticsObject(filter, series);
  if (groupBy === null) return json(exchange, totals);
  const sums = await deps.usageGroups.sumsBy(filter, groupBy, series.granularity);
  const groups = groupObjects(series, sums);
  const analytics: AnalyticsObject = { ...totals, group_by: groupBy, groups };
  return json(exchange, analytics);
}

async function exportAnalytics(deps: CustomerDeps, exchange: Exchange, caller: Caller) {
  const filter = await analyticsFilter(deps, exchange, caller);
  const chunks = analyticsCsv(deps.analytics.details(filter));
  return csvReply(exchange, 'tollgate-analytics.csv', chunks);
}

async function analyticsFilter(
  { logs, analytics, now }: CustomerDeps,
  { query }: Exchange,
  { tenantId }: Caller,
) {
  const dates = datesOf(query);
  const days = readDays(dates, now());
  const hours = readHours(dates, days);
  const keyId = await readKeyId(query, tenantId, logs);
  return withCompleteHours(analytics, { tenantId, days, hours, keyId });
}

async function exportStatement(
  { statements, accountingNow }: CustomerDeps,
  exchange: Exchange,
  { tenantId }: Caller,
) {
  const month = readMonth(exchange.query.get('month'), accountingNow());
  const chunks = statementCsv(statements, tenantId, month, accountingNow());
  return csvReply(exchange, `tollgate-statement-${isoTime(month.from).slice(0, 7)}.csv`, chunks);
}

async function showCredits(deps: CustomerDeps, exchange: Exchange, caller: Caller) {
  return json(exchange, await creditsObject(deps, caller));
}

/** Returns OpenRouter's two totals: the sum of grants and corrections, and the sum of charges. */
async function showTotals({ wallets }: CustomerDeps, exchange: Exchange, { tenantId }: Caller) {
  const { granted, adjusted, spent } = await wallets.totals(tenantId);
  const data: CreditTotalsObject = { total_credits: granted + adjusted, total_usage: spent };
  return json(exchange, { data });
}

async function showReceipt(
  { requests, creditsPerUsd }: CustomerDeps,
  exchange: Exchange,
  { tenantId }: Caller,
) {
  const record = await requests.find(tenantId, toRequestId(exchange.param('id')));
  if (!record) throw notFound('There is no request with this ID.', 'id');
  return json(exchange, { data: receiptObject(record, creditsPerUsd) });
}

async function listStatements(deps: CustomerDeps, exchange: Exchange, { tenantId }: Caller) {
  const count = readMonths(exchange.query);
  return json(exchange, {
    data: await statementMonths(deps, tenantId, count, deps.accountingNow()),
  });
}

interface CreditsDeps {
  readonly wallets: WalletReads;
  readonly analytics: AnalyticsReads;
  readonly spending: KeySpending;
  readonly creditsPerUsd: number;
  /** The default limits of keys and tenants. */
  readonly limits: { readonly requestsPerMinute: number; readonly concurrentRequests: number };
  now(): number;
}

/** Returns the tenant's wallet and current month, and the quotas of the calling key. */
async function creditsObject(deps: CreditsDeps, caller: Caller): Promise<CreditsObject> {
  const { tenantId } = caller;
  const wallet = await deps.wallets.totals(tenantId);
  const { balance, granted, spent, adjusted, requests } = wallet;
  return {
    balance: { ...walletObject(wallet), usd: balance / deps.creditsPerUsd },
    credits_per_usd: deps.creditsPerUsd,
    current_period: await currentPeriod(deps, tenantId),
    lifetime: { granted, spent, adjusted, requests },
    quotas: {
      requests_per_minute: caller.requestsPerMinute ?? deps.limits.requestsPerMinute,
      concurrent_requests: caller.concurrentRequests ?? deps.limits.concurrentRequests,
      key: await keyQuota(deps, caller),
    },
  };
}

/** Describes the current UTC month. A request belongs to the day on which it arrived. */
async function currentPeriod(
  { analytics, now }: CreditsDeps,
  tenantId: string,
): Promise<CurrentPeriodObject> {
  const month = monthAround(now());
  const filter = { tenantId, days: daysOf(month), keyId: null };
  const activeDays = await analytics.series(filter, 'day');
  const sums = sumOf(activeDays);
  return {
    start_date: isoTime(month.from),
    end_date: isoTime(month.until - 1),
    requests: sums.requests,
    ...feeSumsOf(sums),
    total_spend: totalCharge(sums),
  };
}

async function keyQuota({ spending, now }: CreditsDeps, caller: Caller): Promise<KeyQuotaObject> {
  const { tenantId, keyId, limitCredits, limitReset } = caller;
  const time = now();
  const spent = (await spending.spent(tenantId, [keyId], time)).get(keyId) ?? nothingSpent;
  const used = spentInPeriod(spent, limitReset);
  return {
    limit: limitCredits,
    used,
    remaining: limitCredits === null ? null : Math.max(0, limitCredits - used),
    resets_at: limitReset === null ? null : isoTime(limitPeriod(limitReset, time).until),
  };
}
