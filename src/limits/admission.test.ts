import { describe, expect, test } from 'bun:test';
import { callerOf } from '../../tests/support/caller.ts';
import type { Caller } from '../core/caller.ts';
import { GatewayError } from '../core/errors.ts';
import { Admission, type AdmissionDeps, ConcurrencyLimiter } from './admission.ts';
import { RateLimiter } from './rate.ts';
import type { SharedCounts, SharedTake, SlotResult, WindowCount } from './shared-counts.ts';
import { SharedSlots } from './shared-slots.ts';

const noon = Date.UTC(2026, 10, 15, 12);

const caller = (change: Partial<Caller> = {}) => callerOf('acme', { keyId: 'key_1', ...change });

function admissionBy(parts: Pick<AdmissionDeps, 'defaults' | 'now' | 'shared'>): Admission {
  return new Admission({
    rate: new RateLimiter(),
    concurrency: new ConcurrencyLimiter(),
    ...parts,
  });
}

function newAdmission(now = noon): Admission {
  const defaults = { requestsPerMinute: 2, concurrentRequests: 1 };
  return admissionBy({ defaults, now: () => now });
}

async function refusal(work: () => unknown): Promise<GatewayError> {
  try {
    await work();
  } catch (error) {
    if (error instanceof GatewayError) return error;
  }
  throw new Error('It was not refused.');
}

