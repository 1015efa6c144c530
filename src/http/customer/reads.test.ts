import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../../tests/support/caller.ts';
import { nothingSpent } from '../../auth/manage/key-spending.ts';
import { GatewayError } from '../../core/errors.ts';
import { noSums } from '../../record/analytics.ts';
import { Exchange } from '../exchange.ts';
import { type CustomerParts, customerRoutes } from './reads.ts';

/** The store goes away: before the first word, and in the middle of a table. */

const caller = callerOf('acme', { keyId: 'key_a', kind: 'management' });

const cut = new Error('Connection terminated unexpectedly');
const refuse = () => Promise.reject(cut);
const broken = () => ({ [Symbol.asyncIterator]: () => ({ next: refuse }) });

function parts(change: Partial<CustomerParts> = {}): CustomerParts {
  return {
    flush: () => Promise.resolve(),
    logs: { ownsKey: refuse, page: refuse, all: broken },
    analytics: { days: refuse, groups: oneGroup },
    wallets: { totals: refuse },
    splits: { parts: refuse },
    statements: { frame: refuse, lines: broken },
    spending: { spent: async () => new Map([['key_a', nothingSpent]]) },
    creditsPerUsd: 1_000_000,
    limits: { requestsPerMinute: 60, concurrentRequests: 5 },
    now: () => Date.UTC(2028, 1, 29),
    booksNow: () => Date.UTC(2028, 1, 29),
    ...change,
  };
}

/** One page, and then the connection is cut. */
async function* oneGroup() {
  yield [{ ...noSums, day: 1, model: 'm', provider: 'p', trafficMode: 'shared', keyId: 'key_a' }];
  throw cut;
}

async function ask(path: string, given: CustomerParts, told: unknown[] = []): Promise<Response> {
  const route = customerRoutes(given).find((one) => one.path === path);
  if (route?.access !== 'either' && route?.access !== 'management') throw new Error(path);
  const exchange = new Exchange(new Request(`http://tollgate.test${path}`));
  exchange.tellLate = (_, thrown) => void told.push(thrown);
  return route.handle(exchange, caller);
}

async function refusalOf(answer: Promise<Response>): Promise<GatewayError> {
  const thrown: unknown = await answer.catch((reason: unknown) => reason);
  if (thrown instanceof GatewayError) return thrown;
  throw new Error(`Expected a refusal, got ${thrown}.`);
}

describe('a store that is away', () => {
  const paths = customerRoutes(parts()).map(({ path }) => path);

  test.each(paths)('is a 503 of %s when what has ended cannot be booked', async (path) => {
    const refusal = await refusalOf(ask(path, parts({ flush: refuse })));
    expect(refusal).toMatchObject({ status: 503, symbol: 'service_unavailable', cause: cut });
    expect(refusal.retryAfterSeconds).toBe(2);
    expect(refusal.message).not.toContain('terminated');
  });

  test.each(['logs', 'analytics', 'credits', 'billing/usage-statement.csv'])(
    'is a 503 of %s when it cannot be read',
    async (name) => {
      const refusal = await refusalOf(ask(`/v1/customer/${name}`, parts()));
      expect(refusal).toMatchObject({ status: 503, cause: cut });
    },
  );

  test('breaks a table off instead of ending it, and the operator hears why', async () => {
    const told: unknown[] = [];
    const answer = await ask('/v1/customer/analytics/export.csv', parts(), told);
    expect(answer.status).toBe(200);
    expect(await answer.text().catch(() => 'broken off')).toBe('broken off');
    expect(told).toEqual([cut]);
  });
});
