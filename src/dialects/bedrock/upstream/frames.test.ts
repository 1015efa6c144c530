import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  eventFrame,
  exceptionFrame,
  frameOf,
} from '../../../../tests/support/fake-upstream/frames.ts';
import { eventBytesMax } from '../../../core/bounds.ts';
import { brokenFrame, FrameDecoder, isFramed } from './frames.ts';

const hello = eventFrame('contentBlockDelta', { delta: { text: 'Grüße 🎉' } });
const helloText = 'event: contentBlockDelta\ndata: {"delta":{"text":"Grüße 🎉"}}\n\n';
const decode = (...pieces: readonly Uint8Array[]) => {
  const decoder = new FrameDecoder();
  return pieces.map((piece) => decoder.decode(piece)).join('') + decoder.decode();
};
const changed = (frame: Buffer, at: number) => {
  const copy = Buffer.from(frame);
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at);
  return copy;
};
/** A prelude whose own checksum is right. */
const withLengths = (total: number, headers: number) => {
  const frame = frameOf({}, '');
  frame.writeUInt32BE(total, 0);
  frame.writeUInt32BE(headers, 4);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8);
  return frame;
};
/** A frame with these bytes as its headers, and checksums that are right. */
const withHeaders = (head: Uint8Array, payload: Uint8Array = Buffer.from('{}')) => {
  const frame = Buffer.concat([Buffer.alloc(12), head, payload, Buffer.alloc(4)]);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(head.length, 4);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8);
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
};
const broken = (what: string) =>
  `event: ${brokenFrame}\ndata: {"message":"The upstream sent ${what}."}\n\n`;

describe('frames', () => {
  test('are the same events in whatever pieces they come', () => {
    const three = Buffer.concat([hello, eventFrame('messageStop', { stopReason: 'x' }), hello]);
    const whole = `${helloText}event: messageStop\ndata: {"stopReason":"x"}\n\n${helloText}`;
    expect(decode(three)).toBe(whole);
    expect(decode(...[...three].map((byte) => Uint8Array.of(byte)))).toBe(whole);
    for (let at = 0; at <= three.length; at += 1) {
      expect(decode(three.subarray(0, at), three.subarray(at))).toBe(whole);
    }
  });

  test('that are cut by the end say nothing', () => {
    for (let length = 0; length < hello.length; length += 1) {
      expect(decode(hello, hello.subarray(0, length))).toBe(helloText);
    }
  });

  test('are decoded one by one, not when the next one comes', () => {
    expect(new FrameDecoder().decode(hello)).toBe(helloText);
  });

  test('that are exceptions become events with the name of the exception', () => {
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

  test('cannot say more than one event', () => {
    const frame = eventFrame('a\n\nevent: messageStop', '{\r\n"a":\n1,\r"b":2}');
    expect(decode(frame)).toBe(
      'event: a event: messageStop\ndata: {\ndata: "a":\ndata: 1,\ndata: "b":2}\n\n',
    );
  });

  test('may have headers of every type, of which only texts count', () => {
    const lengths = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];
    const odd = lengths.flatMap((length, type) =>
      length === undefined ? [] : [Buffer.from([1, 97, type, ...new Array(length).fill(9)])],
    );
    const bytes = Buffer.from([1, 98, 6, 0, 2, 9, 9]);
    const named = Buffer.from([11, ...Buffer.from(':event-type'), 7, 0, 4, ...Buffer.from('ping')]);
    const frame = withHeaders(Buffer.concat([...odd, bytes, named]));
    expect(decode(frame)).toBe('event: ping\ndata: {}\n\n');
  });
});

describe('a broken frame is an event, and the last one:', () => {
  test.each([
    ['in its length', 3],
    ['in its length, which would take long to come', 1],
    ['in the length of its headers', 7],
    ['in the checksum of the lengths', 9],
    ['in a header', 20],
    ['in its payload', hello.length - 6],
    ['in its checksum', hello.length - 1],
  ])('one bit is wrong %s', (_, at) => {
    const text = broken('a frame with a wrong checksum');
    expect(decode(hello, changed(hello, at), hello)).toBe(helloText + text);
    const bytes = [...hello, ...changed(hello, at), ...hello];
    expect(decode(...bytes.map((byte) => Uint8Array.of(byte)))).toBe(helloText + text);
  });

  test.each([
    [0, 0],
    [15, 0],
    [16, 1],
    [100, 85],
    [100, 2 ** 32 - 1],
  ])('of %d bytes and %d of headers', (total, headers) => {
    expect(decode(withLengths(total, headers))).toBe(broken('a frame with an invalid length'));
  });

  test('longer than any event', () => {
    const long = broken(`an event of more than ${eventBytesMax} bytes`);
    expect(decode(withLengths(eventBytesMax + 1, 0))).toBe(long);
    expect(decode(withLengths(2 ** 32 - 1, 0))).toBe(long);
    expect(decode(withLengths(eventBytesMax, 0))).toBe('');
  });

  test.each([
    ['a name that ends behind them', [9, 97]],
    ['a type that does not exist', [1, 97, 10]],
    ['a text that ends behind them', [1, 97, 7, 0, 9, 98]],
    ['a text without its length', [1, 97, 7, 0]],
    ['a number that is cut', [1, 97, 4, 0]],
  ])('with headers that have %s', (_, head) => {
    const frame = withHeaders(Buffer.from(head));
    expect(decode(frame)).toBe(broken('a frame with invalid headers'));
  });
});

test('a long frame that comes byte by byte is not copied with each of them', () => {
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
    for (let at = 0; at < frame.length; at += 1) text += decoder.decode(frame.subarray(at, at + 1));
    expect(text).toStartWith('event: metadata\ndata: {"p":"xxx');
  } finally {
    Buffer.prototype.copy = copy;
  }
  expect(copied).toBeLessThan(frame.length * 4);
});

test('frames are known by their type, however it is written', () => {
  const typed = (type: string) => new Response('', { headers: { 'content-type': type } });
  expect(isFramed(typed('application/vnd.amazon.eventstream'))).toBe(true);
  expect(isFramed(typed('Application/VND.Amazon.EventStream; charset=x'))).toBe(true);
  expect(isFramed(typed('text/event-stream'))).toBe(false);
  expect(isFramed(new Response(null))).toBe(false);
});

test('whatever stands in a frame, it is one event or breaks the stream', () => {
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
