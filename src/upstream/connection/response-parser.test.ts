import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { answerHeadBytesMax } from '../../core/bounds.ts';
import { ConnectionError } from './response.ts';
import { Chunked, type ResponseHead, readHead, Sized, Unsized } from './response-parser.ts';

const read = (text: string) => readHead(Buffer.from(text, 'latin1'));

function headOf(...lines: string[]): ResponseHead {
  const head = read(`${lines.join('\r\n')}\r\n\r\n`);
  if (!head) throw new Error('not whole');
  return head;
}

/** The head of a good answer with these headers. */
const withHeaders = (...lines: string[]) => headOf('HTTP/1.1 200 OK', ...lines);

describe('the head of an answer', () => {
  test('is read up to the empty line, and no further', () => {
    const head = read('HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nContent-Length: 2\r\n\r\n{}');
    expect(head).toMatchObject({ status: 429, framing: expect.any(Sized), bytes: 62 });
    expect(head?.headers.get('retry-after')).toBe('7');
    expect(head?.headers.get('x-other')).toBeNull();
  });

  test.each([
    ['no reason', 'HTTP/1.1 200'],
    ['an empty reason', 'HTTP/1.1 200 '],
    ['another reason', 'HTTP/1.1 200 \xe9t\xe9'],
    ['more space', 'HTTP/1.1  200 OK'],
    ['another version', 'HTTP/1.2 200 OK'],
  ])('may begin with %s', (_, line) => {
    expect(headOf(line)).toMatchObject({ status: 200 });
  });

  test.each([
    ['newlines alone', '\n', '\n'],
    ['an empty line with a return', '\n', '\r\n'],
    ['an empty line without', '\r\n', '\n'],
  ])('may have other ends of lines: %s', (_, end, last) => {
    const text = `HTTP/1.1 200 OK${end}Content-Length: 2${end}A: b${end}${last}`;
    const head = read(`${text}ok\r\n\r\n`);
    expect(head?.bytes).toBe(text.length);
    expect(head?.headers.get('a')).toBe('b');
  });

  test('joins what is said twice', () => {
    expect(withHeaders('A: b', 'a: c').headers.get('a')).toBe('b, c');
    expect(withHeaders('Connection: b', 'connection: c').headers.get('connection')).toBe('b, c');
  });

  test.each(['content-length', 'retry-after'])('tells %s from what is nearly it', (name) => {
    const { headers } = withHeaders(`x-${name}: 1`, `${name}-x: 2`, `a: ${name}: 3`);
    expect(headers.get(name)).toBeNull();
    expect(withHeaders(`${name.toUpperCase()}:4`, 'b: 5').headers.get(name)).toBe('4');
  });

  test('may have thousands of lines', () => {
    const lines = Array.from({ length: 6_000 }, (_, at) => `${at}: a`);
    expect(withHeaders(...lines, 'content-length: 9').headers.get('content-length')).toBe('9');
    expect(() => withHeaders(...lines, 'none')).toThrow(ConnectionError);
  });

  test.each([
    ['no HTTP', 'hello'],
    ['the other HTTP', 'HTTP/2 200'],
    ['a greeting of another kind', '220 mail'],
  ])('is refused before it is whole where it is %s', (_, text) => {
    expect(() => read(text)).toThrow(ConnectionError);
  });

  test.each([
    ['a line without a name', 'nonsense'],
    ['an empty name', ': b'],
    ['a space in a name', 'Content-Length : 2'],
    ['a line that goes on', ' folded'],
    ['a return in a value', 'A: b\rContent-Length: 9'],
    ['a zero in a value', 'A: b\0c'],
    ['lengths that differ', 'Content-Length: 2\r\nContent-Length: 3'],
    ['a negative length', 'Content-Length: -1'],
    ['a length that is no number', 'Content-Length: 0x2'],
    ['an empty length', 'Content-Length:'],
    ['a length beyond all numbers', `Content-Length: ${'9'.repeat(16)}`],
    ['a coding that was not asked for', 'Transfer-Encoding: gzip, chunked'],
    ['chunks of chunks', 'Transfer-Encoding: chunked, chunked'],
  ])('is refused with %s', (_, line) => {
    expect(() => withHeaders(line)).toThrow(ConnectionError);
  });

  test.each(['HTTP/1.1 099 X', 'HTTP/1.1 20 X', 'HTTP/1.1 2000 X', 'HTTP/1.1 101 Switching'])(
    'is refused with a status that is none: %s',
    (line) => {
      expect(() => headOf(line)).toThrow(ConnectionError);
    },
  );

  test('is as long as its bound, and no longer, however it comes', () => {
    const opening = 'HTTP/1.1 200 OK\r\nA: ';
    const fill = (bytes: number) => 'b'.repeat(bytes - opening.length - 4);
    const longest = `${opening}${fill(answerHeadBytesMax)}\r\n\r\n`;
    expect(read(longest)?.bytes).toBe(answerHeadBytesMax);
    expect(read(longest.slice(0, -1))).toBeUndefined();
    const longer = `${opening}${fill(answerHeadBytesMax + 1)}\r\n\r\n`;
    expect(() => read(longer)).toThrow('more headers');
    expect(() => read(`${opening}${'b'.repeat(answerHeadBytesMax)}`)).toThrow('more headers');
  });
});

