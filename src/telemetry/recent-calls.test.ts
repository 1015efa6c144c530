import { describe, expect, test } from 'bun:test';
import { endedRequest } from '../../tests/support/ended-request.ts';
import { RecentTraffic } from './recent-calls.ts';
import { Traffic } from './traffic.ts';

const minuteMs = 60_000;

/** Creates traffic that takes a snapshot every minute of a simulated clock. */
function make() {
  let nowMs = 5_000;
  const traffic = new Traffic(() => true);
  const recent = new RecentTraffic(
    () => traffic.calls(),
    () => nowMs,
  );
  return {
    traffic,
    calls: () => Object.fromEntries(recent.calls()),
    pass(minutes: number) {
      for (let minute = 0; minute < minutes; minute++) {
        nowMs += minuteMs;
        recent.takeSnapshot();
      }
    },
    /** Records a request with these attempts. The last one answered or failed. */
    request(...attempts: readonly [provider: string, outcome: string][]) {
      traffic.ended(
        endedRequest({
          provider: attempts.at(-1)?.[1] === 'answered' ? (attempts.at(-1)?.[0] ?? null) : null,
          attempts: attempts.map(([provider, outcome]) => {
            return { provider, model: 'test/chat', outcome, status: null, ms: 1 };
          }),
        }),
      );
    },
    cut(provider: string) {
      const attempt = { provider, model: 'test/chat', outcome: 'answered', status: 200, ms: 1 };
      const error = { status: 'error', error: 'upstream_error' } as const;
      traffic.ended(endedRequest({ provider, ...error, attempts: [attempt] }));
    },
  };
}

describe('RecentTraffic', () => {
  test('groups calls by provider and failure', () => {
    const { request, cut, calls, pass } = make();
    request(['a', 'timeout'], ['b', 'answered']);
    request(['a', 'timeout'], ['b', 'rate_limited']);
    request(['a', 'server'], ['b', 'answered']);
    cut('b');
    pass(2);
    expect(calls()).toEqual({
      a: { windowSeconds: 120, calls: 3, failedCalls: 3, failures: { timeout: 2, server: 1 } },
      b: {
        windowSeconds: 120,
        calls: 4,
        failedCalls: 2,
        failures: { rate_limited: 1, interrupted: 1 },
      },
    });
  });

  test('does not count client-caused outcomes as failures', () => {
    const { request, calls } = make();
    request(['a', 'request']);
    request(['a', 'client_disconnected']);
    request(['a', 'answered']);
    expect(calls()).toEqual({ a: { windowSeconds: 0, calls: 3, failedCalls: 0, failures: {} } });
  });

  test("names the rejection of a tenant's own key", () => {
    const { traffic, calls } = make();
    const attempt = {
      provider: 'a',
      model: 'test/chat',
      outcome: 'credential',
      status: 401,
      ms: 1,
    };
    const failed = {
      provider: null,
      model: null,
      status: 'error',
      error: 'upstream_error',
    } as const;
    traffic.ended(endedRequest({ ...failed, attempts: [{ ...attempt, own_account: true }] }));
    expect(calls().a?.failures).toEqual({ tenant_credential: 1 });
    traffic.ended(endedRequest({ ...failed, attempts: [attempt] }));
    expect(calls().a).toMatchObject({
      ...{ calls: 2, failedCalls: 2 },
      failures: { credential: 1, tenant_credential: 1 },
    });
  });

  test('covers the last 15 minutes only', () => {
    const { request, calls, pass } = make();
    request(['a', 'timeout']);
    request(['old', 'timeout']);
    pass(10);
    request(['a', 'server']);
    pass(4);
    const both = { windowSeconds: 840, calls: 2, failedCalls: 2 };
    expect(calls().a).toEqual({ ...both, failures: { timeout: 1, server: 1 } });
    pass(2);
    // The first minute was 16 minutes ago, so it is outside the window.
    const later = { windowSeconds: 900, calls: 1, failedCalls: 1, failures: { server: 1 } };
    expect(calls()).toEqual({ a: later });
    pass(60);
    expect(calls()).toEqual({});
  });
});
