import { describe, expect, test } from 'bun:test';
import { readEvents } from '../../../tests/support/recording-sink.ts';
import { identity } from '../../../tests/support/reply-identity.ts';
import { bufferedArgumentsMax } from '../../core/bounds.ts';
import { noUsage } from '../../core/usage.ts';
import { type AnthropicEvent, BlockNormalizer, BlockOrder } from './block-events.ts';
import { AnthropicPassThrough } from './passthrough/stream.ts';
import { AnthropicStreamReader } from './upstream/reader.ts';

const event = (kind: 'start' | 'delta' | 'stop', index: number, data = '') => ({
  fields: { type: `content_block_${kind}`, index },
  data,
});
type BlockEvent = ReturnType<typeof event>;

/** Returns, for each pushed event, the block indexes of the events that are sent. */
function runOrder(
  events: readonly BlockEvent[],
  order = new BlockOrder(),
): readonly (readonly unknown[])[] {
  return events.map((event) => {
    const now = order.defers(event) ? [] : [event];
    return [...now, ...order.due()].map(({ fields }) => fields.index);
  });
}

describe('BlockOrder', () => {
  test('passes ordered blocks through immediately', () => {
    const events = [0, 1].flatMap((index) => [
      event('start', index),
      event('delta', index),
      event('stop', index),
    ]);
    expect(runOrder(events)).toEqual([[0], [0], [0], [1], [1], [1]]);
  });

  test('delays the events of a block until the previous block ends', () => {
    const events = [
      ...[event('start', 0), event('start', 1), event('start', 2), event('delta', 1)],
      ...[event('stop', 2), event('delta', 0), event('stop', 0), event('delta', 1)],
      event('stop', 1),
    ];
    expect(runOrder(events)).toEqual([[0], [], [], [], [], [0], [0, 1, 1], [1], [1, 2, 2]]);
  });

  test('releases waiting blocks once the open block has been idle for 16 events', () => {
    const others = Array.from({ length: 16 }, () => event('delta', 1));
    const sent = runOrder([event('start', 0), ...others, event('delta', 1)]);
    expect(sent.map((now) => now.length)).toEqual([1, ...Array(15).fill(0), 16, 1]);
  });

  test('releases waiting blocks when they exceed the buffer limit', () => {
    const order = new BlockOrder();
    const piece = 'x'.repeat(1024 * 1024);
    const turn = [event('delta', 0), event('delta', 1, piece)];
    const turns = Array.from({ length: 5 }, () => turn).flat();
    const sent = runOrder([event('start', 0), ...turns], order).flat();
    expect(bufferedArgumentsMax).toBe(4 * 1024 * 1024);
    expect(sent.filter((index) => index === 1)).toHaveLength(5);
  });

  test('keeps a block waiting while the open block continues, however often they alternate', () => {
    const turns = Array.from({ length: 40 }, () => [event('delta', 1), event('delta', 0)]).flat();
    const sent = runOrder([event('start', 0), ...turns, event('stop', 0)]);
    expect(sent.slice(0, -1).flat()).toEqual(Array(41).fill(0));
    expect(sent.at(-1)).toEqual([0, ...Array(40).fill(1)]);
  });

  test('releases all waiting events at the end', () => {
    const order = new BlockOrder();
    runOrder([event('start', 0), event('start', 1), event('start', 2)], order);
    expect(order.due(true).map(({ fields }) => fields.index)).toEqual([1, 2]);
    expect(order.due(true)).toEqual([]);
  });
});

const eventOf = (fields: Record<string, unknown>): AnthropicEvent => ({
  fields,
  data: JSON.stringify(fields),
});
const start = (index: number, content_block: object) =>
  eventOf({ type: 'content_block_start', index, content_block });
const delta = (index: number, fields: object) =>
  eventOf({ type: 'content_block_delta', index, delta: fields });
const stop = (index: number) => eventOf({ type: 'content_block_stop', index });
const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
const textDelta = (index: number, text: string) => delta(index, { type: 'text_delta', text });

/** Returns everything that is sent for these events. */
function normalize(events: readonly AnthropicEvent[]): readonly AnthropicEvent[] {
  const blocks = new BlockNormalizer();
  const sent = events.flatMap((event) =>
    blocks.passes(event) ? [event] : blocks.normalize(event),
  );
  return [...sent, ...blocks.end()];
}

