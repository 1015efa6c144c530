import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { BatchLoader, BoundedLock } from './call-queue.ts';

describe('turns', () => {
  test('are given in the order they were asked for, one at a time', async () => {
    const turns = new BoundedLock({ waitersMax: 10, waitMs: 1_000 });
    const order: string[] = [];
    await turns.acquire();
    const waiting = ['a', 'b', 'c'].map(async (name) => {
      await turns.acquire();
      order.push(name);
    });
    expect(order).toEqual([]);
    turns.release();
    await waiting[0];
    expect(order).toEqual(['a']);
    turns.release();
    await waiting[1];
    turns.release();
    await waiting[2];
    expect(order).toEqual(['a', 'b', 'c']);
  });

  test('are refused at once beyond the bound of those who wait', async () => {
    const turns = new BoundedLock({ waitersMax: 1, waitMs: 1_000 });
    await turns.acquire();
    const second = turns.acquire();
    expect(await failureOf(turns.acquire())).toMatchObject({
      symbol: 'service_unavailable',
      message: 'The database is too busy: 1 changes are waiting already.',
    });
    turns.release();
    await second;
  });

  test('that do not come in time are given up, and nobody behind loses theirs', async () => {
    const turns = new BoundedLock({ waitersMax: 10, waitMs: 20 });
    await turns.acquire();
    expect((await failureOf(turns.acquire())).message).toMatch('no turn within 20 ms');
    const next = turns.acquire();
    turns.release();
    await next;
    turns.release();
    await turns.acquire();
  });

  test('are waited for where the machine stood still: nobody could give one back', async () => {
    const turns = new BoundedLock({ waitersMax: 10, waitMs: 20 });
    await turns.acquire();
    const next = turns.acquire();
    for (const since = performance.now(); performance.now() - since < 100; );
    await Bun.sleep(0);
    turns.release();
    await next;
  });
});

const never = new Promise<never>(() => {});

/** Answers with how many shared the query; some are never answered, some fail. */
const gathered = () =>
  new BatchLoader(async (asked: readonly string[]) => {
    if (asked.includes('hangs')) await never;
    if (asked.includes('fails')) throw new Error('away');
    return (one: string) => `${one} of ${asked.length}`;
  });

test('questions that come while a query hangs share the next, which does not wait', async () => {
  const questions = gathered();
  void questions.load('hangs');
  const [one, two] = [questions.load('one'), questions.load('two')];
  expect([await one, await two]).toEqual(['one of 2', 'two of 2']);
  expect(await questions.load('three')).toBe('three of 1');
});

test('a query that fails does so for those who share it, and for nobody after them', async () => {
  const questions = gathered();
  const asked = ['first', 'fails', 'beside'].map((one) => questions.load(one).catch(String));
  expect(await Promise.all(asked)).toEqual(['first of 1', 'Error: away', 'Error: away']);
  expect(await questions.load('after')).toBe('after of 1');
});