describe('what follows the head', () => {
  test.each([
    ['as much as it says', 'Content-Length: 2', Sized],
    ['as much as it says twice', 'Content-Length: 2\r\nContent-Length: 2', Sized],
    ['as much as it says at length', `Content-Length: ${'2'.padStart(20, '0')}`, Sized],
    ['as much as any number can say', `Content-Length: ${'9'.repeat(15)}`, Sized],
    ['chunks', 'Transfer-Encoding: Chunked', Chunked],
    ['chunks, whatever the length', 'Transfer-Encoding: chunked\r\nContent-Length: 2', Chunked],
    ['chunks, in no other coding', 'Transfer-Encoding: identity, chunked', Chunked],
    ['as much as it says, in no coding', 'Transfer-Encoding: identity\r\nContent-Length: 2', Sized],
    ['all that comes', 'A: b', Unsized],
  ])('is %s', (_, line, kind) => {
    expect(withHeaders(line).framing).toBeInstanceOf(kind);
  });

  test.each([100, 103, 204, 304])('is nothing after status %d', (status) => {
    expect(headOf(`HTTP/1.1 ${status} X`, 'Content-Length: 2').framing).toBeUndefined();
  });
});

describe('the connection', () => {
  const [sized, chunked] = ['Content-Length: 2', 'Transfer-Encoding: chunked'];
  const [old, empty] = ['HTTP/1.0 200 OK', 'HTTP/1.1 204 No Content'];

  test.each([
    ['after a sized answer', 55_000, withHeaders(sized)],
    ['after one in chunks', 55_000, withHeaders(chunked)],
    ['after an empty one', 55_000, headOf(empty)],
    ['after an empty one that says so', 55_000, headOf(empty, 'Content-Length: 0')],
    [
      'as long as the server says, and a bit less',
      4_000,
      withHeaders(sized, 'Keep-Alive: timeout=5'),
    ],
    ['as long as it says in other letters', 9_000, withHeaders(sized, 'Keep-Alive: Timeout=10')],
    ['no longer than usual', 55_000, withHeaders(sized, 'Keep-Alive: max=9, timeout=900')],
    ['by an old server that says so', 55_000, headOf(old, sized, 'Connection: Keep-Alive')],
  ])('is kept %s', (_, reusableMs, head) => {
    expect(head.reusableMs).toBe(reusableMs);
  });

  test.each([
    ['when the server closes it', withHeaders(sized, 'Connection: Close')],
    ['when the server closes it at once', withHeaders(sized, 'Keep-Alive: timeout=0')],
    ['by an old server', headOf(old, sized)],
    ['after an answer that ends with it', withHeaders('Connection: keep-alive')],
    ['after chunks with a length', withHeaders(sized, chunked)],
    ['after chunks of an old server', headOf(old, chunked, 'Connection: keep-alive')],
    ['when a body is told of where none can be', headOf(empty, sized)],
    ['when chunks are told of where none can be', headOf(empty, chunked)],
  ])('is not kept %s', (_, head) => {
    expect(head.reusableMs).toBe(0);
  });
});

test('whatever comes, it is a head, the beginning of one, or broken', () => {
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
