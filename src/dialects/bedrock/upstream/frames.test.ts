import { describe, expect, test } from 'bun:test';
import {
  eventFrame,
  exceptionFrame,
  frameOf,
} from '../../../../tests/support/fake-upstream/frames.ts';
import { fc } from '../../../../tests/support/random.ts';
import { eventBytesMax } from '../../../core/bounds.ts';
import { brokenFrame, FrameDecoder, isFramed } from './frames.ts';

const hello = eventFrame('contentBlockDelta', { delta: { text: 'Grüße 🎉' } });
const helloText = 'event: contentBlockDelta\ndata: {"delta":{"text":"Grüße 🎉"}}\n\n';
const decode = (...chunks: readonly Uint8Array[]) => {
  const decoder = new FrameDecoder();
  return chunks.map((chunk) => decoder.decode(chunk)).join('') + decoder.decode();
};
const changed = (frame: Buffer, index: number) => {
  const copy = Buffer.from(frame);
  copy.writeUInt8(copy.readUInt8(index) ^ 1, index);
  return copy;
};
/** Returns a prelude with a valid checksum. */
const withLengths = (total: number, headers: number) => {
  const frame = frameOf({}, '');
  frame.writeUInt32BE(total, 0);
  frame.writeUInt32BE(headers, 4);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8);
  return frame;
};
/** Returns a frame with these bytes as its headers, and valid checksums. */
const withHeaders = (head: Uint8Array, payload: Uint8Array = Buffer.from('{}')) => {
  const frame = Buffer.concat([Buffer.alloc(12), head, payload, Buffer.alloc(4)]);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(head.length, 4);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
};
const brokenEvent = (content: string) =>
  `event: ${brokenFrame}\ndata: {"message":"The provider sent ${content}."}\n\n`;

describe('FrameDecoder', () => {
  test('decodes the same events however the bytes are split', () => {
    const three = Buffer.concat([hello, eventFrame('messageStop', { stopReason: 'x' }), hello]);
    const expected = `${helloText}event: messageStop\ndata: {"stopReason":"x"}\n\n${helloText}`;
    expect(decode(three)).toBe(expected);
    expect(decode(...[...three].map((byte) => Uint8Array.of(byte)))).toBe(expected);
    for (let index = 0; index <= three.length; index += 1) {
      expect(decode(three.subarray(0, index), three.subarray(index))).toBe(expected);
    }
  });

  test('ignores a frame that is truncated at the end', () => {
    for (let length = 0; length < hello.length; length += 1) {
      expect(decode(hello, hello.subarray(0, length))).toBe(helloText);
    }
  });

  test('decodes a frame as soon as it is complete', () => {
    expect(new FrameDecoder().decode(hello)).toBe(helloText);
  });

  test('names the event for an exception after the exception', () => {
    expect(decode(exceptionFrame('throttlingException', 'Slow down.'))).toBe(
      'event: throttlingException\ndata: {"message":"Slow down."}\n\n',
    );
    expect(decode(frameOf({ ':message-type': 'exception' }, ''))).toBe(
      'event: exception\ndata: {}\n\n',
    );
    const headers = {
      ':message-type': 'error',
      ':error-code': 'InternalFailure',
      ':error-message': 'It broke.',
    };
    expect(decode(frameOf(headers, ''))).toBe(
      'event: error\ndata: {"code":"InternalFailure","message":"It broke."}\n\n',
    );
  });

  test('decodes each frame to a single event', () => {
    const frame = eventFrame('a\n\nevent: messageStop', '{\r\n"a":\n1,\r"b":2}');
    expect(decode(frame)).toBe(
      'event: a event: messageStop\ndata: {\ndata: "a":\ndata: 1,\ndata: "b":2}\n\n',
    );
  });

  test('ignores headers that are not strings', () => {
    const lengths = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];
    const otherHeaders = lengths.flatMap((length, type) =>
      length === undefined ? [] : [Buffer.from([1, 97, type, ...new Array(length).fill(9)])],
    );
    const bytes = Buffer.from([1, 98, 6, 0, 2, 9, 9]);
    const named = Buffer.from([11, ...Buffer.from(':event-type'), 7, 0, 4, ...Buffer.from('ping')]);
    const frame = withHeaders(Buffer.concat([...otherHeaders, bytes, named]));
    expect(decode(frame)).toBe('event: ping\ndata: {}\n\n');
  });
});

