import { expect, test } from 'bun:test';
import { outputItemsMax } from '../../../core/bounds.ts';
import { ItemIndexes } from './output-items.ts';

test('ItemIndexes stores no more items than an answer may have', () => {
  const indexes = new ItemIndexes();
  expect(outputItemsMax).toBe(4_096);
  for (let index = 0; index < 5_000; index += 1) {
    expect(indexes.of({ output_index: index, item: { id: `item_${index}` } })).toBe(index);
  }
  const indexOf = (at: number) => indexes.of({ item_id: `item_${at}` });
  expect([0, 4_095, 4_096, 4_999].map(indexOf)).toEqual([0, 4_095, 4_095, 4_095]);
});
