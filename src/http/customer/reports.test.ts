import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { nothingSpent } from '../../auth/management/keys.ts';
import type { Caller } from '../../core/caller.ts';
import { noSums } from '../../records/analytics.ts';
import { TenantReadQueue } from '../read-queue.ts';
import type { Route } from '../routes.ts';
import { Exchange } from '../routes.ts';
import { type CustomerDeps, customerRoutes } from './reports.ts';

/** The store goes away: before the first word, and in the middle of a table. */

const caller = callerOf('acme', { keyId: 'key_a', kind: 'management' });

const cut = new Error('Connection terminated unexpectedly');
const refuse = () => Promise.reject(cut);
const broken = () => ({ [Symbol.asyncIterator]: () => ({ next: refuse }) });

function parts(change: Partial<CustomerDeps> = {}): CustomerDeps {
  return {
    settled: (read) => read(),
    logs: { ownsKey: refuse, page: refuse, all: broken },
    analytics: { days: refuse, groups: oneGroup },
    wallets: { totals: refuse },
    splits: { splitSums: refuse },
    requests: { find: refuse },
    months: { manualChanges: refuse },
    statements: { frame: refuse, lines: broken },
    spending: { spent: async () => new Map([['key_a', nothingSpent]]) },
    creditsPerUsd: 1_000_000,
    limits: { requestsPerMinute: 60, concurrentRequests: 5 },
    queues: { lists: new TenantReadQueue(), files: new TenantReadQueue() },
    now: () => Date.UTC(2028, 1, 29),
    accountingNow: () => Date.UTC(2028, 1, 29),
    ...change,
  };
}

/** One page, and then the connection is cut. */
async function* oneGroup() {
  yield [{ ...noSums, day: 1, model: 'm', provider: 'p', trafficMode: 'shared', keyId: 'key_a' }];
  throw cut;
}

async function ask(path: string, given: CustomerDeps, told: unknown[] = []): Promise<Response> {
  return askOne(customerRoutes(given), path, caller, told);
}

async function askOne(
  routes: readonly Route[],
  path: string,
  who: Caller,
  told: unknown[] = [],
): Promise<Response> {
  const route = routes.find((one) => one.path === path);
  if (route?.access !== 'either' && route?.access !== 'management') throw new Error(path);
  const exchange = new Exchange(new Request(`http://tollgate.test${path}`));
  exchange.reportLateError = (_, error) => void told.push(error);
  return route.handle(exchange, who);
}

describe('a store that is away', () => {
  const paths = customerRoutes(parts()).map(({ path }) => path);

  test.each(paths)('is known to %s when what has ended cannot be booked', async (path) => {
    await expect(ask(path, parts({ settled: refuse }))).rejects.toBe(cut);
  });

  test.each([
    'logs',
    'logs/export.csv',
    'analytics',
    'analytics/export.csv',
    'credits',
    'billing/usage-statement.csv',
  ])('is known to %s before the first word', async (name) => {
    const gone = parts({ analytics: { days: refuse, groups: broken } });
    await expect(ask(`/v1/customer/${name}`, gone)).rejects.toBe(cut);
  });

  test('breaks a table off instead of ending it, and the operator hears why', async () => {
    const told: unknown[] = [];
    const answer = await ask('/v1/customer/analytics/export.csv', parts(), told);
    expect(answer.status).toBe(200);
    expect(await answer.text().catch(() => 'broken off')).toBe('broken off');
    expect(told).toEqual([cut]);
  });
});

const short = ['/v1/customer/credits', '/api/v1/credits', '/v1/customer/logs/:id'];

test('two lists and two files of a tenant run at once; others do not wait', async () => {
  const begun: string[] = [];
  const store = Promise.withResolvers<never>();
  const settled: CustomerDeps['settled'] = (_, tenantId) => {
    begun.push(tenantId);
    return store.promise;
  };
  const routes = customerRoutes(parts({ settled }));
  const long = routes.map(({ path }) => path).filter((path) => !short.includes(path));
  const files = long.filter((path) => path.endsWith('.csv'));
  const lists = long.filter((path) => !path.endsWith('.csv'));
  const reads = files.map((path) => askOne(routes, path, caller));
  expect(begun).toEqual(['acme', 'acme']);
  // A file waits for a turn among the files of all tenants: no list of this one waits behind it.
  reads.push(...lists.map((path) => askOne(routes, path, caller)));
  expect(begun.splice(0)).toEqual(['acme', 'acme', 'acme', 'acme']);
  reads.push(askOne(routes, '/v1/customer/logs', callerOf('other')));
  expect(begun.splice(0)).toEqual(['other']);
  reads.push(...short.map((path) => askOne(routes, path, caller)));
  expect(begun.splice(0)).toEqual(['acme', 'acme', 'acme']);
  store.reject(cut);
  const outcomes = await Promise.allSettled(reads);
  expect(outcomes.map(({ status }) => status)).toEqual(Array(10).fill('rejected'));
  expect(begun).toEqual(['acme', 'acme']);
});