describe('FrameDecoder ends with a brokenFrame event for', () => {
  test.each([
    ['the length', 3],
    ['a length that becomes very large', 1],
    ['the length of the headers', 7],
    ['the checksum of the lengths', 9],
    ['a header', 20],
    ['the payload', hello.length - 6],
    ['the checksum', hello.length - 1],
  ])('one wrong bit in %s', (_, index) => {
    const text = brokenEvent('a frame with a wrong checksum');
    expect(decode(hello, changed(hello, index), hello)).toBe(helloText + text);
    const bytes = [...hello, ...changed(hello, index), ...hello];
    expect(decode(...bytes.map((byte) => Uint8Array.of(byte)))).toBe(helloText + text);
  });

  test.each([
    [0, 0],
    [15, 0],
    [16, 1],
    [100, 85],
    [100, 2 ** 32 - 1],
  ])('a frame of %d bytes with %d bytes of headers', (total, headers) => {
    expect(decode(withLengths(total, headers))).toBe(brokenEvent('a frame with an invalid length'));
  });

  test('a frame longer than the event limit', () => {
    const long = brokenEvent(`an event of more than ${eventBytesMax} bytes`);
    expect(decode(withLengths(eventBytesMax + 1, 0))).toBe(long);
    expect(decode(withLengths(2 ** 32 - 1, 0))).toBe(long);
    expect(decode(withLengths(eventBytesMax, 0))).toBe('');
  });

  test.each([
    ['a name beyond the end', [9, 97]],
    ['an unknown type', [1, 97, 10]],
    ['a string beyond the end', [1, 97, 7, 0, 9, 98]],
    ['a string without its length', [1, 97, 7, 0]],
    ['a truncated number', [1, 97, 4, 0]],
  ])('headers with %s', (_, head) => {
    const frame = withHeaders(Buffer.from(head));
    expect(decode(frame)).toBe(brokenEvent('a frame with invalid headers'));
  });
});

test("FrameDecoder doesn't copy a long frame each time a byte arrives", () => {
  const frame = eventFrame('metadata', JSON.stringify({ p: 'x'.repeat(64 * 1024) }));
  const decoder = new FrameDecoder();
  let copied = 0;
  const copy = Buffer.prototype.copy;
  Buffer.prototype.copy = function counted(this: Buffer, ...args: Parameters<Buffer['copy']>) {
    const bytes = copy.apply(this, args);
    copied += bytes;
    return bytes;
  };
  try {
    let text = '';
    for (let index = 0; index < frame.length; index += 1)
      text += decoder.decode(frame.subarray(index, index + 1));
    expect(text).toStartWith('event: metadata\ndata: {"p":"xxx');
  } finally {
    Buffer.prototype.copy = copy;
  }
  expect(copied).toBeLessThan(frame.length * 4);
});

test('isFramed recognizes the content type with any capitalization', () => {
  const typed = (type: string) => new Response('', { headers: { 'content-type': type } });
  expect(isFramed(typed('application/vnd.amazon.eventstream'))).toBe(true);
  expect(isFramed(typed('Application/VND.Amazon.EventStream; charset=x'))).toBe(true);
  expect(isFramed(typed('text/event-stream'))).toBe(false);
  expect(isFramed(new Response(null))).toBe(false);
});

test('FrameDecoder decodes any frame to one event or ends the stream', () => {
  const bytes = fc.uint8Array({ maxLength: 60 });
  const named = fc
    .tuple(fc.constantFrom(':event-type', ':message-type', ':exception-type'), fc.string())
    .map(([name, value]) => frameOf({ [name]: value }, '').subarray(12, -4));
  const heads = fc.array(fc.oneof(bytes, named), { maxLength: 4 });
  fc.assert(
    fc.property(heads, bytes, (head, payload) => {
      const text = decode(withHeaders(Buffer.concat(head), payload), hello);
      const first = text.replace(helloText, '');
      expect(first).toMatch(/^event: [^\r\n]*\n(?:data: [^\r\n]*\n)+\n$/);
      expect(text === first).toBe(first.startsWith(`event: ${brokenFrame}\n`));
    }),
    { seed: 20_261_116, numRuns: 500 },
  );
});
