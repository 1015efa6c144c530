import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { chunkLineBytesMax } from '../../core/bounds.ts';
import { ConnectionError } from './response.ts';
import { Chunked, type Framing, Sized, Unsized } from './response-parser.ts';

/** All of the body that is found when the bytes come in these pieces. */
function take(framing: Framing, pieces: readonly (string | Uint8Array)[]): string {
  let body = '';
  for (const piece of pieces) {
    if (framing.isComplete) throw new Error('It was over before.');
    const found = framing.push(Buffer.from(piece));
    if (found?.length === 0) throw new Error('A piece is empty.');
    body += Buffer.from(found ?? []).toString('latin1');
    if (framing.fault !== undefined) throw framing.fault;
  }
  return body;
}

const stateOf = ({ isComplete: isOver, mayClose, isOverrun }: Framing) => ({
  isOver,
  mayClose,
  isOverrun,
});
const under = { isOver: false, mayClose: false, isOverrun: false };
const over = { isOver: true, mayClose: true, isOverrun: false };

describe('a sized body', () => {
  test('is over with its last byte, and cut before that', () => {
    const framing = new Sized(4);
    expect(take(framing, ['a', 'bc'])).toBe('abc');
    expect(stateOf(framing)).toEqual(under);
    expect(take(framing, ['d'])).toBe('d');
    expect(stateOf(framing)).toEqual(over);
  });

  test('ends where it ends, whatever else comes with it', () => {
    const framing = new Sized(2);
    expect(take(framing, ['abc'])).toBe('ab');
    expect(stateOf(framing)).toEqual({ ...over, isOverrun: true });
  });

  test('may have an empty line behind it', () => {
    const framing = new Sized(2);
    expect(take(framing, ['ab\r\n'])).toBe('ab');
    expect(stateOf(framing)).toEqual(over);
  });

  test('may be empty', () => {
    const framing = new Sized(0);
    expect(framing.push(Buffer.alloc(0))).toBeUndefined();
    expect(stateOf(framing)).toEqual(over);
  });
});

test('an unsized body goes on until the connection is closed', () => {
  const framing = new Unsized();
  expect(take(framing, ['a', '', 'bc'])).toBe('abc');
  expect(stateOf(framing)).toEqual({ isOver: false, mayClose: true, isOverrun: false });
});

describe('a body in chunks', () => {
  test.each([
    ['usual', '2\r\nok\r\n0\r\n\r\n'],
    ['several', '1\r\no\r\n1\r\nk\r\n0\r\n\r\n'],
    ['with notes', '2;a=b;c="d"\r\nok\r\n0;e\r\n\r\n'],
    ['padded', '02  \r\nok\r\n000\t\r\n\r\n'],
    ['with newlines alone', '2\nok\n0\n\n'],
    ['with trailers', '2\r\nok\r\n0\r\nA: b\r\nC: d\r\n\r\n'],
    ['with an empty line behind it', '2\r\nok\r\n0\r\n\r\n\r\n'],
  ])('is read: %s', (_, text) => {
    const framing = new Chunked();
    expect(take(framing, [text])).toBe('ok');
    expect(stateOf(framing)).toEqual(over);
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
  ])('has lengths of base sixteen, in letters of any size: %s', (size, length) => {
    const framing = new Chunked();
    const body = 'x'.repeat(length);
    expect(take(framing, [`${size}\r\n${body}`, '\r\n0\r\n\r\n'])).toBe(body);
    expect(stateOf(framing)).toEqual(over);
  });

  test.each([
    ['in a length', '2\r\nok\r\n0'],
    ['in a chunk', '3\r\nok'],
    ['behind a chunk', '2\r\nok\r\n'],
    ['before the first', ''],
  ])('is not whole when it is cut %s', (_, text) => {
    const framing = new Chunked();
    take(framing, [text]);
    expect(stateOf(framing)).toEqual(under);
  });

  test.each(['0\r\n', '0\r\nA: b'])(
    'is whole with its last chunk, whatever follows: %j',
    (last) => {
      const framing = new Chunked();
      expect(take(framing, [`2\r\nok\r\n${last}`])).toBe('ok');
      expect(stateOf(framing)).toEqual({ ...under, mayClose: true });
    },
  );

  test('tells of what follows it', () => {
    const framing = new Chunked();
    take(framing, ['0\r\n\r\nHTTP/1.1 200 OK']);
    expect(stateOf(framing)).toEqual({ ...over, isOverrun: true });
  });

  test.each([
    ['a length that is none', 'x\r\n'],
    ['no length', '\r\n'],
    ['no length and a newline alone', '\n'],
    ['no length behind a chunk', '2\r\nok\r\n\r\n'],
    ['no length behind a chunk and a newline alone', '2\nok\n\n'],
    ['a note without a length behind a chunk', '2\r\nok\r\n;a\r\n'],
    ['a negative length', '-2\r\n'],
    ['a length with a prefix', '0x2\r\n'],
    ['space before a length', ' 2\r\n'],
    ['a length beyond all numbers', 'fffffffffffff\r\n'],
    ['a chunk that is longer than it says', '2\r\nokay\r\n'],
    ['a return in the middle of a line', '2\rx\nok\r\n'],
    ['a return too many', '2\r\nok\r\r\n'],
  ])('is refused with %s', (_, text) => {
    expect(() => take(new Chunked(), [text])).toThrow(ConnectionError);
  });

  test.each(['/', ':', '@', 'G', '`', 'g'])('does not take %s for a digit', (digit) => {
    expect(() => take(new Chunked(), [`1${digit}`])).toThrow('a chunk without its length');
  });

  test('has a bound for a chunk', () => {
    expect(take(new Chunked(), ['100000000000\r\nx'])).toBe('x');
    expect(() => take(new Chunked(), ['100000000001'])).toThrow('a chunk without end');
  });

  test.each([
    ['a note', '2;', '\r\n'],
    ['a length of zeros', '', '2\r\n'],
    ['the trailers', '0\r\n', '\r\n\r\n'],
  ])('has a bound for %s', (_, before, after) => {
    const behind = before.startsWith('0') ? 0 : before.length;
    const fill = '0'.repeat(chunkLineBytesMax - behind - after.length);
    expect(take(new Chunked(), [before, fill, after])).toBe('');
    expect(() => take(new Chunked(), [before, `${fill}0`, after])).toThrow('too much');
  });

  test('is what was sent, however it was cut', () => {
    const chunks = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 8 });
    fc.assert(
      fc.property(chunks, fc.array(fc.nat(), { maxLength: 20 }), (sent, positions) => {
        const sizes = sent.flatMap((chunk) => [`${chunk.length.toString(16)}\r\n`, chunk, '\r\n']);
        const bytes = Buffer.concat([...sizes, '0\r\n\r\n'].map((part) => Buffer.from(part)));
        const framing = new Chunked();
        const body = take(framing, cut(bytes, positions));
        expect(body).toBe(Buffer.concat(sent).toString('latin1'));
        expect(stateOf(framing)).toEqual(over);
        const single = new Chunked();
        expect(
          take(
            single,
            [...bytes].map((byte) => Buffer.of(byte)),
          ),
        ).toBe(body);
        expect(stateOf(single)).toEqual(over);
        const short = new Chunked();
        take(short, [bytes.subarray(0, -5)]);
        expect(short.mayClose).toBe(false);
      }),
    );
  });
});

function cut(bytes: Buffer, positions: readonly number[]): Buffer[] {
  const all = positions.map((position) => position % bytes.length).sort((a, b) => a - b);
  return [0, ...all].map((position, at) => bytes.subarray(position, all[at] ?? bytes.length));
}
