import { describe, expect, test } from 'bun:test';
import { makePrompt } from '../../../../tests/support/prompts.ts';
import type { Edits, Target } from '../../dialect.ts';
import {
  cacheBreakpoint,
  cacheBreakpointNames,
  isolateCaches,
  keepLastBreakpoints,
  tenantCacheKey,
  usesLongCacheTtl,
} from './prompt-cache.ts';

test('cacheBreakpointNames finds breakpoints on tools, parts, and the request', () => {
  const cacheControl = { type: 'ephemeral' };
  const namesIn = (prompt: Parameters<typeof makePrompt>[0]) => [
    ...cacheBreakpointNames(makePrompt(prompt)),
  ];
  expect(namesIn({})).toEqual([]);
  expect(namesIn({ tools: [{ name: 'a', parameters: null, cacheControl }] })).toEqual([
    'cache_control',
  ]);
  expect(namesIn({ cacheControl })).toEqual(['cache_control']);
  const point = cacheBreakpoint({ prompt_cache_breakpoint: { mode: 'explicit' } });
  const parts = [{ kind: 'text' as const, text: 'a', ...point }];
  expect(namesIn({ turns: [{ role: 'user', parts }] })).toEqual(['prompt_cache_breakpoint']);
});

test('keepLastBreakpoints keeps the last 4 breakpoints', () => {
  const cacheControl = { type: 'ephemeral' };
  const tools = [{ name: 'a', parameters: null, cacheControl }];
  const markedText = (text: string) => ({ kind: 'text' as const, text, cacheControl });
  const promptOf = (...texts: string[]) =>
    makePrompt({ tools, turns: [{ role: 'user', parts: texts.map(markedText) }] });
  const four = promptOf('a', 'b', 'c');
  expect(keepLastBreakpoints(four)).toBe(four);
  const { tools: kept, turns } = keepLastBreakpoints({
    ...promptOf('a', 'b', 'c', 'd'),
    cacheControl,
  });
  expect(kept[0]?.cacheControl).toBeUndefined();
  expect(turns[0]?.parts).toEqual([
    { kind: 'text', text: 'a', cacheControl: undefined },
    ...['b', 'c', 'd'].map(markedText),
  ]);
});

const usesLongTtl = (text: string) =>
  usesLongCacheTtl({ text, bytes: new TextEncoder().encode(text) })();
const marked = { type: 'ephemeral', ttl: '1h' };

test.each<[string, object]>([
  ['the request', { cache_control: marked }],
  ['a system text', { system: [{ type: 'text', text: 'x', cache_control: marked }] }],
  ['a tool', { tools: [{ name: 'f', cache_control: marked }] }],
  [
    'an image in a tool result',
    { messages: [{ content: [{ content: [{ type: 'image', cache_control: marked }] }] }] },
  ],
])('usesLongCacheTtl finds 1 hour on %s, with any spacing', (_, body) => {
  expect(usesLongTtl(JSON.stringify(body))).toBe(true);
  expect(usesLongTtl(JSON.stringify(body, null, 2))).toBe(true);
});

test.each([
  String.raw`{"cache_control":{"type":"ephemeral","ttl":"1\u0068"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","ttl":"\u0031h"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","\u0074tl":"1h"}}`,
  String.raw`{"cache_control":{"type":"ephemeral","tt\u006C":"1h"}}`,
])('usesLongCacheTtl finds 1 hour in escaped characters: %s', (text) => {
  expect(JSON.parse(text)).toEqual({ cache_control: marked });
  expect(usesLongTtl(text)).toBe(true);
});

test.each([
  '{"prompt_cache_options":{"ttl":"12h"}}',
  String.raw`{"prompt_cache_options":{"ttl":"1\u0032h"}}`,
])('usesLongCacheTtl finds 12 hours: %s', (text) => {
  expect(JSON.parse(text)).toEqual({ prompt_cache_options: { ttl: '12h' } });
  expect(usesLongTtl(text)).toBe(true);
});

