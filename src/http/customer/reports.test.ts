import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { waitUntil } from '../../../tests/support/wait-until.ts';
import { nothingSpent } from '../../auth/management/keys.ts';
import type { Caller } from '../../core/caller.ts';
import { noSums } from '../../records/analytics.ts';
import { TenantReadQueue } from '../read-queue.ts';
import type { Route } from '../routes.ts';
import { Exchange } from '../routes.ts';
import { type CustomerDeps, customerRoutes } from './reports.ts';

// Tests outages of the store, before an answer and in the middle of a table.

const caller = callerOf('acme', { keyId: 'key_a', kind: 'management' });

const outage = new Error('Connection terminated unexpectedly');
const reject = () => Promise.reject(outage);
const failingRows = () => ({ [Symbol.asyncIterator]: () => ({ next: reject }) });

function depsWith(change: Partial<CustomerDeps> = {}): CustomerDeps {
  return {
    settled: (read) => read(),
    logs: { ownsKey: reject, page: reject, all: failingRows },
    analytics: { series: reject, details: onePage },
    wallets: { totals: reject },
    usageGroups: { sumsBy: reject },
    requests: { find: reject },
    months: { manualChanges: reject },
    statements: { range: reject, lines: failingRows },
    spending: { spent: async () => new Map([['key_a', nothingSpent]]) },
    creditsPerUsd: 1_000_000,
    limits: { requestsPerMinute: 60, concurrentRequests: 5 },
    queues: { lists: new TenantReadQueue(), files: new TenantReadQueue() },
    now: () => Date.UTC(2028, 1, 29),
    accountingNow: () => Date.UTC(2028, 1, 29),
    ...change,
  };
}

/** Yields one page and then fails. */
async function* onePage() {
  yield [{ ...noSums, day: 1, model: 'm', provider: 'p', trafficMode: 'shared', keyId: 'key_a' }];
  throw outage;
}

async function get(
  path: string,
  deps: CustomerDeps,
  lateErrors: unknown[] = [],
): Promise<Response> {
  return getFrom(customerRoutes(deps), path, caller, lateErrors);
}

async function getFrom(
  routes: readonly Route[],
  path: string,
  keyCaller: Caller,
  lateErrors: unknown[] = [],
): Promise<Response> {
  const route = routes.find((one) => one.path === path);
  if (route?.access !== 'either' && route?.access !== 'management') throw new Error(path);
  const exchange = new Exchange(new Request(`http://tollgate.test${path}`));
  exchange.reportLateError = (_, error) => void lateErrors.push(error);
  return route.handle(exchange, keyCaller);
}

describe('customer reports during an outage of the store', () => {
  const paths = customerRoutes(depsWith()).map(({ path }) => path);

  test.each(paths)('GET %s fails if ended requests cannot be booked', async (path) => {
    await expect(get(path, depsWith({ settled: reject }))).rejects.toBe(outage);
  });

  test.each([
    'logs',
    'logs/export.csv',
    'analytics',
    'analytics/export.csv',
    'credits',
    'billing/usage-statement.csv',
  ])('GET /v1/customer/%s fails before the response starts', async (name) => {
    const deps = depsWith({ analytics: { series: reject, details: failingRows } });
    await expect(get(`/v1/customer/${name}`, deps)).rejects.toBe(outage);
  });

  test('GET /v1/customer/analytics/export.csv cuts the download off and logs the error', async () => {
    const lateErrors: unknown[] = [];
    const answer = await get('/v1/customer/analytics/export.csv', depsWith(), lateErrors);
    expect(answer.status).toBe(200);
    // The end never arrives: the server closes the connection instead.
    void answer.text();
    await waitUntil(() => lateErrors.length > 0);
    expect(lateErrors).toEqual([outage]);
  });
});

const short = ['/v1/customer/credits', '/api/v1/credits', '/v1/customer/logs/:id'];

test('customer reports run 2 lists and 2 downloads per tenant at once', async () => {
  const started: string[] = [];
  const store = Promise.withResolvers<never>();
  const settled: CustomerDeps['settled'] = (_, tenantId) => {
    started.push(tenantId);
    return store.promise;
  };
  const routes = customerRoutes(depsWith({ settled }));
  const long = routes.map(({ path }) => path).filter((path) => !short.includes(path));
  const files = long.filter((path) => path.endsWith('.csv'));
  const lists = long.filter((path) => !path.endsWith('.csv'));
  const reads = files.map((path) => getFrom(routes, path, caller));
  expect(started).toEqual(['acme', 'acme']);
  // Lists don't wait for downloads, because those wait for the downloads of all tenants.
  reads.push(...lists.map((path) => getFrom(routes, path, caller)));
  expect(started.splice(0)).toEqual(['acme', 'acme', 'acme', 'acme']);
  reads.push(getFrom(routes, '/v1/customer/logs', callerOf('other')));
  expect(started.splice(0)).toEqual(['other']);
  reads.push(...short.map((path) => getFrom(routes, path, caller)));
  expect(started.splice(0)).toEqual(['acme', 'acme', 'acme']);
  store.reject(outage);
  const outcomes = await Promise.allSettled(reads);
  expect(outcomes.map(({ status }) => status)).toEqual(Array(10).fill('rejected'));
  expect(started).toEqual(['acme', 'acme']);
});
