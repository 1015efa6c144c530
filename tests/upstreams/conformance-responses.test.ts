/** Recorded answers from OpenAI's Responses endpoint, translated for every client. */
import { describe, expect, test } from 'bun:test';
import { responsesUpstream } from '../../src/dialects/responses/upstream/reader.ts';
import { type FullResponse, streamOf } from '../support/response-events.ts';
import {
  expectStream,
  expectTranslated,
  messagesOf,
  readExpectations,
  readFixture,
  readMessages,
  testRecordings,
} from '../support/upstream-conformance.ts';

testRecordings('openai-responses', responsesUpstream, {
  streams: 13,
  broken: 3,
  replies: 4,
  errors: 2,
});

test("the Responses reader uses a call's call_id, not its item ID", () => {
  const stream = streamOf(JSON.parse(readFixture('openai/responses-tool.json')) as FullResponse);
  const { sink } = readMessages(responsesUpstream, messagesOf(stream));
  expect(sink.calls.map(({ id }) => id)).toEqual(['call_TRB1jnZxAdUJcnUg2vJEBejG']);
});

test('the Responses reader emits citation ranges relative to the full text', () => {
  const raw = readFixture('openai/responses-web-search-stream.sse');
  const { sink } = readMessages(responsesUpstream, messagesOf(raw));
  const [source, ...more] = sink.citations;
  expect(more).toEqual([]);
  expect(source).toMatchObject({ url: 'https://ruby.example/4', range: { start: 13, end: 19 } });
  expect(sink.fullText.slice(13, 19)).toBe('Ruby 4');
});

test('the Responses reader emits a refusal once, and not as text', () => {
  const raw = readFixture('openai/responses-refusal-stream.sse');
  const { sink, finished } = readMessages(responsesUpstream, messagesOf(raw));
  expect([sink.refusalText, sink.fullText, finished]).toEqual(["I'm sorry, I can't.", '', true]);
});

test('the Responses reader reports the first error of a stream', () => {
  const messages = messagesOf(readFixture('openai/responses-error-stream.sse'));
  expect(readMessages(responsesUpstream, messages).failure?.kind).toBe('quota');
});

/** Streams made from recorded non-streaming answers, because no complete stream was recorded. */
describe('a Responses stream made from the answer in', () => {
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
      path: 'an answer with reasoning, text, and two calls',
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

  test.each(cases)(
    '$path is read byte by byte and is not complete if it is truncated',
    (recording) => {
      const stream = streamOf(JSON.parse(recording.raw) as FullResponse);
      expectStream(responsesUpstream, stream, recording.expected);
    },
  );

  test.each(cases)('$path reaches every client', ({ raw, expected }) => {
    expectTranslated(responsesUpstream, streamOf(JSON.parse(raw) as FullResponse), expected);
  });
});
