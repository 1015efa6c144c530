import { expect, test } from 'bun:test';
import { ForeignNames } from './foreign-names.ts';

test('each name is told once, and thirty-two of them at most', () => {
  const foreign = new ForeignNames();
  for (let at = 0; at < 32; at++) {
    foreign.add(`field_${at}`);
    foreign.add('field_0');
  }
  expect(foreign.list).toHaveLength(32);
  foreign.add('one_more');
  expect(foreign.list).toHaveLength(32);
  expect(foreign.list).not.toContain('one_more');
});
