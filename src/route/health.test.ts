import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import { type CircuitState, Health } from './health.ts';

const offer = { provider: { name: 'vendor' }, upstreamModel: 'model' };
const sibling = { provider: { name: 'vendor' }, upstreamModel: 'other' };

function createHealth() {
  const clock = { now: 1_000_000 };
  const health = new Health(() => clock.now);
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) health.failed(offer);
  };
  return { clock, health, fail };
}

afterEach(() => setSystemTime());

describe('the circuit of an offer', () => {
  test('opens after the fifth consecutive failure', () => {
    const { health, fail } = createHealth();
    fail(4);
    expect([health.admit(offer), health.state(offer)]).toEqual([true, 'closed']);
    fail(1);
    expect([health.admit(offer), health.state(offer)]).toEqual([false, 'open']);
    expect(health.admit(sibling)).toBe(true);
  });

  test('stays open for 5 seconds when the system clock changes', () => {
    const health = new Health();
    for (let i = 0; i < 5; i++) health.failed(offer);
    setSystemTime(Date.now() + 3_600_000);
    expect(health.state(offer)).toBe('open');
  });

  test('resets its failure count after a success', () => {
    const { health, fail } = createHealth();
    fail(4);
    health.succeeded(offer, 10);
    fail(4);
    expect(health.admit(offer)).toBe(true);
  });

  test('admits one probe after 5 seconds and rejects other requests meanwhile', () => {
    const { clock, health, fail } = createHealth();
    fail(5);
    clock.now += 4_999;
    expect(health.admit(offer)).toBe(false);
    clock.now += 1;
    expect(health.state(offer)).toBe('half_open');
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    health.succeeded(offer, 10);
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, true]);
    expect(health.state(offer)).toBe('closed');
  });

  test('admits another probe if the first never reports a result', () => {
    const { clock, health, fail } = createHealth();
    fail(5);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
  });

  test('admits another probe at once if the first was rejected as a bad request', () => {
    const { clock, health, fail } = createHealth();
    fail(5);
    health.rejected(offer);
    expect(health.state(offer)).toBe('open');
    clock.now += 5_000;
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    health.rejected(offer);
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    // Other requests are rejected while a probe's answer is streaming.
    for (let i = 0; i < 5; i++) health.ended(offer, false);
    clock.now += 60_000;
    health.succeeded(offer, 10);
    health.rejected(offer);
    expect(health.admit(offer)).toBe(false);
  });

  test('opens for 5 seconds regardless of concurrent failures, and again the next time', () => {
    const { clock, health, fail } = createHealth();
    for (const _ of ['first', 'again']) {
      fail(100);
      clock.now += 4_000;
      fail(100);
      clock.now += 999;
      expect(health.admit(offer)).toBe(false);
      clock.now += 1;
      expect(health.admit(offer)).toBe(true);
      health.succeeded(offer, 10);
    }
  });

  test('opens after 5 interrupted answers and closes after one complete probe', () => {
    const { clock, health } = createHealth();
    const answer = (isComplete: boolean) => {
      health.succeeded(offer, 10);
      health.ended(offer, isComplete);
      return health.state(offer);
    };
    expect(Array(5).fill(false).map(answer)).toEqual([...Array(4).fill('closed'), 'open']);
    // A request from before the circuit opened gets a complete answer now.
    expect(answer(true)).toBe('open');
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    // The probe is also interrupted, so the circuit stays open twice as long.
    expect(answer(false)).toBe('open');
    clock.now += 9_999;
    expect(health.state(offer)).toBe('open');
    clock.now += 1;
    expect([answer(true), answer(false)]).toEqual(['closed', 'open']);
    clock.now += 20_000;
    // 2 complete answers offset one interruption: the first closes the circuit, 8 offset the
    // remaining 4.
    expect(Array(9).fill(true).map(answer)).toEqual(Array(9).fill('closed'));
    expect(Array(5).fill(false).map(answer)).toEqual([...Array(4).fill('closed'), 'open']);
    clock.now += 5_000;
    expect(health.state(offer)).toBe('half_open');
  });

  test.each<[number, CircuitState]>([
    [2, 'open'],
    [4, 'closed'],
  ])('of an offer that interrupts one of %d answers ends up %s', (every, state) => {
    const { health } = createHealth();
    for (let i = 1; i <= 100; i++) health.ended(offer, i % every !== 0);
    expect(health.state(offer)).toBe(state);
    expect(Number.isInteger(health.observed(offer).failures)).toBe(true);
  });

  test('waits for the end of its probe, at most a minute, after interrupted answers', () => {
    const { clock, health } = createHealth();
    for (let i = 0; i < 5; i++) health.ended(offer, false);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    clock.now += 3_000;
    health.succeeded(offer, 3_000);
    clock.now += 59_999;
    expect(health.admit(offer)).toBe(false);
    // The probe's answer is long, or its client disconnected.
    clock.now += 1;
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    health.ended(offer, true);
    expect([health.admit(offer), health.state(offer)]).toEqual([true, 'closed']);
  });

  test("opens for 5 seconds again after an older request's answer closed it", () => {
    const { clock, health, fail } = createHealth();
    fail(5);
    clock.now += 1_000;
    health.succeeded(offer, 10);
    expect(health.state(offer)).toBe('closed');
    fail(5);
    clock.now += 4_999;
    expect(health.state(offer)).toBe('open');
    clock.now += 1;
    expect(health.state(offer)).toBe('half_open');
  });

  test('stays open longer until all interruptions are offset by complete answers', () => {
    const { clock, health, fail } = createHealth();
    const openFor = (seconds: number) => {
      clock.now += seconds * 1000 - 1;
      const before = health.state(offer);
      clock.now += 1;
      return [before, health.state(offer)];
    };
    for (let i = 0; i < 5; i++) health.ended(offer, false);
    expect(openFor(5)).toEqual(['open', 'half_open']);
    health.ended(offer, true);
    health.ended(offer, false);
    expect(openFor(10)).toEqual(['open', 'half_open']);
    // The first closes the half-open circuit, and 2 offset each of the remaining 4 interruptions.
    for (let i = 0; i < 9; i++) health.ended(offer, true);
    fail(5);
    expect(openFor(5)).toEqual(['open', 'half_open']);
  });

  test("stays open after failed connections when an older request's answer completes", () => {
    const { health, fail } = createHealth();
    // A server shuts down: one answer is interrupted, no new one starts, another one still
    // completes.
    health.ended(offer, false);
    fail(5);
    health.ended(offer, true);
    expect([health.admit(offer), health.state(offer)]).toEqual([false, 'open']);
  });

  test('stays open twice as long after each failed probe, at most a minute', () => {
    const { clock, health, fail } = createHealth();
    fail(5);
    const waits = [5, 10, 20, 40, 60, 60].map((seconds) => {
      clock.now += seconds * 1000 - 1;
      const early = health.admit(offer);
      clock.now += 1;
      const late = health.admit(offer);
      fail(1);
      return [early, late];
    });
    expect(waits).toEqual(waits.map(() => [false, true]));
  });
});

