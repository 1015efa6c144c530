import { describe, expect, test } from 'bun:test';
import { formatHeaders, formatRequestHead } from './round-trip.ts';

describe('what stands before a request', () => {
  test('names the path, the headers and the length of what follows', () => {
    const lines = formatHeaders({ host: 'there', 'x-empty': '' });
    expect(formatRequestHead('/v1/chat?a=b', lines, 7)).toBe(
      'POST /v1/chat?a=b HTTP/1.1\r\nhost: there\r\nx-empty: \r\ncontent-length: 7\r\n\r\n',
    );
  });

  test.each([
    ['a value', { a: 'b\r\nc: d' }],
    ['a value, with a newline alone', { a: 'b\nc: d' }],
    ['a name', { 'a: b\r\nc': 'd' }],
    ['a value that would end early', { a: 'b\0' }],
  ])('is never made of a second line: %s', (_, headers) => {
    expect(() => formatHeaders(headers)).toThrow('more than one line');
  });

  test.each(['/a b', '/a\r\nb: c', '/ä'])('is never made of a path that is none: %j', (path) => {
    expect(() => formatRequestHead(path, '', 0)).toThrow('no path has');
  });
});
