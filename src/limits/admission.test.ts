import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { Admission, type AdmissionDeps } from './admission.ts';
import { ConcurrencyLimiter, SharedSlots } from './concurrency.ts';
import { RateLimiter } from './rate.ts';
import type {
  CountedKey,
  SharedCounts,
  SharedTake,
  SlotResult,
  WindowCount,
} from './shared-counts.ts';

const noon = Date.UTC(2026, 10, 15, 12);

const caller = (change: Partial<Caller> = {}) => callerOf('acme', { keyId: 'key_1', ...change });

function createAdmission(deps: Pick<AdmissionDeps, 'defaults' | 'now' | 'shared'>): Admission {
  return new Admission({
    rate: new RateLimiter(),
    concurrency: new ConcurrencyLimiter(),
    ...deps,
  });
}

function defaultAdmission(now = noon): Admission {
  const defaults = { requestsPerMinute: 2, concurrentRequests: 1 };
  return createAdmission({ defaults, now: () => now });
}

async function errorOf(work: () => unknown): Promise<GatewayError> {
  try {
    await work();
  } catch (error) {
    if (error instanceof GatewayError) return error;
  }
  throw new Error('Expected a GatewayError.');
}

describe('Admission with a limit of requests per minute', () => {
  test('counts requests in the headers of every answer, including a rejection', async () => {
    const admission = defaultAdmission(noon + 15_000);
    const remaining: (string | undefined)[] = [];
    for (let i = 0; i < 2; i++) {
      const headers: Record<string, string> = {};
      await admission.countRequest(caller(), headers);
      remaining.push(headers['x-ratelimit-remaining']);
    }
    expect(remaining).toEqual(['1', '0']);

    const headers: Record<string, string> = {};
    const error = await errorOf(() => admission.countRequest(caller(), headers));
    expect(headers).toEqual({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String((noon + 60_000) / 1000),
    });
    expect(error).toMatchObject({ status: 429, symbol: 'rate_limit_exceeded' });
    expect(error.retryAfterSeconds).toBe(45);
    expect(error.message).toBe(
      'This API key is limited to 2 requests per minute. Try again in 45 s.',
    );
  });

  test('writes the current rate headers for an answer that uses no quota', async () => {
    const admission = defaultAdmission();
    await admission.countRequest(caller(), {});
    for (let i = 0; i < 2; i++) {
      const headers: Record<string, string> = {};
      admission.writeRateHeaders(caller(), headers);
      expect(headers).toEqual({
        'x-ratelimit-limit': '2',
        'x-ratelimit-remaining': '1',
        'x-ratelimit-reset': String((noon + 60_000) / 1000),
      });
    }
  });

  test("uses the key's own limit", async () => {
    const admission = defaultAdmission();
    const own = caller({ requestsPerMinute: 1 });
    await admission.countRequest(own, {});
    const { message } = await errorOf(() => admission.countRequest(own, {}));
    expect(message).toStartWith('This API key is limited to 1 request per minute.');
  });
});

describe('Admission with a concurrency limit', () => {
  test('holds a slot until it is released, and releases it once', async () => {
    const admission = defaultAdmission();
    const release = await admission.acquire(caller());
    const error = await errorOf(() => admission.acquire(caller({ keyId: 'key_2' })));
    expect(error).toMatchObject({ status: 429, retryAfterSeconds: 1 });
    release();
    await admission.acquire(caller());
    // Another call to `release` doesn't free someone else's slot.
    release();
    expect((await errorOf(() => admission.acquire(caller()))).status).toBe(429);
  });

  test("uses the tenant's own limit", async () => {
    const admission = defaultAdmission();
    const wide = caller({ concurrentRequests: 2 });
    await admission.acquire(wide);
    await admission.acquire(wide);
    const { message } = await errorOf(() => admission.acquire(wide));
    expect(message).toContain('has 2 requests running');
    const narrow = caller({ tenantId: 'narrow', concurrentRequests: 1 });
    await admission.acquire(narrow);
    const alone = await errorOf(() => admission.acquire(narrow));
    expect(alone.message).toContain('has 1 request running');
  });
});

describe('Admission without shared counters', () => {
  test('decides synchronously', () => {
    const admission = defaultAdmission();
    expect(admission.countRequest(caller(), {})).toBeUndefined();
    expect(admission.acquire(caller())).toBeFunction();
    expect(admission.countTokens(caller(), 1_000_000)).toBeUndefined();
  });
});

test('Admission rejects requests after one that exhausted the tokens per minute', async () => {
  const limits = { requestsPerMinute: 9, tokensPerMinute: 50, concurrentRequests: 1 };
  const now = () => noon + 20_000;
  const admission = createAdmission({ defaults: limits, now });
  await admission.countRequest(caller(), {});
  await admission.countTokens(caller(), 50);
  const headers: Record<string, string> = {};
  const error = await errorOf(() => admission.countRequest(caller(), headers));
  expect(error.message).toBe('This API key is limited to 50 tokens per minute. Try again in 40 s.');
  expect(headers['x-ratelimit-remaining']).toBe('8');
  // A key's own request limit doesn't change its token limit.
  const faster = caller({ requestsPerMinute: 100 });
  const same = await errorOf(() => admission.countRequest(faster, {}));
  expect(same.message).toBe('This API key is limited to 50 tokens per minute. Try again in 40 s.');
});

