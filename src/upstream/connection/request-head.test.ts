import { describe, expect, test } from 'bun:test';
import { formatHeaders, formatRequestHead } from './round-trip.ts';

describe('formatRequestHead', () => {
  test('writes the path, the headers, and the content-length', () => {
    const lines = formatHeaders({ host: 'there', 'x-empty': '' });
    expect(formatRequestHead('/v1/chat?a=b', lines, 7)).toBe(
      'POST /v1/chat?a=b HTTP/1.1\r\nhost: there\r\nx-empty: \r\ncontent-length: 7\r\n\r\n',
    );
  });

  test.each([
    ['a value', { a: 'b\r\nc: d' }],
    ['a value, as a line feed alone', { a: 'b\nc: d' }],
    ['a name', { 'a: b\r\nc': 'd' }],
    ['a value, as a NUL', { a: 'b\0' }],
  ])('rejects a line break in %s', (_, headers) => {
    expect(() => formatHeaders(headers)).toThrow('contains a line break');
  });

  test.each(['/a b', '/a\r\nb: c', '/ä'])('rejects the path %j', (path) => {
    expect(() => formatRequestHead(path, '', 0)).toThrow('invalid character');
  });
});