describe('requests a minute', () => {
  test('are counted in the headers of every answer, the refused one included', async () => {
    const admission = newAdmission(noon + 15_000);
    const remaining: (string | undefined)[] = [];
    for (let i = 0; i < 2; i++) {
      const headers: Record<string, string> = {};
      await admission.countRequest(caller(), headers);
      remaining.push(headers['x-ratelimit-remaining']);
    }
    expect(remaining).toEqual(['1', '0']);

    const headers: Record<string, string> = {};
    const error = await refusal(() => admission.countRequest(caller(), headers));
    expect(headers).toEqual({
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String((noon + 60_000) / 1000),
    });
    expect(error).toMatchObject({ status: 429, symbol: 'rate_limit_exceeded' });
    expect(error.retryAfterSeconds).toBe(45);
    expect(error.message).toBe('This API key may send 2 requests a minute; try again in 45 s.');
  });

  test('are told as they stand with an answer that takes none of them', async () => {
    const admission = newAdmission();
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

  test('follow the key’s own limit', async () => {
    const admission = newAdmission();
    const own = caller({ requestsPerMinute: 1 });
    await admission.countRequest(own, {});
    const { message } = await refusal(() => admission.countRequest(own, {}));
    expect(message).toStartWith('This API key may send 1 request a minute;');
  });
});

describe('running requests', () => {
  test('take a place until they leave, once', async () => {
    const admission = newAdmission();
    const leave = await admission.enter(caller());
    const error = await refusal(() => admission.enter(caller({ keyId: 'key_2' })));
    expect(error).toMatchObject({ status: 429, retryAfterSeconds: 1 });
    leave();
    await admission.enter(caller());
    // A second call of `leave` does not free the place of somebody else.
    leave();
    expect((await refusal(() => admission.enter(caller()))).status).toBe(429);
  });

  test('follow the tenant’s own limit', async () => {
    const admission = newAdmission();
    const roomy = caller({ concurrentRequests: 2 });
    await admission.enter(roomy);
    await admission.enter(roomy);
    const { message } = await refusal(() => admission.enter(roomy));
    expect(message).toContain('has 2 requests running');
    const narrow = caller({ tenantId: 'narrow', concurrentRequests: 1 });
    await admission.enter(narrow);
    const alone = await refusal(() => admission.enter(narrow));
    expect(alone.message).toContain('has 1 request running');
  });
});

describe('a process that counts alone', () => {
  test('answers at once, without a promise', () => {
    const admission = newAdmission();
    expect(admission.countRequest(caller(), {})).toBeUndefined();
    expect(admission.enter(caller())).toBeFunction();
    expect(admission.countTokens(caller(), 1_000_000)).toBeUndefined();
  });
});

test('tokens a minute refuse the request after the one that used them up', async () => {
  const limits = { requestsPerMinute: 9, tokensPerMinute: 50, concurrentRequests: 1 };
  const now = () => noon + 20_000;
  const admission = admissionBy({ defaults: limits, now });
  await admission.countRequest(caller(), {});
  await admission.countTokens(caller(), 50);
  const headers: Record<string, string> = {};
  const error = await refusal(() => admission.countRequest(caller(), headers));
  expect(error.message).toBe('This API key may use 50 tokens a minute; try again in 40 s.');
  expect(headers['x-ratelimit-remaining']).toBe('8');
  // A key that may send more or fewer requests may use as many tokens.
  const faster = caller({ requestsPerMinute: 100 });
  const same = await refusal(() => admission.countRequest(faster, {}));
  expect(same.message).toBe('This API key may use 50 tokens a minute; try again in 40 s.');
});

test('a single token a minute is no plural', async () => {
  const limits = { requestsPerMinute: 9, tokensPerMinute: 1, concurrentRequests: 1 };
  const admission = admissionBy({ defaults: limits, now: () => noon + 20_000 });
  await admission.countTokens(caller(), 1);
  const error = await refusal(() => admission.countRequest(caller(), {}));
  expect(error.message).toBe('This API key may use 1 token a minute; try again in 40 s.');
});

describe('processes that count together', () => {
  /** Says what it is told to say, and notes what it was asked. */
  class Elsewhere implements SharedCounts {
    isUp = true;
    takes: (SharedTake | undefined)[] = [];
    used: WindowCount | undefined;
    /** What the process that asked last had counted by itself. */
    known: WindowCount | undefined;
    entering: SlotResult | undefined = { isFree: true, running: 2 };
    readonly asked: string[] = [];

    async take(_tenant: string, keyId: string, _limits: object, known: WindowCount) {
      this.known = known;
      this.asked.push(`take ${keyId} ${known.requests}`);
      return this.takes.shift();
    }
    async addTokens(_tenant: string, keyId: string, tokens: number) {
      this.asked.push(`tokens ${keyId} ${tokens}`);
      return this.used;
    }
    async enter(tenantId: string, slot: string, limit: number, left: readonly string[]) {
      this.asked.push(['enter', tenantId, slot, limit, ...left].join(' '));
      return this.entering;
    }
    async leave(tenantId: string, slots: readonly string[]) {
      this.asked.push(`leave ${tenantId} ${slots.join(' ')}`);
    }
    async renew(tenantId: string, slots: readonly string[]) {
      this.asked.push(`renew ${tenantId} ${slots.join(' ')}`);
    }
  }

  function newTogether() {
    const elsewhere = new Elsewhere();
    const slots = new SharedSlots(elsewhere, 'me');
    const defaults = { requestsPerMinute: 5, tokensPerMinute: 90, concurrentRequests: 2 };
    const shared = { counts: elsewhere, slots };
    const admission = admissionBy({ defaults, shared, now: () => noon });
    return { elsewhere, slots, admission };
  }

  const counted = (requests: number, allowed: boolean): SharedTake => {
    // Ten seconds before the end of the minute, by the shared clock.
    return { window: noon / 60_000, requests, tokens: 0, allowed, now: noon + 50_000 };
  };

  test('go by the shared count and the shared clock', async () => {
    const { elsewhere, admission } = newTogether();
    elsewhere.takes = [counted(4, true), counted(5, false)];
    const headers: Record<string, string> = {};
    await admission.countRequest(caller(), headers);
    expect(headers['x-ratelimit-remaining']).toBe('1');
    const error = await refusal(() => admission.countRequest(caller(), headers));
    expect(error.retryAfterSeconds).toBe(10);
    expect(headers['x-ratelimit-remaining']).toBe('0');
    expect(elsewhere.asked).toEqual(['take key_1 0', 'take key_1 4']);
  });

  test('count alone from what they know while the shared memory is away', async () => {
    const { elsewhere, admission } = newTogether();
    elsewhere.takes = [counted(3, true), undefined];
    const headers: Record<string, string> = {};
    await admission.countRequest(caller(), headers);
    await admission.countRequest(caller(), headers);
    expect(headers['x-ratelimit-remaining']).toBe('1');
    elsewhere.isUp = false;
    expect(admission.countRequest(caller(), headers)).toBeUndefined();
    expect(headers['x-ratelimit-remaining']).toBe('0');
    const { message } = await refusal(() => admission.countRequest(caller(), headers));
    expect(message).toStartWith('This API key may send 5 requests a minute;');
    expect(elsewhere.asked).toHaveLength(2);
  });

  test('share their places: one is given back once, and a refused request takes none', async () => {
    const { elsewhere, slots, admission } = newTogether();
    const leave = await admission.enter(caller());
    elsewhere.entering = { isFree: false, running: 2 };
    expect((await refusal(() => admission.enter(caller()))).status).toBe(429);
    await slots.renew();
    leave();
    expect(elsewhere.asked.splice(0)).toEqual([
      'enter acme me:1 2',
      'enter acme me:2 2',
      'renew acme me:1',
      'leave acme me:1',
    ]);
    leave();
    await slots.renew();
    expect(elsewhere.asked).toEqual([]);
    // No place is left taken here either: both are free again.
    elsewhere.entering = { isFree: true, running: 1 };
    await admission.enter(caller());
    await admission.enter(caller());
    expect((await refusal(() => admission.enter(caller()))).status).toBe(429);
    expect(elsewhere.asked).toEqual(['enter acme me:3 2', 'enter acme me:4 2']);
  });

  test('report a place that is free again with the next request, where there is room', async () => {
    const { elsewhere, slots } = newTogether();
    elsewhere.entering = { isFree: true, running: 5 };
    const first = await slots.enter('acme', 10);
    await slots.enter('acme', 10);
    slots.leave('acme', first ?? '');
    expect(elsewhere.asked).toHaveLength(2);
    const third = await slots.enter('acme', 10);
    expect(elsewhere.asked.at(-1)).toBe('enter acme me:3 10 me:1');
    slots.leave('acme', third ?? '');
    await slots.reportReleased();
    expect(elsewhere.asked.at(-1)).toBe('leave acme me:3');
    await slots.reportReleased();
    expect(elsewhere.asked).toHaveLength(4);
    // Half of the places are taken: somebody may be waiting for one.
    elsewhere.entering = { isFree: true, running: 6 };
    slots.leave('acme', (await slots.enter('acme', 10)) ?? '');
    expect(elsewhere.asked.at(-1)).toBe('leave acme me:4');
  });

  test('count tokens in the minute of the shared clock', async () => {
    const { elsewhere, admission } = newTogether();
    // The shared clock is twenty seconds behind, so that its minute is still the last.
    const before = { window: noon / 60_000 - 1, now: noon - 20_000 };
    elsewhere.takes = [{ ...before, requests: 1, tokens: 0, allowed: true }];
    await admission.countRequest(caller(), {});
    await admission.countTokens(caller(), 80);
    await admission.countRequest(caller(), {});
    expect(elsewhere.known).toMatchObject({ window: before.window, tokens: 80 });
  });

  test('renew no place that is given back during the renewal', async () => {
    const { elsewhere, slots } = newTogether();
    const taken: string[] = [];
    for (let i = 0; i < 501; i++) taken.push((await slots.enter('acme', 10_000)) ?? '');
    elsewhere.asked.length = 0;
    const renewing = slots.renew();
    // While the first 500 are on their way.
    slots.leave('acme', taken[500] ?? '');
    await renewing;
    expect(elsewhere.asked).toEqual([`renew acme ${taken.slice(0, 500).join(' ')}`]);
  });

  test('report places that were taken during an outage after it, 500 at a time', async () => {
    const { elsewhere, slots } = newTogether();
    elsewhere.isUp = false;
    for (let i = 0; i < 501; i++) await slots.enter('acme', 10_000);
    await slots.renew();
    expect(elsewhere.asked).toEqual([]);
    elsewhere.isUp = true;
    await slots.renew();
    const sizes = elsewhere.asked.map((line) => line.split(' ').length - 2);
    expect(sizes).toEqual([500, 1]);
  });

  test('share the tokens that were used', async () => {
    const { elsewhere, admission } = newTogether();
    await admission.countTokens(caller(), 12);
    await admission.countTokens(caller(), 0);
    expect(elsewhere.asked).toEqual(['tokens key_1 12']);
    // What all processes used is remembered here, for when the shared memory is away.
    elsewhere.used = { window: noon / 60_000, requests: 1, tokens: 90 };
    await admission.countTokens(caller(), 1);
    elsewhere.isUp = false;
    const { message } = await refusal(() => admission.countRequest(caller(), {}));
    expect(message).toContain('90 tokens a minute');
  });
});

test('as many may enter as there are places, and a place that was left is free again', () => {
  const limiter = new ConcurrencyLimiter();
  expect([1, 2, 3].map(() => limiter.enter('acme', 2))).toEqual([true, true, false]);
  limiter.leave('acme');
  expect(limiter.enter('acme', 2)).toBe(true);
  expect(limiter.enter('acme', 2)).toBe(false);
});

test('tenants do not take each other’s places', () => {
  const limiter = new ConcurrencyLimiter();
  expect(limiter.enter('acme', 1)).toBe(true);
  expect(limiter.enter('other', 1)).toBe(true);
  limiter.leave('other');
  expect(limiter.enter('acme', 1)).toBe(false);
});

test('leaving once too often makes no extra place', () => {
  const limiter = new ConcurrencyLimiter();
  limiter.leave('acme');
  expect(limiter.enter('acme', 1)).toBe(true);
  expect(limiter.enter('acme', 1)).toBe(false);
});
