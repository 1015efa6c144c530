import { expect, test } from 'bun:test';
import { BatchLoader } from './batch-loader.ts';

const never = new Promise<never>(() => {});

/** A loader whose values report the size of the batch. A key can make it hang or fail. */
const createLoader = () =>
  new BatchLoader(async (keys: readonly string[]) => {
    if (keys.includes('hangs')) await never;
    if (keys.includes('fails')) throw new Error('unreachable');
    return (key: string) => `${key} of ${keys.length}`;
  });

test('BatchLoader batches lookups made while a query hangs into another query that succeeds', async () => {
  const loader = createLoader();
  void loader.load('hangs');
  const [one, two] = [loader.load('one'), loader.load('two')];
  expect([await one, await two]).toEqual(['one of 2', 'two of 2']);
  expect(await loader.load('three')).toBe('three of 1');
});

test('BatchLoader rejects only the lookups of the batch that failed', async () => {
  const loader = createLoader();
  const loads = ['first', 'fails', 'second'].map((key) => loader.load(key).catch(String));
  expect(await Promise.all(loads)).toEqual([
    'first of 1',
    'Error: unreachable',
    'Error: unreachable',
  ]);
  expect(await loader.load('after')).toBe('after of 1');
});
