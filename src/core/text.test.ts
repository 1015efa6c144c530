import { expect, test } from 'bun:test';
import { countCharacters, logText, nearest, pluralize } from './text.ts';

test.each([
  ['', 0],
  ['Grüße', 5],
  ['a😀b', 3],
  ['\u{10000}\u{10ffff}', 2],
  ['\ue000\ud7ff', 2],
  ['\udc00', 1],
  ['a\udfff', 2],
  ['\ud83d\ude00\ude00', 2],
  ['\ud83d\ud83d\ude00', 2],
  ['\ud800\ud7ff', 2],
  ['\ud800\ue000', 2],
  ['\ue000\udc00', 2],
  ['\ud7ff\udc00', 2],
])('countCharacters: %j has %i code points', (text, count) =>
  expect(countCharacters(text)).toBe(count),
);

test('pluralize uses the singular only for 1', () => {
  expect(pluralize(1, 'credit')).toBe('1 credit');
  expect(pluralize(0, 'credit')).toBe('0 credits');
  expect(pluralize(2, 'credit')).toBe('2 credits');
  expect(pluralize(-1, 'credit')).toBe('-1 credits');
});

test('pluralize accepts an irregular plural with a verb', () => {
  expect(pluralize(1, 'entry is', 'entries are')).toBe('1 entry is');
  expect(pluralize(3, 'entry is', 'entries are')).toBe('3 entries are');
});

test('logText returns well-formed text unchanged', () => {
  expect(logText('openai/gpt-5 “ünï” 日本 😀')).toBe('openai/gpt-5 “ünï” 日本 😀');
});

test('logText replaces NUL and lone surrogates with U+FFFD', () => {
  expect(logText('a\0b\ud83dc')).toBe('a\ufffdb\ufffdc');
});

test('logText truncates to 200 characters without splitting a surrogate pair', () => {
  expect(logText('x'.repeat(1_000))).toHaveLength(200);
  expect(logText(`${'x'.repeat(199)}😀`)).toBe(`${'x'.repeat(199)}\ufffd`);
});

const known = ['requests_per_minute', 'concurrent_requests', 'body_bytes'];

test.each([
  ['request_per_minute', 'requests_per_minute'],
  ['requests_per_minutes', 'requests_per_minute'],
  ['body_byte', 'body_bytes'],
  ['bdoy_bytes', 'body_bytes'],
  ['body_bytes', 'body_bytes'],
])('nearest, given %s, suggests %s', (word, expected) => {
  expect(nearest(word, known)).toBe(expected);
});

test('nearest returns the closest word, whatever the order of the known words', () => {
  expect(nearest('chst', ['chart', 'chat', 'cat'])).toBe('chat');
  expect(nearest('chst', ['cat', 'chat', 'chart'])).toBe('chat');
});

test('nearest returns undefined if no word is close', () => {
  expect(nearest('zzzzzz', known)).toBeUndefined();
  expect(nearest('', known)).toBeUndefined();
  expect(nearest('anything', [])).toBeUndefined();
});
