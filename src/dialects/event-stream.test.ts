import { describe, expect, test } from 'bun:test';
import { fc } from '../../tests/support/random.ts';
import { eventBytesMax } from '../core/bounds.ts';
import { EventStreamReader } from './event-stream.ts';
import { MalformedAnswer } from './failure.ts';

function read(...texts: string[]) {
  const reader = new EventStreamReader();
  return [...texts.flatMap((text) => reader.push(text)), ...reader.end()];
}
const data = (...texts: string[]) => texts.map((text) => ({ event: null, data: text }));

describe('EventStreamReader accepts', () => {
  const accepted: Record<string, [string, ReturnType<typeof read>]> = {
    'several events in one text': ['data: a\n\ndata: b\n\n', data('a', 'b')],
    'lines that end in \\r\\n': ['data: a\r\n\r\ndata: b\r\n\r\n', data('a', 'b')],
    'lines that end in \\r': ['data: a\r\rdata: b\r\r', data('a', 'b')],
    'mixed line breaks': ['data: a\r\ndata: b\rdata: c\n\r\n', data('a\nb\nc')],
    comments: [': PROCESSING\n\n: PROCESSING\n\ndata: a\n\n: b\ndata: c\n\n', data('a', 'c')],
    'data without a space after the colon': ['data:a\n\n', data('a')],
    'two spaces after the colon, of which it keeps one': ['data:  a\n\n', data(' a')],
    'spaces after the data, which it keeps': ['data: {"a":1}   \n\n', data('{"a":1}   ')],
    'several data lines': ['data: a\ndata: b\n\n', data('a\nb')],
    'event names': [
      'event: ping\ndata: a\n\ndata: b\n\n',
      [{ event: 'ping', data: 'a' }, ...data('b')],
    ],
    'an event name after its data': ['data: a\nevent:x\n\n', [{ event: 'x', data: 'a' }]],
    'unknown fields': ['id: 1\nretry: 5\nnonsense\ndata: a\n\n', data('a')],
    'a byte order mark': ['\uFEFFdata: a\n\n', data('a')],
    'extra blank lines': ['\n\ndata: a\n\n\n\ndata: b\n\n', data('a', 'b')],
    'a stream that ends without a blank line': ['data: a\n\ndata: b\n', data('a', 'b')],
    'a stream that ends within a line': ['data: a\n\ndata: b', data('a', 'b')],
    'line separators that JSON allows': [
      'data: a\u2028b\u2029c\u0085d\n\n',
      data('a\u2028b\u2029c\u0085d'),
    ],
    'JSON after the last event, which it returns as a message': [
      'data: a\n\n{\n  "error": {}\n}\n\n: b\n',
      data('a', '{\n  "error": {}\n}\n'),
    ],
    'JSON instead of events': ['[1]', data('[1]\n')],
    'JSON before an event, and ignores that JSON': ['{}\n\ndata: a\n\n', data('a')],
    'an error line instead of event and data lines': [
      'data: a\n\nerror: {"code":500}\n\n',
      [...data('a'), { event: 'error', data: '{"code":500}' }],
    ],
    nothing: ['', []],
    'events without data, and ignores them': [
      'event: a\n\ndata:\n\ndata: \n\ndata\n\ndata: b\n\n',
      data('b'),
    ],
  };
  test.each(Object.entries(accepted))('%s', (_, [text, messages]) => {
    expect(read(text)).toEqual(messages);
  });
});

test('EventStreamReader returns a message as soon as its blank line arrives', () => {
  const reader = new EventStreamReader();
  expect(reader.push('data: a\n')).toEqual([]);
  expect(reader.push('\ndata: b\r')).toEqual(data('a'));
  expect(reader.push('\n\r')).toEqual(data('b'));
  expect(reader.push('\ndata: c\n\n')).toEqual(data('c'));
});

test('EventStreamReader returns the same messages however the text is split', () => {
  const piece = fc.constantFrom(
    'data: x',
    'data:',
    'event: e',
    ': c',
    '\n',
    '\r\n',
    '\r',
    ' ',
    'é',
    '{',
    'error: x',
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 24 }),
      fc.infiniteStream(fc.nat(4)),
      (pieces, sizes) => {
        const text = pieces.join('');
        const parts: string[] = [];
        for (let index = 0; index < text.length; ) {
          const size = sizes.next().value ?? 1;
          parts.push(text.slice(index, index + size));
          index += size;
          if (parts.length > 1000) break;
        }
        parts.push(text.slice(parts.join('').length));
        expect(read(...parts)).toEqual(read(text));
      },
    ),
  );
});

describe('EventStreamReader event size', () => {
  const within = 'x'.repeat(eventBytesMax - 'data: '.length);

  test('accepts an event of the maximum size in one text or in several', () => {
    expect(read(`data: ${within}\n\n`)[0]?.data.length).toBe(within.length);
    expect(read('data: ', within, '\n', '\n')[0]?.data.length).toBe(within.length);
  });

  test('throws for a larger event in one text', () => {
    expect(() => read(`data: ${within}x\n\n`)).toThrow(MalformedAnswer);
  });

  test('throws for a data line that never ends', () => {
    const reader = new EventStreamReader();
    reader.push(`data: ${within}`);
    expect(() => reader.push('x')).toThrow(MalformedAnswer);
  });

  test('throws for a comment that never ends', () => {
    expect(() => read(`: ${within}`, 'xxxxx')).toThrow(MalformedAnswer);
  });

  test('throws for data lines without a blank line', () => {
    const line = `data: ${'x'.repeat(1_000_000)}\n`;
    const reader = new EventStreamReader();
    for (let count = 0; count < 4; count += 1) reader.push(line);
    expect(() => reader.push(line)).toThrow(MalformedAnswer);
  });

  test('throws for bare JSON that never ends', () => {
    const line = `{${'x'.repeat(1_000_000)}\n\n`;
    expect(read(...Array<string>(4).fill(line)).length).toBe(1);
    expect(() => read(...Array<string>(5).fill(line))).toThrow(MalformedAnswer);
  });

  test('accepts many events that together exceed the maximum', () => {
    const event = `data: ${'x'.repeat(1_000_000)}\n\n`;
    expect(read(event.repeat(6)).length).toBe(6);
    expect(read(...Array<string>(6).fill(event.replaceAll('\n', '\r\n'))).length).toBe(6);
  });
});
