import { describe, expect, test } from 'bun:test';
import { waitingArgumentsMax } from '../../core/bounds.ts';
import { BlockOrder } from './block-order.ts';

const event = (kind: 'start' | 'delta' | 'stop', index: number, data = '') => ({
  fields: { type: `content_block_${kind}`, index },
  data,
});
type Told = ReturnType<typeof event>;

/** The numbers of the blocks whose events are told after each given event. */
function tell(events: readonly Told[], order = new BlockOrder()): readonly (readonly unknown[])[] {
  return events.map((one) => {
    const now = order.keeps(one) ? [] : [one];
    return [...now, ...order.due()].map(({ fields }) => fields.index);
  });
}

describe('the events of blocks', () => {
  test('pass as they come, one block after the other', () => {
    const events = [0, 1].flatMap((index) => [
      event('start', index),
      event('delta', index),
      event('stop', index),
    ]);
    expect(tell(events)).toEqual([[0], [0], [0], [1], [1], [1]]);
  });

  test('wait until the block before theirs has ended', () => {
    const events = [
      ...[event('start', 0), event('start', 1), event('start', 2), event('delta', 1)],
      ...[event('stop', 2), event('delta', 0), event('stop', 0), event('delta', 1)],
      event('stop', 1),
    ];
    expect(tell(events)).toEqual([[0], [], [], [], [], [0], [0, 1, 1], [1], [1, 2, 2]]);
  });

  test('do not wait for a block that has long been silent: its end was left out', () => {
    const silent = Array.from({ length: 16 }, () => event('delta', 1));
    const told = tell([event('start', 0), ...silent, event('delta', 1)]);
    expect(told.map((now) => now.length)).toEqual([1, ...Array(15).fill(0), 16, 1]);
  });

  test('wait as long as the other block goes on, but not without bound', () => {
    const order = new BlockOrder();
    const piece = 'x'.repeat(1024 * 1024);
    const turn = [event('delta', 0), event('delta', 1, piece)];
    const turns = Array.from({ length: 5 }, () => turn).flat();
    const waited = tell([event('start', 0), ...turns], order).flat();
    expect(waitingArgumentsMax).toBe(4 * 1024 * 1024);
    expect(waited.filter((index) => index === 1)).toHaveLength(5);
  });

  test('wait as long as the other block goes on, however often both take turns', () => {
    const turns = Array.from({ length: 40 }, () => [event('delta', 1), event('delta', 0)]).flat();
    const told = tell([event('start', 0), ...turns, event('stop', 0)]);
    expect(told.slice(0, -1).flat()).toEqual(Array(41).fill(0));
    expect(told.at(-1)).toEqual([0, ...Array(40).fill(1)]);
  });

  test('are all told at the end', () => {
    const order = new BlockOrder();
    tell([event('start', 0), event('start', 1), event('start', 2)], order);
    expect(order.due(true).map(({ fields }) => fields.index)).toEqual([1, 2]);
    expect(order.due(true)).toEqual([]);
  });
});
