import { describe, expect, test } from 'bun:test';
import { Backlog } from './backlog.ts';

describe('Backlog', () => {
  test('is behind long before calls are rejected, and until it is half as long', () => {
    const backlog = new Backlog();
    expect(backlog.update({ waiting: 19_999, lagMs: 9_999 })).toBeUndefined();
    expect(backlog.update({ waiting: 20_000, lagMs: 0 })).toBe('behind');
    expect(backlog.rejectionSeconds(20_000)).toBeUndefined();
    expect(backlog.update({ waiting: 10_000, lagMs: 0 })).toBeUndefined();
    expect(backlog.update({ waiting: 9_999, lagMs: 5_000 })).toBeUndefined();
    expect(backlog.isBehind).toBe(true);
    expect(backlog.update({ waiting: 9_999, lagMs: 4_999 })).toBe('caught-up');
    expect(backlog.update({ waiting: 1, lagMs: 10_000 })).toBe('behind');
  });

  test('rejects calls until a tenth of it is booked, and knows how long that takes', () => {
    const backlog = new Backlog();
    for (let second = 1; second <= 10; second += 1) backlog.booked(2_000, second * 1000);
    expect(backlog.rejectionSeconds(99_999, 10_000)).toBeUndefined();
    expect(backlog.rejectionSeconds(100_000, 10_000)).toBe(5);
    expect(backlog.rejectionSeconds(94_000, 10_000)).toBe(2);
    expect(backlog.rejectionSeconds(90_000, 10_000)).toBe(1);
    expect(backlog.rejectionSeconds(89_999, 10_000)).toBeUndefined();
    expect(backlog.rejectionSeconds(99_999, 10_000)).toBeUndefined();
  });

  test('suggests a wait of 30 seconds while nothing is booked, and of 300 at most', () => {
    const backlog = new Backlog();
    backlog.booked(50, 0);
    expect(backlog.rejectionSeconds(100_000, 9_999)).toBe(300);
    expect(backlog.rejectionSeconds(100_000, 10_000)).toBe(30);
  });
});
