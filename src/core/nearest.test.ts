import { expect, test } from 'bun:test';
import { nearest } from './nearest.ts';

const known = ['requests_per_minute', 'concurrent_requests', 'body_bytes'];

test.each([
  ['request_per_minute', 'requests_per_minute'],
  ['requests_per_minutes', 'requests_per_minute'],
  ['body_byte', 'body_bytes'],
  ['bdoy_bytes', 'body_bytes'],
  ['body_bytes', 'body_bytes'],
])('%s was meant as %s', (word, meant) => {
  expect(nearest(word, known)).toBe(meant);
});

test('the closest of several wins, whatever their order', () => {
  expect(nearest('chst', ['chart', 'chat', 'cat'])).toBe('chat');
  expect(nearest('chst', ['cat', 'chat', 'chart'])).toBe('chat');
});

test('a word like none of them gets no suggestion', () => {
  expect(nearest('zzzzzz', known)).toBeUndefined();
  expect(nearest('', known)).toBeUndefined();
  expect(nearest('anything', [])).toBeUndefined();
});
