import { describe, expect, test } from 'bun:test';
import { failureOf } from '../../tests/contracts/failure-of.ts';
import { Turns } from './turns.ts';

describe('turns', () => {
  test('are given in the order they were asked for, one at a time', async () => {
    const turns = new Turns({ waitersMax: 10, waitMs: 1_000 });
    const order: string[] = [];
    await turns.take();
    const waiting = ['a', 'b', 'c'].map(async (name) => {
      await turns.take();
      order.push(name);
    });
    expect(order).toEqual([]);
    turns.give();
    await waiting[0];
    expect(order).toEqual(['a']);
    turns.give();
    await waiting[1];
    turns.give();
    await waiting[2];
    expect(order).toEqual(['a', 'b', 'c']);
  });

  test('are refused at once beyond the bound of those who wait', async () => {
    const turns = new Turns({ waitersMax: 1, waitMs: 1_000 });
    await turns.take();
    const second = turns.take();
    expect(await failureOf(turns.take())).toMatchObject({
      symbol: 'service_unavailable',
      message: 'The database is too busy: 1 changes are waiting already.',
    });
    turns.give();
    await second;
  });

  test('that do not come in time are given up, and nobody behind loses theirs', async () => {
    const turns = new Turns({ waitersMax: 10, waitMs: 20 });
    await turns.take();
    expect((await failureOf(turns.take())).message).toMatch('no turn within 20 ms');
    const next = turns.take();
    turns.give();
    await next;
    turns.give();
    await turns.take();
  });

  test('are waited for where the machine stood still: nobody could give one back', async () => {
    const turns = new Turns({ waitersMax: 10, waitMs: 20 });
    await turns.take();
    const next = turns.take();
    for (const since = performance.now(); performance.now() - since < 100; );
    await Bun.sleep(0);
    turns.give();
    await next;
  });
});
