import { expect, test } from 'bun:test';
import { waitingArgumentsMax } from '../../core/bounds.ts';
import type { AnthropicEvent } from './block-order.ts';
import { SoundBlocks } from './sound-blocks.ts';

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
  const blocks = new SoundBlocks();
  const told = events.flatMap((event) => (blocks.passes(event) ? [event] : blocks.mend(event)));
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
  expect(waitingArgumentsMax).toBe(4 * 1024 * 1024);
  const blocks = new SoundBlocks();
  blocks.mend(start(0, call));
  const told = Array.from({ length: 5 }, () => blocks.mend(says(0, piece)).length);
  // The end of the call, then a text of its own with all that waited.
  expect(told).toEqual([0, 0, 0, 0, 1 + 1 + 5 + 1]);
});
