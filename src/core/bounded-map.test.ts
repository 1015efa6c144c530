import { expect, test } from 'bun:test';
import { ReadCache } from './bounded-map.ts';

interface Entry {
  readonly text: string;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('ReadCache returns the pending lookup first and its value afterwards', async () => {
  const reads = new ReadCache<Entry>(2);
  const pending = reads.set('a', Promise.resolve({ text: 'one' }));
  expect(reads.get('a')).toBe(pending);
  await settled();
  expect(reads.get('a')).toEqual({ text: 'one' });
});

test('ReadCache does not cache lookups that fail or find nothing', async () => {
  const reads = new ReadCache<Entry | undefined>(2);
  await reads.set('a', Promise.resolve(undefined));
  const failing = reads.set('b', Promise.reject(new Error('unreachable')));
  const message = await failing.catch((error: Error) => error.message);
  await settled();
  expect([reads.get('a'), reads.get('b'), message]).toEqual([undefined, undefined, 'unreachable']);
});

test('ReadCache does not cache a lookup that started before clear()', async () => {
  const reads = new ReadCache<Entry>(2);
  const before = Promise.withResolvers<Entry>();
  void reads.set('a', before.promise);
  reads.clear();
  before.resolve({ text: 'old' });
  await settled();
  expect(reads.get('a')).toBeUndefined();
});

test('ReadCache drops the oldest entry when it is full', async () => {
  const reads = new ReadCache<Entry>(2);
  for (const name of ['a', 'b', 'c']) await reads.set(name, Promise.resolve({ text: name }));
  await settled();
  expect(['a', 'b', 'c'].map((name) => reads.get(name))).toEqual([
    undefined,
    { text: 'b' },
    { text: 'c' },
  ]);
});
