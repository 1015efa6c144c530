import { expect, test } from 'bun:test';
import { cachesForHour } from './cache-hour.ts';

const saying = (text: string) => cachesForHour({ text, bytes: new TextEncoder().encode(text) })();
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
