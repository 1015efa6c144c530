import { describe, expect, test } from 'bun:test';
import { readPresentedKey } from './api-key.ts';

const key = 'sk-tg-0123456789abcdef';
const read = (headers: Record<string, string>) => readPresentedKey(new Headers(headers));

describe('readPresentedKey', () => {
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
  ])('reads the key from the headers %j', (headers) => {
    expect(read(headers)).toBe(key);
  });

  test.each([{}, { authorization: '' }, { authorization: 'Bearer ' }, { 'x-api-key': '' }])(
    'rejects the headers %j because they contain no key',
    (headers) => {
      expect(() => read(headers)).toThrow('The API key is missing.');
    },
  );

  test.each([
    { authorization: key },
    { authorization: `Basic ${key}` },
    { authorization: `Bearer ${key} ${key}` },
    // An unsupported scheme is an error even if another header has a valid key.
    { authorization: `Basic ${key}`, 'x-api-key': key },
  ])('rejects the Authorization scheme in %j', (headers) => {
    expect(() => read(headers)).toThrow('must be "Bearer <key>"');
  });

  test.each([
    { authorization: `Bearer ${key}`, 'x-api-key': 'sk-mgmt-1' },
    { authorization: `Bearer ${key}`, 'api-key': 'sk-mgmt-1' },
    { authorization: `Bearer ${key}`, 'x-goog-api-key': 'sk-mgmt-1' },
    { 'x-api-key': key, 'api-key': 'sk-mgmt-1' },
    { 'api-key': key, 'x-goog-api-key': 'sk-mgmt-1' },
  ])('rejects different keys in %j without revealing them', (headers) => {
    expect(() => read(headers)).toThrow('different API keys in several headers');
    expect(() => read(headers)).not.toThrow(key);
    expect(() => read(headers)).not.toThrow('sk-mgmt-1');
  });
});
