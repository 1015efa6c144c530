import { describe, expect, test } from 'bun:test';
import { RecordingSink, readEvents } from '../../../../tests/support/recording-sink.ts';
import { AnthropicStreamReader, readFullReply } from './reader.ts';

const begin = { type: 'message_start', message: { usage: { input_tokens: 3, output_tokens: 1 } } };
const start = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
});
const delta = (index: number, fields: object) => ({
  type: 'content_block_delta',
  index,
  delta: fields,
});
const stop = (index: number) => ({ type: 'content_block_stop', index });
const end = (stop_reason: string | null) => ({ type: 'message_delta', delta: { stop_reason } });
const over = { type: 'message_stop' };
const text = (index: number, content: string) => [
  start(index, { type: 'text', text: '' }),
  delta(index, { type: 'text_delta', text: content }),
  stop(index),
];

const read = (events: readonly (object | string)[]) =>
  readEvents((sink) => new AnthropicStreamReader(sink), events);

describe('AnthropicStreamReader', () => {
  test('finishes at message_stop and ignores later events', () => {
    const { sink, reader } = read([
      begin,
      ...text(0, 'Hi'),
      end('end_turn'),
      over,
      ...text(1, 'x'),
    ]);
    expect([sink.fullText, sink.finishReason, reader.finished]).toEqual(['Hi', 'stop', true]);
  });

  test('keeps the stop reason if a later report has none', () => {
    const { sink, failure } = read([begin, ...text(0, 'Hi'), end('max_tokens'), end(null), over]);
    expect([failure, sink.finishReason]).toEqual([undefined, 'length']);
  });

  test('estimates the output of a truncated stream at 4 characters per token', () => {
    const { sink, reader } = read([begin, ...text(0, 'x'.repeat(40))]);
    expect(reader.finished).toBe(false);
    expect([sink.lastUsage, sink.isEstimate]).toMatchObject([
      { inputTokens: 3, outputTokens: 10 },
      true,
    ]);
  });

  test('accepts text and thinking without start events', () => {
    const { sink } = read([
      begin,
      delta(0, { type: 'thinking_delta', thinking: 'Hm.' }),
      stop(0),
      delta(1, { type: 'text_delta', text: 'H' }),
      delta(1, { type: 'text_delta', text: 'i' }),
      delta(2, { type: 'input_json_delta', partial_json: '{}' }),
      end('end_turn'),
      over,
    ]);
    expect([sink.reasoningText, sink.fullText, sink.calls, sink.finishReason]).toEqual([
      ...['Hm.', 'Hi'],
      [],
      'stop',
    ]);
  });

  test('reads tool input in a start event once, even if deltas repeat it', () => {
    const block = { type: 'tool_use', id: 'toolu_1', name: 'look', input: { a: 1 } };
    const piece = { type: 'input_json_delta', partial_json: '{"a":1}' };
    const { sink } = read([
      begin,
      start(0, block),
      delta(0, piece),
      stop(0),
      end('tool_use'),
      over,
    ]);
    expect(sink.calls).toMatchObject([{ id: 'toolu_1', name: 'look', arguments: '{"a":1}' }]);
  });

  test('adds an ID to a call without one', () => {
    const block = { type: 'tool_use', id: '', name: 'look', input: {} };
    const { sink } = read([begin, start(0, block), stop(0), end('tool_use'), over]);
    expect(sink.calls[0]?.id).toMatch(/^toolu_\w{24}$/);
    expect(sink.calls[0]?.arguments).toBe('{}');
  });

  test('joins a signature that arrives in pieces', () => {
    const { sink } = read([
      begin,
      start(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'signature_delta', signature: 'ab' }),
      delta(0, { type: 'signature_delta', signature: 'cd' }),
      stop(0),
      end('end_turn'),
      over,
    ]);
    expect(sink.signatures).toEqual(['abcd']);
  });

  test('emits the character range of each citation, counted in code points', () => {
    const source = (url: string) => ({ type: 'web_search_result_location', url, title: url });
    const cited = (index: number, content: string, citation: object) => [
      start(index, { type: 'text', text: '' }),
      delta(index, { type: 'citations_delta', citation }),
      delta(index, { type: 'text_delta', text: content }),
      stop(index),
    ];
    const { sink } = read([
      begin,
      ...cited(0, 'Ruby 💎 ', source('https://a.example')),
      ...cited(1, 'is red', source('https://b.example')),
      ...cited(2, '.', { type: 'char_location', document_title: 'mine' }),
    ]);
    expect(sink.citations.map(({ url, range }) => [url, range?.start, range?.end])).toEqual([
      ['https://a.example', 0, 7],
      ['https://b.example', 7, 13],
    ]);
  });

  test('emits citations with their quotes for non-streaming answers too', () => {
    const sink = new RecordingSink();
    const citation = {
      ...{ type: 'web_search_result_location', url: 'https://a.example', title: 'A' },
      cited_text: 'Rubies are red.',
    };
    const content = [
      { type: 'text', text: 'It ' },
      { type: 'text', text: 'is red.', citations: [citation, null, { url: 'file:a' }] },
    ];
    const usage = { input_tokens: 3, output_tokens: 5 };
    const reply = { type: 'message', content, stop_reason: 'end_turn', usage };
    expect(readFullReply(JSON.stringify(reply), sink)).toBeUndefined();
    expect(sink.fullText).toBe('It is red.');
    expect(sink.citations).toEqual([
      {
        ...{ url: 'https://a.example', title: 'A', quote: 'Rubies are red.' },
        range: { start: 3, end: 10 },
      },
    ]);
  });

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['tool_calls', 'stop'],
    ['content_filter', 'content_filter'],
    ['something_new', 'stop'],
    ['constructor', 'stop'],
  ] as const)('reads the stop reason %s as %s', (stopReason, reason) => {
    expect(read([begin, end(stopReason), over]).sink.finishReason).toBe(reason);
  });

  test('reads end_turn after a call as tool_calls', () => {
    const block = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
    const { sink } = read([begin, start(0, block), stop(0), end('end_turn'), over]);
    expect(sink.finishReason).toBe('tool_calls');
  });

  test('accepts blocks without stop events', () => {
    const { sink } = read([
      begin,
      start(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'thinking_delta', thinking: 'Hm.' }),
      delta(0, { type: 'signature_delta', signature: 'sig' }),
      start(1, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }),
      end('tool_use'),
      over,
    ]);
    expect(sink.order).toEqual(['reasoning', 'signature', 'call', 'arguments', 'finish']);
    expect(sink.calls).toMatchObject([{ name: 'look', arguments: '{}' }]);
  });

  test('accepts a repeated message_start, but fails if there was output before it', () => {
    expect(read([begin, begin, ...text(0, 'Hi')]).failure).toBeUndefined();
    expect(read([begin, ...text(0, 'Hi'), begin]).failure?.kind).toBe('malformed');
  });

  test.each([
    ['invalid JSON', [begin, '{"type":']],
    ['a list', [begin, '[]']],
    ['a missing stop reason', [begin, end(null), over]],
  ] as const)('fails for %s', (_, events) => {
    const { failure, reader } = read(events);
    expect([failure?.kind, reader.finished]).toEqual(['malformed', false]);
  });

  test('reads an error that has no event name', () => {
    const error = { type: 'error', error: { type: 'rate_limit_error', message: 'Slow down' } };
    expect(read([begin, error]).failure).toMatchObject({
      kind: 'rate_limited',
      message: 'Slow down',
    });
  });
});

test.each([
  ['{"type":"error","error":{"type":"api_error","message":"Oops"}}', 'server'],
  ['{"type":"message","content":[]}', 'malformed'],
  ['{"type":"message","stop_reason":"end_turn"}', 'malformed'],
  ['<html>', 'malformed'],
] as const)('readFullReply returns a failure for %s', (reply, kind) => {
  expect(readFullReply(reply, new RecordingSink())?.kind).toBe(kind);
});