test('BlockNormalizer passes valid events through unchanged', () => {
  const events = [
    ...[start(0, { type: 'text', text: '' }), textDelta(0, 'Hi'), textDelta(0, ' you'), stop(0)],
    ...[start(1, call), delta(1, { type: 'input_json_delta', partial_json: '{}' }), stop(1)],
    ...[
      start(2, { type: 'new', extraFields: 1 }),
      delta(2, { type: 'new_delta', extraFields: 2 }),
      stop(2),
    ],
    ...[start(3, { type: 'text', text: '' }), delta(3, { type: 'new_delta' }), stop(3)],
  ];
  const sent = normalize(events);
  expect(sent.map(({ data }) => data)).toEqual(events.map(({ data }) => data));
  for (const [index, event] of events.entries()) expect(sent[index]).toBe(event);
});

test('BlockNormalizer merges a call whose start event is repeated, even without an ID', () => {
  const nameless = { type: 'tool_use', name: 'look', input: {} };
  const piece = (json: string) => delta(0, { type: 'input_json_delta', partial_json: json });
  const sent = normalize([
    ...[start(0, { ...nameless }), piece('{"a":'), start(0, { ...nameless }), piece('1}'), stop(0)],
    ...[start(1, { ...nameless }), piece('{}'), stop(1)],
  ]);
  const blocks = sent.filter(({ fields }) => fields.type === 'content_block_start');
  const ids = blocks.map(({ data }) => /"id":"(toolu_\w{24})"/.exec(data)?.[1] ?? '');
  expect([blocks.length, new Set(ids).size, ids.includes('')]).toEqual([2, 2, false]);
});

test('BlockNormalizer delays text inside a call until the call ends or the buffer is full', () => {
  const piece = 'x'.repeat(1024 * 1024);
  expect(bufferedArgumentsMax).toBe(4 * 1024 * 1024);
  const blocks = new BlockNormalizer();
  blocks.normalize(start(0, call));
  const sent = Array.from({ length: 5 }, () => blocks.normalize(textDelta(0, piece)).length);
  // The end of the call, then a separate text block with all 5 deltas that waited.
  expect(sent).toEqual([0, 0, 0, 0, 1 + 1 + 5 + 1]);
});

/** Anthropic's answer when its code execution continues and calls tools. */
const fullStartEvents = [
  {
    type: 'message_start',
    message: {
      id: 'msg_up',
      type: 'message',
      role: 'assistant',
      model: 'claude-up',
      content: [
        { type: 'text', text: 'One more.' },
        { type: 'tool_use', id: 'toolu_1', name: 'look', input: { id: 7 } },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 0, output_tokens: 0, server_tool_use: { web_search_requests: 0 } },
    },
  },
  { type: 'message_stop' },
];

test('AnthropicStreamReader reads an answer whose content is all in message_start', () => {
  const { sink } = readEvents((sink) => new AnthropicStreamReader(sink), fullStartEvents);
  expect([sink.fullText, sink.finishReason, sink.isEstimate]).toEqual([
    'One more.',
    'tool_calls',
    false,
  ]);
  expect(sink.calls).toMatchObject([{ id: 'toolu_1', name: 'look', arguments: '{"id":7}' }]);
  expect(sink.lastUsage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
});

test('AnthropicPassThrough drops an empty block in message_start', () => {
  const relay = new AnthropicPassThrough(identity, 9);
  const emptyBlock = { content: [{ type: 'text', text: '' }], stop_reason: null };
  const message = { ...fullStartEvents[0]?.message, ...emptyBlock };
  const data = JSON.stringify({ type: 'message_start', message });
  const output = relay.push({ event: 'message_start', data });
  expect(output).toContain('"content":[],"stop_reason":null');
  expect(output).not.toContain('content_block_start');
});

test('AnthropicPassThrough splits the content of message_start into block events', () => {
  const relay = new AnthropicPassThrough(identity, 9);
  const output = fullStartEvents.map((fields) =>
    relay.push({ event: fields.type, data: JSON.stringify(fields) }),
  );
  const types = output.join('').match(/(?<=^event: ).+$/gm);
  // The call's input arrives in a delta, because many clients read input only from deltas.
  const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
  expect(types).toEqual(['message_start', ...block, ...block]);
  expect(output.join('')).toContain('"content":[],"stop_reason":null');
  const end = relay.close({ usage: noUsage, costCredits: 0 });
  expect(end).toContain('"stop_reason":"tool_use"');
  expect(relay).toMatchObject({ finished: true, metrics: { finishReason: 'tool_calls' } });
});
