import { expect, test } from 'bun:test';
import { combined, differences } from './json-diff.ts';

test('a comparison lists changed, added, and removed fields with their paths', () => {
  const before = { a: { b: 1, c: 'x' }, list: [1, { d: true }], same: {} };
  const after = { a: { b: 2 }, list: [1, { d: false }, null], same: {} };
  expect(differences(before, after)).toEqual([
    { path: 'a.b', before: '1', after: '2' },
    { path: 'a.c', before: '"x"', after: undefined },
    { path: 'list[1].d', before: 'true', after: 'false' },
    { path: 'list[2]', before: undefined, after: 'null' },
  ]);
});

test('a comparison with nothing lists every field', () => {
  expect(differences(null, { a: [], b: null })).toEqual([
    { path: 'a', before: undefined, after: '[]' },
    { path: 'b', before: undefined, after: 'null' },
  ]);
  expect(differences('x', null)).toEqual([{ path: '', before: '"x"', after: undefined }]);
});

test('changes of two editors are combined unless they concern the same field', () => {
  const base = { url: 'a', timeout: 1, keys: [{ name: 'x', weight: 1 }] };
  const mine = { timeout: 1, keys: [{ weight: 2, name: 'x' }] };
  expect(combined(base, mine, { ...base, timeout: 5, headers: {} })).toEqual({
    timeout: 5,
    keys: [{ weight: 2, name: 'x' }],
    headers: {},
  });
  expect(combined(base, mine, { ...base, url: 'b' })).toBeUndefined();
  expect(combined(base, base, { timeout: 1 })).toEqual({ timeout: 1 });
});
