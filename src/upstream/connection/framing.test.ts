import { describe, expect, test } from 'bun:test';
import { fc } from '../../../tests/support/random.ts';
import { chunkLineBytesMax } from '../../core/bounds.ts';
import { Chunked, type Framing, Sized, Unsized } from './framing.ts';
import { ConnectionError } from './response.ts';

/** Returns the body that is read when the bytes arrive in these pieces. */
function readBody(framing: Framing, chunks: readonly (string | Uint8Array)[]): string {
  let body = '';
  for (const chunk of chunks) {
    if (framing.isComplete) throw new Error('The body was already complete.');
    const found = framing.push(Buffer.from(chunk));
    if (found?.length === 0) throw new Error('A returned piece is empty.');
    body += Buffer.from(found ?? []).toString('latin1');
    if (framing.error !== undefined) throw framing.error;
  }
  return body;
}

const stateOf = ({ isComplete, mayClose, hasExcessBytes }: Framing) => ({
  isComplete,
  mayClose,
  hasExcessBytes,
});
const incomplete = { isComplete: false, mayClose: false, hasExcessBytes: false };
const complete = { isComplete: true, mayClose: true, hasExcessBytes: false };

describe('Sized', () => {
  test('completes with the last byte of the content-length', () => {
    const framing = new Sized(4);
    expect(readBody(framing, ['a', 'bc'])).toBe('abc');
    expect(stateOf(framing)).toEqual(incomplete);
    expect(readBody(framing, ['d'])).toBe('d');
    expect(stateOf(framing)).toEqual(complete);
  });

  test('reports bytes after the content-length as excess bytes', () => {
    const framing = new Sized(2);
    expect(readBody(framing, ['abc'])).toBe('ab');
    expect(stateOf(framing)).toEqual({ ...complete, hasExcessBytes: true });
  });

  test('ignores an empty line after the body', () => {
    const framing = new Sized(2);
    expect(readBody(framing, ['ab\r\n'])).toBe('ab');
    expect(stateOf(framing)).toEqual(complete);
  });

  test('is complete without any bytes when the content-length is 0', () => {
    const framing = new Sized(0);
    expect(framing.push(Buffer.alloc(0))).toBeUndefined();
    expect(stateOf(framing)).toEqual(complete);
  });
});

test('Unsized returns all bytes and never completes by itself', () => {
  const framing = new Unsized();
  expect(readBody(framing, ['a', '', 'bc'])).toBe('abc');
  expect(stateOf(framing)).toEqual({ isComplete: false, mayClose: true, hasExcessBytes: false });
});

