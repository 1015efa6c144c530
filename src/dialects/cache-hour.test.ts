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

test.each<[string, object]>([
  ['nothing', {}],
  ['five minutes', { cache_control: { type: 'ephemeral', ttl: '5m' } }],
  ['the usual time', { cache_control: { type: 'ephemeral' } }],
  ['words about it', { messages: [{ content: JSON.stringify({ cache_control: marked }) }] }],
])('%s asks for none', (_, body) => {
  expect(saying(JSON.stringify(body))).toBe(false);
});
