import { afterEach, describe, expect, setSystemTime, test } from 'bun:test';
import { type CircuitState, Health } from './health.ts';

const offer = { provider: { name: 'vendor' }, upstreamModel: 'model' };
const sibling = { provider: { name: 'vendor' }, upstreamModel: 'other' };

function sick() {
  const clock = { now: 1_000_000 };
  const health = new Health(() => clock.now);
  const fail = (times: number) => {
    for (let i = 0; i < times; i++) health.failed(offer);
  };
  return { clock, health, fail };
}

afterEach(() => setSystemTime());

describe('a circuit', () => {
  test('opens with the fifth failure in a row and not before', () => {
    const { health, fail } = sick();
    fail(4);
    expect([health.admit(offer), health.state(offer)]).toEqual([true, 'closed']);
    fail(1);
    expect([health.admit(offer), health.state(offer)]).toEqual([false, 'open']);
    expect(health.admit(sibling)).toBe(true);
  });

  test('waits its five seconds, whatever the clock of the machine is set to', () => {
    const health = new Health();
    for (let i = 0; i < 5; i++) health.failed(offer);
    setSystemTime(Date.now() + 3_600_000);
    expect(health.state(offer)).toBe('open');
  });

  test('is forgiven by any success in between', () => {
    const { health, fail } = sick();
    fail(4);
    health.succeeded(offer, 10);
    fail(4);
    expect(health.admit(offer)).toBe(true);
  });

  test('lets one probe through after five seconds and keeps the others away meanwhile', () => {
    const { clock, health, fail } = sick();
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

  test('offers another probe when the first was never heard of again', () => {
    const { clock, health, fail } = sick();
    fail(5);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
  });

  test('offers another probe at once when the first was refused for its own fault', () => {
    const { clock, health, fail } = sick();
    fail(5);
    health.refused(offer);
    expect(health.state(offer)).toBe('open');
    clock.now += 5_000;
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    health.refused(offer);
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    // While the answer of a probe is under way, others still keep away.
    for (let i = 0; i < 5; i++) health.ended(offer, false);
    clock.now += 60_000;
    health.succeeded(offer, 10);
    health.refused(offer);
    expect(health.admit(offer)).toBe(false);
  });

  test('opens for five seconds however many were on their way, also the next time', () => {
    const { clock, health, fail } = sick();
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

  test('of answers that break off opens with the fifth, and closes on trial by a whole one', () => {
    const { clock, health } = sick();
    const begin = (isWhole: boolean) => {
      health.succeeded(offer, 10);
      health.ended(offer, isWhole);
      return health.state(offer);
    };
    expect(Array(5).fill(false).map(begin)).toEqual([...Array(4).fill('closed'), 'open']);
    // Of the requests under way, one gets its first word now and one its last.
    expect(begin(true)).toBe('open');
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    // The probe breaks off as well, so the circuit stays open twice as long.
    expect(begin(false)).toBe('open');
    clock.now += 9_999;
    expect(health.state(offer)).toBe('open');
    clock.now += 1;
    expect([begin(true), begin(false)]).toEqual(['closed', 'open']);
    clock.now += 20_000;
    // Two make up for one break: the first closes the circuit, eight for the four that are left.
    expect(Array(9).fill(true).map(begin)).toEqual(Array(9).fill('closed'));
    expect(Array(5).fill(false).map(begin)).toEqual([...Array(4).fill('closed'), 'open']);
    clock.now += 5_000;
    expect(health.state(offer)).toBe('half_open');
  });

  test.each<[number, CircuitState]>([
    [2, 'open'],
    [4, 'closed'],
  ])('of an offer that breaks one answer of %d off is %s in the end', (every, state) => {
    const { health } = sick();
    for (let i = 1; i <= 100; i++) health.ended(offer, i % every !== 0);
    expect(health.state(offer)).toBe(state);
    expect(Number.isInteger(health.observed(offer).failures)).toBe(true);
  });

  test('of answers that break off waits for the end of its probe, and for a minute at most', () => {
    const { clock, health } = sick();
    for (let i = 0; i < 5; i++) health.ended(offer, false);
    clock.now += 5_000;
    expect(health.admit(offer)).toBe(true);
    clock.now += 3_000;
    health.succeeded(offer, 3_000);
    clock.now += 59_999;
    expect(health.admit(offer)).toBe(false);
    // The answer of the probe is long, or its client left.
    clock.now += 1;
    expect([health.admit(offer), health.admit(offer)]).toEqual([true, false]);
    health.ended(offer, true);
    expect([health.admit(offer), health.state(offer)]).toEqual([true, 'closed']);
  });

  test('that an older request’s answer has closed opens for as long as the first time', () => {
    const { clock, health, fail } = sick();
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

  test('stays open for longer while breaks are left, and not once they are made up for', () => {
    const { clock, health, fail } = sick();
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
    // The first closes the circuit on trial, two make up for each of the four breaks left.
    for (let i = 0; i < 9; i++) health.ended(offer, true);
    fail(5);
    expect(openFor(5)).toEqual(['open', 'half_open']);
  });

  test('of failures before the first word is not closed by an older answer that is whole', () => {
    const { health, fail } = sick();
    // A server shuts down: one answer breaks off, none begins any more, another may end.
    health.ended(offer, false);
    fail(5);
    health.ended(offer, true);
    expect([health.admit(offer), health.state(offer)]).toEqual([false, 'open']);
  });

  test('stays open twice as long after each failed probe, up to a minute', () => {
    const { clock, health, fail } = sick();
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

test('the ten thousand offers used last are known, and a busy one takes one place', () => {
  const { health } = sick();
  const at = (number: number) => ({ ...offer, upstreamModel: `model ${number}` });
  for (let number = 0; number < 10_000; number++) health.succeeded(at(number), 10);
  health.succeeded(at(0), 10);
  // The first of these takes the place of number 1, the others nobody's.
  for (let i = 0; i < 3; i++) health.succeeded(at(10_000), 10);
  const known = [0, 1, 2, 10_000].map((number) => health.firstByteMs(at(number)) > 0);
  expect(known).toEqual([true, false, true, true]);
});

describe('speeds', () => {
  test('are averages in which the newest counts a fifth', () => {
    const { health } = sick();
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

  test('of an unknown offer are the best there are, so that somebody tries it', () => {
    const { health } = sick();
    expect(health.firstByteMs(offer)).toBe(0);
    expect(health.tokensPerSecond(offer)).toBe(Number.POSITIVE_INFINITY);
    const nothing = { firstByteMs: null, tokensPerSecond: null, failures: 0 };
    expect(health.observed(offer)).toEqual(nothing);
    health.failed(offer);
    health.failed(offer);
    expect(health.observed(offer)).toEqual({ ...nothing, failures: 2 });
  });
});