describe('Chunked', () => {
  test.each([
    ['with one chunk', '2\r\nok\r\n0\r\n\r\n'],
    ['with several chunks', '1\r\no\r\n1\r\nk\r\n0\r\n\r\n'],
    ['with chunk extensions', '2;a=b;c="d"\r\nok\r\n0;e\r\n\r\n'],
    ['with padded sizes', '02  \r\nok\r\n000\t\r\n\r\n'],
    ['with line feeds alone', '2\nok\n0\n\n'],
    ['with trailers', '2\r\nok\r\n0\r\nA: b\r\nC: d\r\n\r\n'],
    ['with an extra empty line at the end', '2\r\nok\r\n0\r\n\r\n\r\n'],
  ])('reads a body %s', (_, text) => {
    const framing = new Chunked();
    expect(readBody(framing, [text])).toBe('ok');
    expect(stateOf(framing)).toEqual(complete);
  });

  test.each([
    ['9', 9],
    ['a', 10],
    ['F', 15],
    ['10', 16],
    ['1a', 26],
    ['0FF', 255],
    ['100', 256],
    ['AbC', 2748],
  ])('reads the chunk size %s as hexadecimal', (size, length) => {
    const framing = new Chunked();
    const body = 'x'.repeat(length);
    expect(readBody(framing, [`${size}\r\n${body}`, '\r\n0\r\n\r\n'])).toBe(body);
    expect(stateOf(framing)).toEqual(complete);
  });

  test.each([
    ['within a chunk size', '2\r\nok\r\n0'],
    ['within a chunk', '3\r\nok'],
    ['after a chunk', '2\r\nok\r\n'],
    ['before the first chunk', ''],
  ])('stays incomplete when the body is truncated %s', (_, text) => {
    const framing = new Chunked();
    readBody(framing, [text]);
    expect(stateOf(framing)).toEqual(incomplete);
  });

  test.each(['0\r\n', '0\r\nA: b'])(
    'may close after its last chunk without the final empty line: %j',
    (last) => {
      const framing = new Chunked();
      expect(readBody(framing, [`2\r\nok\r\n${last}`])).toBe('ok');
      expect(stateOf(framing)).toEqual({ ...incomplete, mayClose: true });
    },
  );

  test('reports bytes after the body as excess bytes', () => {
    const framing = new Chunked();
    readBody(framing, ['0\r\n\r\nHTTP/1.1 200 OK']);
    expect(stateOf(framing)).toEqual({ ...complete, hasExcessBytes: true });
  });

  test.each([
    ['a malformed size', 'x\r\n'],
    ['no size', '\r\n'],
    ['no size before a line feed alone', '\n'],
    ['no size after a chunk', '2\r\nok\r\n\r\n'],
    ['no size after a chunk that ends with a line feed alone', '2\nok\n\n'],
    ['an extension without a size', '2\r\nok\r\n;a\r\n'],
    ['a negative size', '-2\r\n'],
    ['a size with a 0x prefix', '0x2\r\n'],
    ['a space before a size', ' 2\r\n'],
    ['a size beyond the integer range', 'fffffffffffff\r\n'],
    ['a chunk longer than its size', '2\r\nokay\r\n'],
    ['a carriage return within a line', '2\rx\nok\r\n'],
    ['an extra carriage return', '2\r\nok\r\r\n'],
    ['an extra carriage return before a size', '2\r\nok\r\r\n2\r\nok\r\n'],
    ['a carriage return within an extension', '2;a\rb\nok\r\n'],
  ])('rejects a body with %s', (_, text) => {
    expect(() => readBody(new Chunked(), [text])).toThrow(ConnectionError);
  });

  test.each(['/', ':', '@', 'G', '`', 'g'])('rejects %s as a hexadecimal digit', (digit) => {
    expect(() => readBody(new Chunked(), [`1${digit}`])).toThrow('a chunk without a size');
  });

  test('rejects a chunk size above 2^44 bytes', () => {
    expect(readBody(new Chunked(), ['100000000000\r\nx'])).toBe('x');
    expect(() => readBody(new Chunked(), ['100000000001'])).toThrow(
      'a chunk size that is too large',
    );
  });

  test.each([
    ['chunk extension', '2;', '\r\n'],
    ['zero-padded chunk size', '', '2\r\n'],
    ['trailer section', '0\r\n', '\r\n\r\n'],
  ])('limits the length of a %s', (_, before, after) => {
    const counted = before.startsWith('0') ? 0 : before.length;
    const fill = '0'.repeat(chunkLineBytesMax - counted - after.length);
    expect(readBody(new Chunked(), [before, fill, after])).toBe('');
    expect(() => readBody(new Chunked(), [before, `${fill}0`, after])).toThrow('too many bytes');
  });

  test('reads the same body however the bytes are split', () => {
    const chunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 });
    fc.assert(
      fc.property(chunks, fc.array(fc.nat(), { maxLength: 20 }), (sent, positions) => {
        const sizes = sent.flatMap((chunk) => [`${chunk.length.toString(16)}\r\n`, chunk, '\r\n']);
        const bytes = Buffer.concat([...sizes, '0\r\n\r\n'].map((part) => Buffer.from(part)));
        const framing = new Chunked();
        const body = readBody(framing, cut(bytes, positions));
        expect(body).toBe(Buffer.concat(sent).toString('latin1'));
        expect(stateOf(framing)).toEqual(complete);
        const single = new Chunked();
        expect(
          readBody(
            single,
            [...bytes].map((byte) => Buffer.of(byte)),
          ),
        ).toBe(body);
        expect(stateOf(single)).toEqual(complete);
        const short = new Chunked();
        readBody(short, [bytes.subarray(0, -5)]);
        expect(short.mayClose).toBe(false);
      }),
    );
  });
});

function cut(bytes: Buffer, positions: readonly number[]): Buffer[] {
  const all = positions.map((position) => position % bytes.length).sort((a, b) => a - b);
  return [0, ...all].map((position, index) => bytes.subarray(position, all[index] ?? bytes.length));
}
