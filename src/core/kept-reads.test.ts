import { expect, test } from 'bun:test';
import { KeptReads } from './kept-reads.ts';

interface Found {
  readonly text: string;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a reading is kept as it begins, and what it found afterwards', async () => {
  const reads = new KeptReads<Found>(2);
  const reading = reads.keep('a', Promise.resolve({ text: 'one' }));
  expect(reads.get('a')).toBe(reading);
  await settled();
  expect(reads.get('a')).toEqual({ text: 'one' });
});

test('a reading that fails or finds nothing is asked for again', async () => {
  const reads = new KeptReads<Found | undefined>(2);
  await reads.keep('a', Promise.resolve(undefined));
  const failing = reads.keep('b', Promise.reject(new Error('away')));
  const refusal = await failing.catch((thrown: Error) => thrown.message);
  await settled();
  expect([reads.get('a'), reads.get('b'), refusal]).toEqual([undefined, undefined, 'away']);
});

test('a reading that began before a forget() is not kept', async () => {
  const reads = new KeptReads<Found>(2);
  const before = Promise.withResolvers<Found>();
  void reads.keep('a', before.promise);
  reads.forget();
  before.resolve({ text: 'old' });
  await settled();
  expect(reads.get('a')).toBeUndefined();
});

test('a full cache drops the oldest', async () => {
  const reads = new KeptReads<Found>(2);
  for (const name of ['a', 'b', 'c']) await reads.keep(name, Promise.resolve({ text: name }));
  await settled();
  expect(['a', 'b', 'c'].map((name) => reads.get(name))).toEqual([
    undefined,
    { text: 'b' },
    { text: 'c' },
  ]);
});
