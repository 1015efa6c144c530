import { expect, test } from 'bun:test';
import { identity } from '../../../tests/support/reply-identity.ts';
import { hearEvents } from '../../../tests/support/told-answer.ts';
import { noUsage } from '../../core/usage.ts';
import { AnthropicPassThrough } from './pass-through.ts';
import { AnthropicStreamReader } from './reader.ts';

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
  const { told } = hearEvents((listener) => new AnthropicStreamReader(listener), events);
  expect([told.said, told.finishReason, told.isEstimate]).toEqual([
    'One more.',
    'tool_calls',
    false,
  ]);
  expect(told.calls).toMatchObject([{ id: 'toolu_1', name: 'look', arguments: '{"id":7}' }]);
  expect(told.lastUsage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
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
  expect(relay).toMatchObject({ finished: true, facts: { finishReason: 'tool_calls' } });
});
