import { describe, expect, test } from 'bun:test';
import { question } from '../../../../tests/support/question.ts';
import type { Edits } from '../../dialect.ts';
import {
  cacheMark,
  cacheMarkNames,
  isolateCaches,
  keepLastMarks,
  tenantCacheName,
  usesLongCacheTtl,
} from './prompt-cache.ts';

test('marks for a cache are found on tools, on parts and on the whole', () => {
  const cacheControl = { type: 'ephemeral' };
  const namesIn = (given: Parameters<typeof question>[0]) => [...cacheMarkNames(question(given))];
  expect(namesIn({})).toEqual([]);
  expect(namesIn({ tools: [{ name: 'a', parameters: null, cacheControl }] })).toEqual([
    'cache_control',
  ]);
  expect(namesIn({ cacheControl })).toEqual(['cache_control']);
  const point = cacheMark({ prompt_cache_breakpoint: { mode: 'explicit' } });
  const parts = [{ kind: 'text' as const, text: 'a', ...point }];
  expect(namesIn({ turns: [{ role: 'user', parts }] })).toEqual(['prompt_cache_breakpoint']);
});

test('of more than four marks the last stay, and of four all', () => {
  const cacheControl = { type: 'ephemeral' };
  const tools = [{ name: 'a', parameters: null, cacheControl }];
  const said = (text: string) => ({ kind: 'text' as const, text, cacheControl });
  const asked = (...texts: string[]) =>
    question({ tools, turns: [{ role: 'user', parts: texts.map(said) }] });
  const four = asked('a', 'b', 'c');
  expect(keepLastMarks(four)).toBe(four);
  const { tools: kept, turns } = keepLastMarks({ ...asked('a', 'b', 'c', 'd'), cacheControl });
  expect(kept[0]?.cacheControl).toBeUndefined();
  expect(turns[0]?.parts).toEqual([
    { kind: 'text', text: 'a', cacheControl: undefined },
    ...['b', 'c', 'd'].map(said),
  ]);
});

const saying = (text: string) =>
  usesLongCacheTtl({ text, bytes: new TextEncoder().encode(text) })();
const marked = { type: 'ephemeral', ttl: '1h' };

test.each<[string, object]>([
  ['the whole request', { cache_control: marked }],
  ['a system text', { system: [{ type: 'text', text: 'x', cache_control: marked }] }],
  ['a tool', { tools: [{ name: 'f', cache_control: marked }] }],
  [
    'a picture within a result',
    { messages: [{ content: [{ content: [{ type: 'image', cache_control: marked }] }] }] },
  ],
])('an hour is asked for at %s, however it is spaced', (_, body) => {
  expect(saying(JSON.stringify(body))).toBe(true);
  expect(saying(JSON.stringify(body, null, 2))).toBe(true);
});

test.each([
  String.raw`{"cache_control":{"type":"ephemeral","ttl":"1\u0068"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","ttl":"\u0031h"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","\u0074tl":"1h"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","tt\u006C":"1h"}}`,
])('an hour is asked for in letters that are hidden: %s', (text) => {
  expect(JSON.parse(text)).toEqual({ cache_control: marked });
  expect(saying(text)).toBe(true);
});

test.each([
  '{"prompt_cache_options":{"ttl":"12h"}}',
  String.raw`{"prompt_cache_options":{"ttl":"1\u0032h"}}`,
])('so are twelve: %s', (text) => {
  expect(JSON.parse(text)).toEqual({ prompt_cache_options: { ttl: '12h' } });
  expect(saying(text)).toBe(true);
});

test.each<[string, object]>([
  ['nothing', {}],
  ['half of one', { prompt_cache_options: { ttl: '30m' } }],
  ['five minutes', { cache_control: { type: 'ephemeral', ttl: '5m' } }],
  ['the usual time', { cache_control: { type: 'ephemeral' } }],
  ['words about it', { messages: [{ content: JSON.stringify({ cache_control: marked }) }] }],
])('%s asks for none', (_, body) => {
  expect(saying(JSON.stringify(body))).toBe(false);
});

function editsOf(body: Readonly<Record<string, unknown>>, tenantId: string | null): Edits {
  const edits: Edits = {};
  isolateCaches(body, tenantId, edits);
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
    expect(tenantCacheName('acme', null)).toBeUndefined();
    expect(tenantCacheName('acme', '')).toBeUndefined();
  });

  test('has the same name whether the request is passed on or written anew', () => {
    const { prompt_cache_key } = editsOf({ prompt_cache_key: 'a' }, 'acme');
    expect(tenantCacheName('acme', 'a')).toBe(String(prompt_cache_key));
  });
});

test('at an account of the tenant’s own, the name is what the client chose', () => {
  expect(editsOf({ prompt_cache_key: 'a' }, null)).toEqual({});
  expect(tenantCacheName(null, 'a')).toBe('a');
});
