/** Recorded answers of the Responses endpoint, in our words and through clients of both kinds. */
import { describe, expect, test } from 'bun:test';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { streamOf, type WholeResponse } from '../support/response-events.ts';
import {
  testRecordings,
  expectTranslated,
  expectStream,
  readMessages,
  messagesOf,
  readExpectations,
  readFixture,
} from '../support/upstream-conformance.ts';

testRecordings('openai-responses', responsesUpstream, {
  streams: 13,
  broken: 3,
  replies: 4,
  errors: 2,
});

test('the id of a call is its call_id, not that of its item', () => {
  const stream = streamOf(JSON.parse(readFixture('openai/responses-tool.json')) as WholeResponse);
  const { sink } = readMessages(responsesUpstream, messagesOf(stream));
  expect(sink.calls.map(({ id }) => id)).toEqual(['call_TRB1jnZxAdUJcnUg2vJEBejG']);
});

test('a source stands behind the words of its own message, whatever came before it', () => {
  const raw = readFixture('openai/responses-web-search-stream.sse');
  const { sink } = readMessages(responsesUpstream, messagesOf(raw));
  const [source, ...more] = sink.citations;
  expect(more).toEqual([]);
  expect(source).toMatchObject({ url: 'https://ruby.example/4', range: { start: 13, end: 19 } });
  expect(sink.fullText.slice(13, 19)).toBe('Ruby 4');
});

test('a refusal is told as one, once', () => {
  const raw = readFixture('openai/responses-refusal-stream.sse');
  const { sink, finished } = readMessages(responsesUpstream, messagesOf(raw));
  expect([sink.refusalText, sink.fullText, finished]).toEqual(["I'm sorry, I can't.", '', true]);
});

test('the first error of a stream counts, with the kind that its code says', () => {
  const messages = messagesOf(readFixture('openai/responses-error-stream.sse'));
  expect(readMessages(responsesUpstream, messages).failure?.kind).toBe('quota');
});

/** No stream of a whole answer was recorded: they are made of whole answers. */
describe('a streamed answer', () => {
  const thinking = {
    id: 'resp_thinking',
    model: 'gpt-thinking-2026',
    status: 'completed',
    error: null,
    output: [
      {
        type: 'reasoning',
        id: 'rs_thinking',
        encrypted_content: 'gAAAA',
        summary: [{ text: 'Where is it?' }, { text: 'In two places — Ålesund 🌧 and Oslo.' }],
      },
      { type: 'message', id: 'msg_a', content: [{ type: 'output_text', text: 'Let me look.' }] },
      {
        type: 'function_call',
        id: 'fc_a',
        call_id: 'call_aaaaaa',
        name: 'w',
        arguments: '{"at":"Å"}',
      },
      { type: 'function_call', id: 'fc_b', call_id: 'call_bbbbbb', name: 'now', arguments: '{}' },
    ],
    usage: {
      input_tokens: 50,
      input_tokens_details: { cached_tokens: 32 },
      output_tokens: 40,
      output_tokens_details: { reasoning_tokens: 25 },
      total_tokens: 90,
    },
  };
  const cases = [
    ...readExpectations('openai-responses')
      .filter(({ expected }) => !expected.stream)
      .map(({ path, expected }) => ({ path, raw: readFixture(path), expected })),
    {
      path: 'thoughts, text and two calls',
      raw: JSON.stringify(thinking),
      expected: {
        dialect: 'openai-responses',
        kind: 'chat' as const,
        stream: true,
        text: 'Let me look.',
        reasoning: 'Where is it?\n\nIn two places — Ålesund 🌧 and Oslo.',
        tool_calls: [
          { name: 'w', arguments: { at: 'Å' } },
          { name: 'now', arguments: {} },
        ],
        openai: {
          finish_reason: 'tool_calls',
          usage: {
            prompt_tokens: 50,
            completion_tokens: 40,
            total_tokens: 90,
            cached_tokens: 32,
            reasoning_tokens: 25,
          },
        },
        anthropic: { stop_reason: 'tool_use' },
      },
    },
  ];

  test.each(cases)('$path is told whole, byte by byte, and never complete when cut', (one) => {
    const stream = streamOf(JSON.parse(one.raw) as WholeResponse);
    expectStream(responsesUpstream, stream, one.expected);
  });

  test.each(cases)('$path reaches clients of both kinds', ({ raw, expected }) => {
    expectTranslated(responsesUpstream, streamOf(JSON.parse(raw) as WholeResponse), expected);
  });
});
