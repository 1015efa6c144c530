import { describe, expect, test } from 'bun:test';
import { identity } from '../../../tests/support/reply-identity.ts';
import { readEvents } from '../../../tests/support/recording-sink.ts';
import { bufferedArgumentsMax } from '../../core/bounds.ts';
import { noUsage } from '../../core/usage.ts';
import { type AnthropicEvent, BlockNormalizer, BlockOrder } from './block-events.ts';
import { AnthropicPassThrough } from './same/stream.ts';
import { AnthropicStreamReader } from './upstream/reader.ts';

const event = (kind: 'start' | 'delta' | 'stop', index: number, data = '') => ({
  fields: { type: `content_block_${kind}`, index },
  data,
});
type Told = ReturnType<typeof event>;

/** The numbers of the blocks whose events are told after each given event. */
function runOrder(
  events: readonly Told[],
  order = new BlockOrder(),
): readonly (readonly unknown[])[] {
  return events.map((one) => {
    const now = order.defers(one) ? [] : [one];
    return [...now, ...order.due()].map(({ fields }) => fields.index);
  });
}

describe('the events of blocks', () => {
  test('pass as they come, one block after the other', () => {
    const events = [0, 1].flatMap((index) => [
      event('start', index),
      event('delta', index),
      event('stop', index),
    ]);
    expect(runOrder(events)).toEqual([[0], [0], [0], [1], [1], [1]]);
  });

  test('wait until the block before theirs has ended', () => {
    const events = [
      ...[event('start', 0), event('start', 1), event('start', 2), event('delta', 1)],
      ...[event('stop', 2), event('delta', 0), event('stop', 0), event('delta', 1)],
      event('stop', 1),
    ];
    expect(runOrder(events)).toEqual([[0], [], [], [], [], [0], [0, 1, 1], [1], [1, 2, 2]]);
  });

  test('do not wait for a block that has long been silent: its end was left out', () => {
    const silent = Array.from({ length: 16 }, () => event('delta', 1));
    const told = runOrder([event('start', 0), ...silent, event('delta', 1)]);
    expect(told.map((now) => now.length)).toEqual([1, ...Array(15).fill(0), 16, 1]);
  });

  test('wait as long as the other block goes on, but not without bound', () => {
    const order = new BlockOrder();
    const piece = 'x'.repeat(1024 * 1024);
    const turn = [event('delta', 0), event('delta', 1, piece)];
    const turns = Array.from({ length: 5 }, () => turn).flat();
    const waited = runOrder([event('start', 0), ...turns], order).flat();
    expect(bufferedArgumentsMax).toBe(4 * 1024 * 1024);
    expect(waited.filter((index) => index === 1)).toHaveLength(5);
  });

  test('wait as long as the other block goes on, however often both take turns', () => {
    const turns = Array.from({ length: 40 }, () => [event('delta', 1), event('delta', 0)]).flat();
    const told = runOrder([event('start', 0), ...turns, event('stop', 0)]);
    expect(told.slice(0, -1).flat()).toEqual(Array(41).fill(0));
    expect(told.at(-1)).toEqual([0, ...Array(40).fill(1)]);
  });

  test('are all told at the end', () => {
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
const says = (index: number, text: string) => delta(index, { type: 'text_delta', text });

/** All that is told of these events. */
function tell(events: readonly AnthropicEvent[]): readonly AnthropicEvent[] {
  const blocks = new BlockNormalizer();
  const told = events.flatMap((event) =>
    blocks.passes(event) ? [event] : blocks.normalize(event),
  );
  return [...told, ...blocks.end()];
}

test('what is sound is told as it came, to the letter', () => {
  const events = [
    ...[start(0, { type: 'text', text: '' }), says(0, 'Hi'), says(0, ' you'), stop(0)],
    ...[start(1, call), delta(1, { type: 'input_json_delta', partial_json: '{}' }), stop(1)],
    ...[start(2, { type: 'new', more: 1 }), delta(2, { type: 'new_delta', more: 2 }), stop(2)],
    ...[start(3, { type: 'text', text: '' }), delta(3, { type: 'new_delta' }), stop(3)],
  ];
  const told = tell(events);
  expect(told.map(({ data }) => data)).toEqual(events.map(({ data }) => data));
  for (const [at, event] of events.entries()) expect(told[at]).toBe(event);
});

test('a call that is started again with every piece is one, also where it has no id', () => {
  const nameless = { type: 'tool_use', name: 'look', input: {} };
  const piece = (json: string) => delta(0, { type: 'input_json_delta', partial_json: json });
  const told = tell([
    ...[start(0, { ...nameless }), piece('{"a":'), start(0, { ...nameless }), piece('1}'), stop(0)],
    ...[start(1, { ...nameless }), piece('{}'), stop(1)],
  ]);
  const blocks = told.filter(({ fields }) => fields.type === 'content_block_start');
  const ids = blocks.map(({ data }) => /"id":"(toolu_\w{24})"/.exec(data)?.[1] ?? '');
  expect([blocks.length, new Set(ids).size, ids.includes('')]).toEqual([2, 2, false]);
});

test('words inside a call wait for its end, but not without bound', () => {
  const piece = 'x'.repeat(1024 * 1024);
  expect(bufferedArgumentsMax).toBe(4 * 1024 * 1024);
  const blocks = new BlockNormalizer();
  blocks.normalize(start(0, call));
  const told = Array.from({ length: 5 }, () => blocks.normalize(says(0, piece)).length);
  // The end of the call, then a text of its own with all that waited.
  expect(told).toEqual([0, 0, 0, 0, 1 + 1 + 5 + 1]);
});

/** Anthropic's answer when a program that runs there continues and calls tools. */
const events = [
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

test('an answer that stands in its opening is told', () => {
  const { sink } = readEvents((sink) => new AnthropicStreamReader(sink), events);
  expect([sink.fullText, sink.finishReason, sink.isEstimate]).toEqual([
    'One more.',
    'tool_calls',
    false,
  ]);
  expect(sink.calls).toMatchObject([{ id: 'toolu_1', name: 'look', arguments: '{"id":7}' }]);
  expect(sink.lastUsage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
});

test('an empty block in an opening is not told: the block itself follows', () => {
  const relay = new AnthropicPassThrough(identity, 9);
  const empty = { ...events[0]?.message, content: [{ type: 'text', text: '' }], stop_reason: null };
  const data = JSON.stringify({ type: 'message_start', message: empty });
  const said = relay.push({ event: 'message_start', data });
  expect(said).toContain('"content":[],"stop_reason":null');
  expect(said).not.toContain('content_block_start');
});

test('an answer that stands in its opening passes in the usual events', () => {
  const relay = new AnthropicPassThrough(identity, 9);
  const said = events.map((fields) =>
    relay.push({ event: fields.type, data: JSON.stringify(fields) }),
  );
  const types = said.join('').match(/(?<=^event: ).+$/gm);
  // The input of the call comes in a delta, too: many clients read it only there.
  const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
  expect(types).toEqual(['message_start', ...block, ...block]);
  expect(said.join('')).toContain('"content":[],"stop_reason":null');
  const end = relay.close({ usage: noUsage, costCredits: 0 });
  expect(end).toContain('"stop_reason":"tool_use"');
  expect(relay).toMatchObject({ finished: true, metrics: { finishReason: 'tool_calls' } });
});
