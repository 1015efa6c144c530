import { expect, test } from 'bun:test';
import { ReadCache } from './bounded-map.ts';

interface Found {
  readonly text: string;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a reading is kept as it begins, and what it found afterwards', async () => {
  const reads = new ReadCache<Found>(2);
  const reading = reads.set('a', Promise.resolve({ text: 'one' }));
  expect(reads.get('a')).toBe(reading);
  await settled();
  expect(reads.get('a')).toEqual({ text: 'one' });
});

test('a reading that fails or finds nothing is asked for again', async () => {
  const reads = new ReadCache<Found | undefined>(2);
  await reads.set('a', Promise.resolve(undefined));
  const failing = reads.set('b', Promise.reject(new Error('away')));
  const refusal = await failing.catch((error: Error) => error.message);
  await settled();
  expect([reads.get('a'), reads.get('b'), refusal]).toEqual([undefined, undefined, 'away']);
});

test('a reading that began before a forget() is not kept', async () => {
  const reads = new ReadCache<Found>(2);
  const before = Promise.withResolvers<Found>();
  void reads.set('a', before.promise);
  reads.clear();
  before.resolve({ text: 'old' });
  await settled();
  expect(reads.get('a')).toBeUndefined();
});

test('a full cache drops the oldest', async () => {
  const reads = new ReadCache<Found>(2);
  for (const name of ['a', 'b', 'c']) await reads.set(name, Promise.resolve({ text: name }));
  await settled();
  expect(['a', 'b', 'c'].map((name) => reads.get(name))).toEqual([
    undefined,
    { text: 'b' },
    { text: 'c' },
  ]);
});
