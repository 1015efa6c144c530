import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import { Chunked, Sized, Unsized } from './framing.ts';
import { ConnectionError } from './response.ts';
import { type ResponseHead, readHead } from './response-parser.ts';

const read = (text: string) => readHead(Buffer.from(text, 'latin1'));

function headOf(...lines: string[]): ResponseHead {
  const head = read(`${lines.join('\r\n')}\r\n\r\n`);
  if (!head) throw new Error('The head is incomplete.');
  return head;
}

/** Returns the head of a 200 response with these headers. */
const withHeaders = (...lines: string[]) => headOf('HTTP/1.1 200 OK', ...lines);

describe('readHead', () => {
  test('reads up to and including the empty line', () => {
    const head = read('HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nContent-Length: 2\r\n\r\n{}');
    expect(head).toMatchObject({ status: 429, framing: expect.any(Sized), bytes: 62 });
    expect(head?.headers.get('retry-after')).toBe('7');
    expect(head?.headers.get('x-other')).toBeNull();
  });

  test.each([
    ['no reason phrase', 'HTTP/1.1 200'],
    ['an empty reason phrase', 'HTTP/1.1 200 '],
    ['a Latin-1 reason phrase', 'HTTP/1.1 200 \xe9t\xe9'],
    ['two spaces', 'HTTP/1.1  200 OK'],
    ['another minor version', 'HTTP/1.2 200 OK'],
  ])('accepts a status line with %s', (_, line) => {
    expect(headOf(line)).toMatchObject({ status: 200 });
  });

  test.each([
    ['line feeds alone', '\n', '\n'],
    ['a carriage return only on the empty line', '\n', '\r\n'],
    ['a carriage return on every other line', '\r\n', '\n'],
  ])('accepts lines that end with %s', (_, end, last) => {
    const text = `HTTP/1.1 200 OK${end}Content-Length: 2${end}A: b${end}${last}`;
    const head = read(`${text}ok\r\n\r\n`);
    expect(head?.bytes).toBe(text.length);
    expect(head?.headers.get('a')).toBe('b');
  });

  test('joins the values of repeated headers', () => {
    expect(withHeaders('A: b', 'a: c').headers.get('a')).toBe('b, c');
    expect(withHeaders('Connection: b', 'connection: c').headers.get('connection')).toBe('b, c');
  });

  test.each(['content-length', 'retry-after'])('matches only the exact name %s', (name) => {
    const { headers } = withHeaders(`x-${name}: 1`, `${name}-x: 2`, `a: ${name}: 3`);
    expect(headers.get(name)).toBeNull();
    expect(withHeaders(`${name.toUpperCase()}:4`, 'b: 5').headers.get(name)).toBe('4');
  });

  test('reads and checks thousands of header lines', () => {
    const lines = Array.from({ length: 6_000 }, (_, index) => `${index}: a`);
    expect(withHeaders(...lines, 'content-length: 9').headers.get('content-length')).toBe('9');
    expect(() => withHeaders(...lines, 'none')).toThrow(ConnectionError);
  });

  test.each([
    ['plain text', 'hello'],
    ['HTTP/2', 'HTTP/2 200'],
    ['an SMTP greeting', '220 mail'],
  ])('rejects %s before the head is complete', (_, text) => {
    expect(() => read(text)).toThrow(ConnectionError);
  });

  test.each([
    ['a line without a name', 'nonsense'],
    ['an empty name', ': b'],
    ['a space in a name', 'Content-Length : 2'],
    ['a folded line', ' folded'],
    ['a carriage return in a value', 'A: b\rContent-Length: 9'],
    ['a NUL in a value', 'A: b\0c'],
    ['conflicting content-lengths', 'Content-Length: 2\r\nContent-Length: 3'],
    ['a negative content-length', 'Content-Length: -1'],
    ['a hexadecimal content-length', 'Content-Length: 0x2'],
    ['an empty content-length', 'Content-Length:'],
    ['a content-length beyond the integer range', `Content-Length: ${'9'.repeat(16)}`],
    ['a compressed transfer-encoding', 'Transfer-Encoding: gzip, chunked'],
    ['chunked twice', 'Transfer-Encoding: chunked, chunked'],
  ])('rejects a head with %s', (_, line) => {
    expect(() => withHeaders(line)).toThrow(ConnectionError);
  });

  test.each(['HTTP/1.1 099 X', 'HTTP/1.1 20 X', 'HTTP/1.1 2000 X', 'HTTP/1.1 101 Switching'])(
    'rejects the status line %s',
    (line) => {
      expect(() => headOf(line)).toThrow(ConnectionError);
    },
  );

  test('limits the size of a head, complete or not', () => {
    const opening = 'HTTP/1.1 200 OK\r\nA: ';
    const fill = (bytes: number) => 'b'.repeat(bytes - opening.length - 4);
    const longest = `${opening}${fill(answerHeadBytesMax)}\r\n\r\n`;
    expect(read(longest)?.bytes).toBe(answerHeadBytesMax);
    expect(read(longest.slice(0, -1))).toBeUndefined();
    const longer = `${opening}${fill(answerHeadBytesMax + 1)}\r\n\r\n`;
    expect(() => read(longer)).toThrow('too many bytes of headers');
    const incomplete = `${opening}${'b'.repeat(answerHeadBytesMax)}`;
    expect(() => read(incomplete)).toThrow('too many bytes of headers');
  });
});

