import { expect, test } from 'bun:test';
import { withStoredObjects } from './stored.ts';

test('withStoredObjects leaves the data of the file as it is', () => {
  const file = { aliases: { fast: { models: ['a/b'] } }, models: [{ id: 'a/b' }], cache: {} };
  const before = structuredClone(file);
  const { data } = withStoredObjects(file, [
    { kind: 'alias', name: '__proto__', document: { models: ['a/c'] } },
    { kind: 'model', name: 'a/c', document: { id: 'a/c' } },
    { kind: 'setting', name: 'cache.mode', document: { value: 'off' } },
  ]);
  expect(file).toEqual(before);
  expect(Object.keys(data.aliases as object)).toEqual(['fast', '__proto__']);
  expect(data).toMatchObject({ models: [{ id: 'a/b' }, { id: 'a/c' }], cache: { mode: 'off' } });
});
