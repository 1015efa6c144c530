import { expect, test } from 'bun:test';
import { readRetryAfter } from './retry-after.ts';
import { readUpstreamError } from './upstream-error.ts';

test.each<[readonly unknown[], string]>([
  [['body', 'messages', 0, 'content'], 'messages[0].content: Field required'],
  [['query'], 'query: Field required'],
  [['body', { toString: 1 }], 'Field required'],
  [['body', ['messages']], 'Field required'],
])('readUpstreamError reads the path %j only if it is valid', (loc, message) => {
  expect(readUpstreamError({ detail: [{ loc, msg: 'Field required' }] }).message).toBe(message);
});

const now = Date.UTC(2026, 9, 1, 12);
const wait = (headers: Record<string, string>, details: readonly unknown[] = []) =>
  readRetryAfter(new Headers(headers), details, true, now);

test('readRetryAfter finds the wait among other details', () => {
  const type = 'type.googleapis.com/google.rpc';
  const details = [
    { '@type': `${type}.QuotaFailure`, violations: [] },
    null,
    { '@type': `${type}.Help`, links: [] },
    { '@type': `${type}.RetryInfo`, retryDelay: '12s' },
  ];
  expect(wait({}, details)).toBe(12);
  expect(wait({}, [{ retryDelay: 12 }])).toBeNull();
});

test('readRetryAfter limits the wait to a day', () => {
  expect(wait({ 'retry-after': '86399' })).toBe(86_399);
  expect(wait({ 'retry-after': '86400' })).toBe(86_400);
  expect(wait({ 'retry-after': '86401' })).toBe(86_400);
});

test('readRetryAfter uses the longer wait of 2 exhausted limits', () => {
  const used = (limit: string, reset: string) => ({
    [`x-ratelimit-reset-${limit}`]: reset,
    [`x-ratelimit-remaining-${limit}`]: '0',
  });
  expect(wait({ ...used('requests', '5s'), ...used('tokens', '9s') })).toBe(9);
  expect(wait({ ...used('requests', '9s'), ...used('tokens', '5s') })).toBe(9);
});
