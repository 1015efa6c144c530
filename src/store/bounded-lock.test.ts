import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { BoundedLock } from './bounded-lock.ts';

describe('BoundedLock', () => {
  test('is acquired in order, by one holder at a time', async () => {
    const lock = new BoundedLock({ waitersMax: 10, waitMs: 1_000 });
    const order: string[] = [];
    await lock.acquire();
    const waiting = ['a', 'b', 'c'].map(async (name) => {
      await lock.acquire();
      order.push(name);
    });
    expect(order).toEqual([]);
    lock.release();
    await waiting[0];
    expect(order).toEqual(['a']);
    lock.release();
    await waiting[1];
    lock.release();
    await waiting[2];
    expect(order).toEqual(['a', 'b', 'c']);
  });

  test('rejects waiters beyond its limit at once', async () => {
    const lock = new BoundedLock({ waitersMax: 1, waitMs: 1_000 });
    await lock.acquire();
    const second = lock.acquire();
    expect(await failureOf(lock.acquire())).toMatchObject({
      symbol: 'service_unavailable',
      message: 'The database is too busy: 1 changes are already waiting.',
    });
    lock.release();
    await second;
  });

  test('rejects a waiter after its time limit without affecting the next one', async () => {
    const lock = new BoundedLock({ waitersMax: 10, waitMs: 20 });
    await lock.acquire();
    expect((await failureOf(lock.acquire())).message).toMatch('a change waited more than 20 ms');
    const next = lock.acquire();
    lock.release();
    await next;
    lock.release();
    await lock.acquire();
  });

  test('does not time out waiters while the process is blocked', async () => {
    const lock = new BoundedLock({ waitersMax: 10, waitMs: 20 });
    await lock.acquire();
    const next = lock.acquire();
    for (const since = performance.now(); performance.now() - since < 100; );
    await Bun.sleep(0);
    lock.release();
    await next;
  });
});