test('Health remembers the 10,000 most recently used offers', () => {
  const { health } = createHealth();
  const at = (number: number) => ({ ...offer, upstreamModel: `model ${number}` });
  for (let number = 0; number < 10_000; number++) health.succeeded(at(number), 10);
  health.succeeded(at(0), 10);
  // The first of these evicts number 1, the others evict nothing.
  for (let i = 0; i < 3; i++) health.succeeded(at(10_000), 10);
  const known = [0, 1, 2, 10_000].map((number) => health.firstByteMs(at(number)) > 0);
  expect(known).toEqual([true, false, true, true]);
});

describe('the speeds of an offer', () => {
  test('are moving averages with a weight of 0.2 for the newest value', () => {
    const { health } = createHealth();
    health.succeeded(offer, 100);
    health.succeeded(offer, 200);
    expect(health.firstByteMs(offer)).toBe(120);
    health.observeSpeed(offer, 50);
    health.observeSpeed(offer, 100);
    expect(health.tokensPerSecond(offer)).toBe(60);
    for (const value of [7, 8, 9]) {
      health.succeeded(offer, value);
      health.observeSpeed(offer, value);
    }
    const { firstByteMs, tokensPerSecond } = health.observed(offer);
    expect([firstByteMs, tokensPerSecond]).toEqual([65.42, 34.7]);
  });

  test('are optimal for an unknown offer, so that it gets tried', () => {
    const { health } = createHealth();
    expect(health.firstByteMs(offer)).toBe(0);
    expect(health.tokensPerSecond(offer)).toBe(Number.POSITIVE_INFINITY);
    const nothing = { firstByteMs: null, tokensPerSecond: null, failures: 0 };
    expect(health.observed(offer)).toEqual(nothing);
    health.failed(offer);
    health.failed(offer);
    expect(health.observed(offer)).toEqual({ ...nothing, failures: 2 });
  });
});