describe('ResponseHead.framing', () => {
  test.each([
    ['a content-length', 'Content-Length: 2', Sized],
    ['a repeated content-length', 'Content-Length: 2\r\nContent-Length: 2', Sized],
    ['a padded content-length', `Content-Length: ${'2'.padStart(20, '0')}`, Sized],
    ['the longest content-length', `Content-Length: ${'9'.repeat(15)}`, Sized],
    ['chunked', 'Transfer-Encoding: Chunked', Chunked],
    ['chunked and a content-length', 'Transfer-Encoding: chunked\r\nContent-Length: 2', Chunked],
    ['identity and chunked', 'Transfer-Encoding: identity, chunked', Chunked],
    ['identity and a content-length', 'Transfer-Encoding: identity\r\nContent-Length: 2', Sized],
    ['neither chunked nor a content-length', 'A: b', Unsized],
  ])('is determined by %s', (_, line, kind) => {
    expect(withHeaders(line).framing).toBeInstanceOf(kind);
  });

  test.each([100, 103, 204, 304])('is undefined for status %d', (status) => {
    expect(headOf(`HTTP/1.1 ${status} X`, 'Content-Length: 2').framing).toBeUndefined();
  });
});

describe('ResponseHead.reusableMs', () => {
  const [sized, chunked] = ['Content-Length: 2', 'Transfer-Encoding: chunked'];
  const [old, empty] = ['HTTP/1.0 200 OK', 'HTTP/1.1 204 No Content'];

  test.each([
    [55_000, 'after a content-length body', withHeaders(sized)],
    [55_000, 'after a chunked body', withHeaders(chunked)],
    [55_000, 'after a 204', headOf(empty)],
    [55_000, 'after a 204 with content-length 0', headOf(empty, 'Content-Length: 0')],
    [4_000, 'with timeout=5, one second less', withHeaders(sized, 'Keep-Alive: timeout=5')],
    [9_000, 'with a capitalized Timeout=10', withHeaders(sized, 'Keep-Alive: Timeout=10')],
    [55_000, 'with a longer timeout', withHeaders(sized, 'Keep-Alive: max=9, timeout=900')],
    [55_000, 'for HTTP/1.0 with keep-alive', headOf(old, sized, 'Connection: Keep-Alive')],
  ])('is %i %s', (reusableMs, _, head) => {
    expect(head.reusableMs).toBe(reusableMs);
  });

  test.each([
    ['with connection: close', withHeaders(sized, 'Connection: Close')],
    ['with a keep-alive timeout of 0', withHeaders(sized, 'Keep-Alive: timeout=0')],
    ['for HTTP/1.0', headOf(old, sized)],
    ['after a body without a length', withHeaders('Connection: keep-alive')],
    ['after chunks with a content-length', withHeaders(sized, chunked)],
    ['after chunks in HTTP/1.0', headOf(old, chunked, 'Connection: keep-alive')],
    ['after a 204 with a content-length', headOf(empty, sized)],
    ['after a chunked 204', headOf(empty, chunked)],
  ])('is 0 %s', (_, head) => {
    expect(head.reusableMs).toBe(0);
  });
});

test('readHead returns a head, returns undefined, or throws a ConnectionError for any bytes', () => {
  const piece = fc.oneof(
    fc.constantFrom('HTTP/1.1 ', '200', ' OK', '\r\n', '\n', '\r', 'Content-Length: ', '2', ', '),
    fc.constantFrom('Transfer-Encoding: ', 'chunked', 'Connection: ', 'close', ':', ' ', '\0'),
    fc.string({ unit: 'binary', maxLength: 5 }),
  );
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const written = pieces.join('');
      for (const text of [written, `HTTP/1.1 ${written}\r\n\r\n`]) {
        try {
          expect(read(text)?.bytes ?? 0).toBeLessThanOrEqual(text.length);
        } catch (error) {
          expect(error).toBeInstanceOf(ConnectionError);
        }
      }
    }),
  );
});