test('Admission names a limit of 1 token in the singular', async () => {
  const limits = { requestsPerMinute: 9, tokensPerMinute: 1, concurrentRequests: 1 };
  const admission = createAdmission({ defaults: limits, now: () => noon + 20_000 });
  await admission.countTokens(caller(), 1);
  const error = await errorOf(() => admission.countRequest(caller(), {}));
  expect(error.message).toBe('This API key is limited to 1 token per minute. Try again in 40 s.');
});

describe('Admission with shared counters', () => {
  /** Returns prepared results and records its calls. */
  class FakeSharedCounts implements SharedCounts {
    isUp = true;
    takes: (SharedTake | undefined)[] = [];
    afterTokens: WindowCount | undefined;
    /** The local count that the last `take` was called with. */
    known: WindowCount | undefined;
    slotResult: SlotResult | undefined = { isFree: true, running: 2 };
    readonly calls: string[] = [];

    async take({ keyId }: CountedKey, _limits: object, known: WindowCount) {
      this.known = known;
      this.calls.push(`take ${keyId} ${known.requests}`);
      return this.takes.shift();
    }
    async addTokens({ keyId }: CountedKey, tokens: number) {
      this.calls.push(`tokens ${keyId} ${tokens}`);
      return this.afterTokens;
    }
    async acquire(tenantId: string, slot: string, limit: number, released: readonly string[]) {
      this.calls.push(['enter', tenantId, slot, limit, ...released].join(' '));
      return this.slotResult;
    }
    async release(tenantId: string, slots: readonly string[]) {
      this.calls.push(`leave ${tenantId} ${slots.join(' ')}`);
    }
    async renew(tenantId: string, slots: readonly string[]) {
      this.calls.push(`renew ${tenantId} ${slots.join(' ')}`);
    }
  }

  function createShared() {
    const counts = new FakeSharedCounts();
    const slots = new SharedSlots(counts, 'me');
    const defaults = { requestsPerMinute: 5, tokensPerMinute: 90, concurrentRequests: 2 };
    const shared = { counts, slots };
    const admission = createAdmission({ defaults, shared, now: () => noon });
    return { counts, slots, admission };
  }

  const counted = (requests: number, allowed: boolean): SharedTake => {
    // 10 seconds before the end of the minute on the shared clock.
    const count = { window: noon / 60_000, requests, tokens: 0, tenantRequests: 0 };
    return { ...count, allowed, now: noon + 50_000 };
  };

  test('uses the shared count and the shared clock', async () => {
    const { counts, admission } = createShared();
    counts.takes = [counted(4, true), counted(5, false)];
    const headers: Record<string, string> = {};
    await admission.countRequest(caller(), headers);
    expect(headers['x-ratelimit-remaining']).toBe('1');
    const error = await errorOf(() => admission.countRequest(caller(), headers));
    expect(error.retryAfterSeconds).toBe(10);
    expect(headers['x-ratelimit-remaining']).toBe('0');
    expect(counts.calls).toEqual(['take key_1 0', 'take key_1 4']);
  });

  test('continues from the last known count while Redis is unreachable', async () => {
    const { counts, admission } = createShared();
    counts.takes = [counted(3, true), undefined];
    const headers: Record<string, string> = {};
    await admission.countRequest(caller(), headers);
    await admission.countRequest(caller(), headers);
    expect(headers['x-ratelimit-remaining']).toBe('1');
    counts.isUp = false;
    expect(admission.countRequest(caller(), headers)).toBeUndefined();
    expect(headers['x-ratelimit-remaining']).toBe('0');
    const { message } = await errorOf(() => admission.countRequest(caller(), headers));
    expect(message).toStartWith('This API key is limited to 5 requests per minute.');
    expect(counts.calls).toHaveLength(2);
  });

  test("continues from the tenant's last known count while Redis is unreachable", async () => {
    const { counts, admission } = createShared();
    const limited = { requestsPerMinute: 4, tenantRequestsPerMinute: 4 };
    counts.takes = [{ ...counted(1, true), tenantRequests: 3 }];
    const headers: Record<string, string> = {};
    await admission.countRequest(caller(limited), headers);
    expect(headers['x-ratelimit-remaining']).toBe('1');
    counts.isUp = false;
    // Requests of all keys count.
    await admission.countRequest(caller({ ...limited, keyId: 'key_2' }), headers);
    const { message } = await errorOf(() => admission.countRequest(caller(limited), headers));
    expect(message).toStartWith('This tenant is limited to 4 requests per minute, shared by all');
  });

  test('shares slots, releases each once, and acquires none for a rejected request', async () => {
    const { counts, slots, admission } = createShared();
    const release = await admission.acquire(caller());
    counts.slotResult = { isFree: false, running: 2 };
    expect((await errorOf(() => admission.acquire(caller()))).status).toBe(429);
    await slots.renew();
    release();
    expect(counts.calls.splice(0)).toEqual([
      'enter acme me:1 2',
      'enter acme me:2 2',
      'renew acme me:1',
      'leave acme me:1',
    ]);
    release();
    await slots.renew();
    expect(counts.calls).toEqual([]);
    // No slot stays acquired in this process either.
    counts.slotResult = { isFree: true, running: 1 };
    await admission.acquire(caller());
    await admission.acquire(caller());
    expect((await errorOf(() => admission.acquire(caller()))).status).toBe(429);
    expect(counts.calls).toEqual(['enter acme me:3 2', 'enter acme me:4 2']);
  });

  test('reports a released slot with the next request if half the slots are free', async () => {
    const { counts, slots } = createShared();
    counts.slotResult = { isFree: true, running: 5 };
    const first = await slots.enter('acme', 10);
    await slots.enter('acme', 10);
    slots.leave('acme', first ?? '');
    expect(counts.calls).toHaveLength(2);
    const third = await slots.enter('acme', 10);
    expect(counts.calls.at(-1)).toBe('enter acme me:3 10 me:1');
    slots.leave('acme', third ?? '');
    await slots.reportReleased();
    expect(counts.calls.at(-1)).toBe('leave acme me:3');
    await slots.reportReleased();
    expect(counts.calls).toHaveLength(4);
    // More than half of the slots are in use, so someone may be waiting for one.
    counts.slotResult = { isFree: true, running: 6 };
    slots.leave('acme', (await slots.enter('acme', 10)) ?? '');
    expect(counts.calls.at(-1)).toBe('leave acme me:4');
  });

  test('counts tokens in the minute of the shared clock', async () => {
    const { counts, admission } = createShared();
    // The shared clock is 20 seconds behind and still in the previous minute.
    const before = { window: noon / 60_000 - 1, now: noon - 20_000 };
    counts.takes = [{ ...before, requests: 1, tokens: 0, tenantRequests: 0, allowed: true }];
    await admission.countRequest(caller(), {});
    await admission.countTokens(caller(), 80);
    await admission.countRequest(caller(), {});
    expect(counts.known).toMatchObject({ window: before.window, tokens: 80 });
  });

  test('does not renew a slot that is released during the renewal', async () => {
    const { counts, slots } = createShared();
    const acquired: string[] = [];
    for (let i = 0; i < 501; i++) acquired.push((await slots.enter('acme', 10_000)) ?? '');
    counts.calls.length = 0;
    const renewing = slots.renew();
    // While the first 500 are being renewed.
    slots.leave('acme', acquired[500] ?? '');
    await renewing;
    expect(counts.calls).toEqual([`renew acme ${acquired.slice(0, 500).join(' ')}`]);
  });

  test('reports slots acquired during an outage afterwards, 500 at a time', async () => {
    const { counts, slots } = createShared();
    counts.isUp = false;
    for (let i = 0; i < 501; i++) await slots.enter('acme', 10_000);
    await slots.renew();
    expect(counts.calls).toEqual([]);
    counts.isUp = true;
    await slots.renew();
    const sizes = counts.calls.map((line) => line.split(' ').length - 2);
    expect(sizes).toEqual([500, 1]);
  });

  test('shares the tokens used', async () => {
    const { counts, admission } = createShared();
    await admission.countTokens(caller(), 12);
    await admission.countTokens(caller(), 0);
    expect(counts.calls).toEqual(['tokens key_1 12']);
    // The shared count is remembered in case Redis becomes unreachable.
    counts.afterTokens = { window: noon / 60_000, requests: 1, tokens: 90, tenantRequests: 0 };
    await admission.countTokens(caller(), 1);
    counts.isUp = false;
    const { message } = await errorOf(() => admission.countRequest(caller(), {}));
    expect(message).toContain('90 tokens per minute');
  });
});

test('ConcurrencyLimiter admits up to the limit and frees slots on release', () => {
  const limiter = new ConcurrencyLimiter();
  expect([1, 2, 3].map(() => limiter.acquire('acme', 2))).toEqual([true, true, false]);
  limiter.release('acme');
  expect(limiter.acquire('acme', 2)).toBe(true);
  expect(limiter.acquire('acme', 2)).toBe(false);
});

test('ConcurrencyLimiter counts each tenant separately', () => {
  const limiter = new ConcurrencyLimiter();
  expect(limiter.acquire('acme', 1)).toBe(true);
  expect(limiter.acquire('other', 1)).toBe(true);
  limiter.release('other');
  expect(limiter.acquire('acme', 1)).toBe(false);
});

test('ConcurrencyLimiter ignores an extra release', () => {
  const limiter = new ConcurrencyLimiter();
  limiter.release('acme');
  expect(limiter.acquire('acme', 1)).toBe(true);
  expect(limiter.acquire('acme', 1)).toBe(false);
});