test.each<[string, object]>([
  ['an empty request', {}],
  ['30 minutes', { prompt_cache_options: { ttl: '30m' } }],
  ['5 minutes', { cache_control: { type: 'ephemeral', ttl: '5m' } }],
  ['the default duration', { cache_control: { type: 'ephemeral' } }],
  [
    'text that quotes a breakpoint',
    { messages: [{ content: JSON.stringify({ cache_control: marked }) }] },
  ],
])('usesLongCacheTtl finds nothing in %s', (_, body) => {
  expect(usesLongTtl(JSON.stringify(body))).toBe(false);
});

function editsOf(
  body: Readonly<Record<string, unknown>>,
  tenantId: string | null,
  change: Partial<Target> = {},
): Edits {
  const edits: Edits = {};
  const limits = { outputTokensMax: null, modelOutputTokensMax: null };
  const target = { upstreamModel: 'm', quirks: {}, images: new Map(), thinking: null, ...limits };
  isolateCaches(body, tenantId, { ...target, ...change }, edits);
  return edits;
}

describe("a prompt cache key in the operator's account", () => {
  test.each(['prompt_cache_key', 'cache_salt', 'prompt_cache_isolation_key', 'extra_key'])(
    'is different for each tenant: %s',
    (name) => {
      const ours = editsOf({ [name]: 'a' }, 'acme');
      expect(Object.keys(ours)).toEqual([name]);
      expect(ours[name]).toMatch(/^[\w-]{43}$/);
      expect(editsOf({ [name]: 'a' }, 'acme')).toEqual(ours);
      expect(editsOf({ [name]: 'b' }, 'acme')).not.toEqual(ours);
      expect(editsOf({ [name]: 'a' }, 'bolt')).not.toEqual(ours);
      // A value that isn't a string is also replaced.
      expect(editsOf({ [name]: ['a'] }, 'acme')[name]).toMatch(/^[\w-]{43}$/);
    },
  );

  test('is absent if the client set none', () => {
    expect(editsOf({ model: 'a', prompt_cache_key: null }, 'acme')).toEqual({});
    expect(tenantCacheKey('acme', null)).toBeUndefined();
    expect(tenantCacheKey('acme', '')).toBeUndefined();
  });

  test('is the same in forwarded and translated requests', () => {
    const { prompt_cache_key } = editsOf({ prompt_cache_key: 'a' }, 'acme');
    expect(tenantCacheKey('acme', 'a')).toBe(String(prompt_cache_key));
  });
});

describe('quirks.tenant_cache_field', () => {
  const shared = (tenantId: string, field: 'prompt_cache_key' | 'cache_salt' = 'cache_salt') => ({
    tenantId,
    quirks: { tenant_cache_field: field },
  });

  test('separates the prompts of tenants that set no cache key', () => {
    const ours = editsOf({}, 'acme', shared('acme'));
    expect(ours).toEqual({ cache_salt: expect.stringMatching(/^[\w-]{43}$/) });
    expect(editsOf({}, 'acme', shared('acme'))).toEqual(ours);
    expect(editsOf({}, 'bolt', shared('bolt'))).not.toEqual(ours);
    expect(editsOf({ cache_salt: null }, 'acme', shared('acme'))).toEqual(ours);
  });

  test("keeps what a client's own key is for", () => {
    const target = shared('acme', 'prompt_cache_key');
    const keyed = editsOf({ prompt_cache_key: 'a' }, 'acme', target);
    expect(keyed).toEqual(editsOf({ prompt_cache_key: 'a' }, 'acme'));
    expect(keyed).not.toEqual(editsOf({}, 'acme', target));
    const both = editsOf({ prompt_cache_key: 'a' }, 'acme', shared('acme'));
    expect(Object.keys(both).sort()).toEqual(['cache_salt', 'prompt_cache_key']);
  });

  test("adds nothing in the tenant's own account, or if the parameter is dropped", () => {
    const target = shared('acme');
    expect(editsOf({}, 'acme', { ...target, isOwnAccount: true })).toEqual({});
    const quirks = { ...target.quirks, drop_params: ['cache_salt'] };
    expect(editsOf({}, 'acme', { ...target, quirks })).toEqual({});
  });
});

test("a prompt cache key in the tenant's own account is unchanged", () => {
  expect(editsOf({ prompt_cache_key: 'a' }, null)).toEqual({});
  expect(tenantCacheKey(null, 'a')).toBe('a');
});
