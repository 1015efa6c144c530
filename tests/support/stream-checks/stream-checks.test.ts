import { describe, expect, test } from 'bun:test';
import { checkAnthropicStream, checkOpenAiStream } from '../stream-checks.ts';

const event = (type: string, fields: object = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const usage = { input_tokens: 3, output_tokens: 1 };
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'acme/large',
  content: [],
  stop_reason: null,
  usage,
};
const begin = event('message_start', { message });
const start = (index: number, content_block: object) =>
  event('content_block_start', { index, content_block });
const delta = (index: number, fields: object) =>
  event('content_block_delta', { index, delta: fields });
const stop = (index: number) => event('content_block_stop', { index });
const end = (stop_reason = 'end_turn') =>
  event('message_delta', { delta: { stop_reason, stop_sequence: null }, usage });
const over = event('message_stop');
const text = (index: number) =>
  start(index, { type: 'text', text: '' }) + delta(index, { type: 'text_delta', text: 'Hi' });
const tool = (index: number, json: string) =>
  start(index, { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }) +
  delta(index, { type: 'input_json_delta', partial_json: json }) +
  stop(index);

describe('checkAnthropicStream', () => {
  test('reads a valid stream', () => {
    const blocks = text(0) + stop(0) + tool(1, '{"a":1}');
    const seen = checkAnthropicStream(
      `: soon\n\n${begin}${event('ping')}${blocks}${end('tool_use')}${over}`,
    );
    expect(seen).toMatchObject({
      ended: 'complete',
      id: 'msg_1',
      text: 'Hi',
      tools: [{ id: 'toolu_1', name: 'look', input: { a: 1 } }],
      stopReason: 'tool_use',
      pings: 1,
    });
  });

  test('distinguishes truncated and failed streams from complete ones', () => {
    expect(checkAnthropicStream(begin + text(0)).ended).toBe('truncated');
    const failed = begin + text(0) + event('error', { error: { type: 'api_error', message: 'x' } });
    expect(checkAnthropicStream(failed).ended).toBe('error');
  });

  const bad: Readonly<Record<string, string>> = {
    'an event before message_start': event('ping') + begin,
    'a second message_start': begin + begin,
    'a delta without a block': begin + delta(0, { type: 'text_delta', text: 'Hi' }),
    'a block that starts in an open block': begin + text(0) + text(1),
    'an index with a gap': begin + text(1),
    'an empty text block': begin + start(0, { type: 'text', text: '' }) + stop(0),
    'thinking inside text': begin + text(0) + delta(0, { type: 'thinking_delta', thinking: 'h' }),
    'a stop for a block that is not open': begin + text(0) + stop(1),
    'an end while a block is open': begin + text(0) + end(),
    'input that is not JSON': begin + tool(0, '{"a":') + end('tool_use'),
    'tool_use as the stop reason without a tool call': begin + text(0) + stop(0) + end('tool_use'),
    'message_stop without message_delta': begin + over,
    'an event after the end': begin + end() + over + event('ping'),
    'an event after an error': `${event('error', { error: { type: 'a', message: 'b' } })}${begin}`,
    'an unknown stop reason': begin + end('because'),
    'an event name that differs from its type': begin.replace(
      'event: message_start',
      'event: ping',
    ),
    'a [DONE] event': `${begin}${end()}${over}data: [DONE]\n\n`,
    'an incomplete event': begin.slice(0, -1),
  };
  test.each(Object.entries(bad))('rejects %s', (_, stream) => {
    expect(() => checkAnthropicStream(stream)).toThrow();
  });
});

const chunk = (fields: object) =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    model: 'acme/large',
    ...fields,
  })}\n\n`;
const choiceChunk = (fields: object, finish_reason: string | null = null) =>
  chunk({ choices: [{ index: 0, delta: fields, finish_reason }] });
const call = (fields: object) => choiceChunk({ tool_calls: [fields] });
const opening = { index: 0, id: 'c1', type: 'function', function: { name: 'look', arguments: '' } };
const counted = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const done = 'data: [DONE]\n\n';
const failed = `data: ${JSON.stringify({ error: { message: 'x' } })}\n\n`;

describe('checkOpenAiStream', () => {
  test('reads a valid stream', () => {
    const seen = checkOpenAiStream(
      choiceChunk({ role: 'assistant', content: 'Hi' }) +
        call(opening) +
        call({ index: 0, function: { arguments: '{}' } }) +
        choiceChunk({}, 'tool_calls') +
        chunk({ choices: [], usage: counted }) +
        done,
    );
    expect(seen).toMatchObject({
      ended: 'complete',
      text: 'Hi',
      tools: [{ id: 'c1', name: 'look', json: '{}' }],
      finishReason: 'tool_calls',
      usage: counted,
    });
  });

  const bad: Readonly<Record<string, string>> = {
    '[DONE] without a finish reason': choiceChunk({ content: 'Hi' }) + done,
    'content after the finish reason': choiceChunk({}, 'stop') + choiceChunk({ content: 'Hi' }),
    'a second [DONE]': choiceChunk({}, 'stop') + done + done,
    'usage in a chunk with choices': chunk({ choices: [{ index: 0, delta: {} }], usage: counted }),
    'usage before the finish reason':
      choiceChunk({ content: 'Hi' }) + chunk({ choices: [], usage: counted }),
    'a call without a name': call({ ...opening, function: { arguments: '' } }),
    'a call index with a gap': call({ ...opening, index: 1 }),
    'arguments that are not JSON': call(opening) + choiceChunk({}, 'tool_calls') + done,
    'an ID that changes': choiceChunk({ content: 'Hi' }) + chunk({ id: 'chatcmpl-2', choices: [] }),
    'a role other than assistant': choiceChunk({ role: 'tool' }),
    'an event with a name': `event: a\n${choiceChunk({ content: 'Hi' })}`,
    '[DONE] after an error': failed + done,
    'an error with the fields of a chunk': chunk({ error: { message: 'x' }, choices: [] }),
  };
  test.each(Object.entries(bad))('rejects %s', (_, stream) => {
    expect(() => checkOpenAiStream(stream)).toThrow();
  });
});
