import { describe, expect, test } from 'bun:test';
import { readPresentedKey } from './api-key.ts';

const key = 'sk-tg-0123456789abcdef';
const read = (headers: Record<string, string>) => readPresentedKey(new Headers(headers));

describe('the key is found', () => {
  test.each([
    { authorization: `Bearer ${key}` },
    { authorization: `bearer   ${key}` },
    { 'x-api-key': key },
    { 'api-key': key },
    { 'x-goog-api-key': key },
    { authorization: `Bearer ${key}`, 'x-api-key': key },
    { authorization: 'Bearer ', 'x-api-key': key },
    { authorization: 'bearer', 'x-api-key': key },
    { authorization: '', 'x-api-key': key },
    { authorization: 'Bearer', 'api-key': key, 'x-api-key': '' },
  ])('in %j', (headers) => {
    expect(read(headers)).toBe(key);
  });
});

describe('401 is said to', () => {
  test.each([{}, { authorization: '' }, { authorization: 'Bearer ' }, { 'x-api-key': '' }])(
    'no key: %j',
    (headers) => {
      expect(() => read(headers)).toThrow('No API key');
    },
  );

  test.each([
    { authorization: key },
    { authorization: `Basic ${key}` },
    { authorization: `Bearer ${key} ${key}` },
    // A scheme that is not understood is not passed over for another header.
    { authorization: `Basic ${key}`, 'x-api-key': key },
  ])('another scheme: %j', (headers) => {
    expect(() => read(headers)).toThrow('must be "Bearer <key>"');
  });

  test.each([
    { authorization: `Bearer ${key}`, 'x-api-key': 'sk-mgmt-1' },
    { authorization: `Bearer ${key}`, 'api-key': 'sk-mgmt-1' },
    { authorization: `Bearer ${key}`, 'x-goog-api-key': 'sk-mgmt-1' },
    { 'x-api-key': key, 'api-key': 'sk-mgmt-1' },
    { 'api-key': key, 'x-goog-api-key': 'sk-mgmt-1' },
  ])('two different keys, without repeating either: %j', (headers) => {
    expect(() => read(headers)).toThrow('different API keys in several headers');
    expect(() => read(headers)).not.toThrow(key);
    expect(() => read(headers)).not.toThrow('sk-mgmt-1');
  });
});
