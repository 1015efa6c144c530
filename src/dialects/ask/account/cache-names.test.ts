import { describe, expect, test } from 'bun:test';
import type { Edits } from '../body/edit-body.ts';
import { cacheNameWithin, keepCachesApart } from './cache-names.ts';

function editsOf(body: Readonly<Record<string, unknown>>, tenantId: string | null): Edits {
  const edits: Edits = {};
  keepCachesApart(body, tenantId, edits);
  return edits;
}

describe('a prompt that is kept warm at the operator’s account', () => {
  test.each(['prompt_cache_key', 'cache_salt', 'prompt_cache_isolation_key', 'extra_key'])(
    'has a name of each tenant’s own: %s',
    (name) => {
      const ours = editsOf({ [name]: 'a' }, 'acme');
      expect(Object.keys(ours)).toEqual([name]);
      expect(ours[name]).toMatch(/^[\w-]{43}$/);
      expect(editsOf({ [name]: 'a' }, 'acme')).toEqual(ours);
      expect(editsOf({ [name]: 'b' }, 'acme')).not.toEqual(ours);
      expect(editsOf({ [name]: 'a' }, 'bolt')).not.toEqual(ours);
      // A value that is not a text is replaced as well.
      expect(editsOf({ [name]: ['a'] }, 'acme')[name]).toMatch(/^[\w-]{43}$/);
    },
  );

  test('has no name where the client gave none', () => {
    expect(editsOf({ model: 'a', prompt_cache_key: null }, 'acme')).toEqual({});
    expect(cacheNameWithin('acme', null)).toBeUndefined();
    expect(cacheNameWithin('acme', '')).toBeUndefined();
  });

  test('has the same name whether the request is passed on or written anew', () => {
    const { prompt_cache_key } = editsOf({ prompt_cache_key: 'a' }, 'acme');
    expect(cacheNameWithin('acme', 'a')).toBe(String(prompt_cache_key));
  });
});

test('at an account of the tenant’s own, the name is what the client chose', () => {
  expect(editsOf({ prompt_cache_key: 'a' }, null)).toEqual({});
  expect(cacheNameWithin(null, 'a')).toBe('a');
});
