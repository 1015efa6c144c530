import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget, userTurn } from '../../tests/support/prompts.ts';
import { valueIn } from '../../tests/support/read-result.ts';
import { RecordingSink } from '../../tests/support/recording-sink.ts';
import type { Prompt } from '../core/prompt.ts';
import { noUsage } from '../core/usage.ts';
import { anthropicClient } from './anthropic/client-request.ts';
import { replayRecording, Translation } from './engine.ts';
import { MalformedAnswer } from './failure.ts';
import { MeteringSink } from './normalize/responses/answer-metrics.ts';
import { readChatRequest } from './openai-chat/client/request.ts';
import { openAiClient } from './openai-chat/client/stream-writer.ts';
import { openAiClientRequest } from './openai-chat/client-request.ts';
import { dialects } from './registry.ts';

test('MeteringSink forwards whether usage is an estimate', () => {
  const answer = new RecordingSink();
  const metering = new MeteringSink(answer);
  metering.usage(noUsage, true);
  expect([answer.isEstimate, metering.metrics.isEstimate]).toEqual([true, true]);
  metering.usage(noUsage);
  expect([answer.isEstimate, metering.metrics.isEstimate]).toEqual([false, false]);
});

/**
 * Interrupted answers are billed by these characters. After any output, a request isn't retried.
 */
test.each<[string, (to: MeteringSink) => void, number]>([
  ['text', (to) => to.text('Hello'), 5],
  ['reasoning', (to) => to.reasoning('Hmm'), 3],
  ['encrypted reasoning', (to) => to.redactedReasoning('EncA'), 4],
  ['a refusal', (to) => to.refusal('No.'), 3],
  ['the name of a call', (to) => to.toolCall(0, 'call_1', 'look'), 4],
  ['an image as bytes', (to) => to.image('image/png', 'iVBO'), 5_200],
  ['an image by URL', (to) => to.imageAt('https://a.example/b.png'), 5_200],
  ['a signature, which has no content', (to) => to.reasoningSignature('EqYC'), 0],
])(
  'MeteringSink counts the characters of %s and marks the answer as started',
  (_, emit, characters) => {
    const metering = new MeteringSink(new RecordingSink());
    expect([metering.started, metering.metrics.outputCharacters]).toEqual([false, 0]);
    emit(metering);
    expect([metering.started, metering.metrics.outputCharacters]).toEqual([true, characters]);
  },
);

test('MeteringSink counts call names and arguments but not the finish reason', () => {
  const metering = new MeteringSink(new RecordingSink());
  metering.toolCall(0, 'call_1', 'look');
  metering.toolArguments(0, '{"a":1}');
  metering.finish('tool_calls', null);
  expect(metering.metrics).toMatchObject({ outputCharacters: 11, finishReason: 'tool_calls' });
});

const client = openAiClient({ includeUsage: false });

describe('Translation of a tool call without a name', () => {
  const identity = { id: 'chatcmpl-1', model: 'acme/a', provider: 'acme', created: 1 };
  const namelessCall = { index: 0, id: 'call_1', type: 'function', function: { arguments: '{}' } };
  const choice = { index: 0, delta: { tool_calls: [namelessCall] }, finish_reason: 'tool_calls' };
  const events = [JSON.stringify({ choices: [choice] }), '[DONE]'];
  const message = { role: 'assistant', content: null, tool_calls: [namelessCall] };
  const replyText = JSON.stringify({ choices: [{ ...choice, delta: undefined, message }] });

  const item = { type: 'function_call', call_id: 'call_1', arguments: '{"a":1}' };
  const response = { status: 'completed', output: [item] };
  const startedItem = { ...item, arguments: '' };
  const responsesEvents = [
    { type: 'response.output_item.added', output_index: 0, item: startedItem },
    { type: 'response.function_call_arguments.delta', output_index: 0, delta: '{"a":1}' },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response },
  ].map((event) => JSON.stringify(event));

  test.each([
    ['openai', events, replyText],
    ['openai-responses', responsesEvents, JSON.stringify(response)],
  ] as const)(
    'throws MalformedAnswer for an answer in the %s dialect',
    (dialect, stream, reply) => {
      const upstream = dialects[dialect].chat;
      if (!upstream) throw new Error(`There is no upstream dialect ${dialect}.`);
      const anthropic = anthropicClient({ inputTokensEstimate: 9 });
      const translation = new Translation(makePrompt({}), anthropic, upstream);
      const transform = translation.transformStream(identity);
      const pushAll = () => stream.map((data) => transform.push({ event: null, data }));
      expect(pushAll).toThrow(MalformedAnswer);
      expect(() => translation.transformReply(reply, identity)).toThrow(MalformedAnswer);
    },
  );

  test('does not replay a recorded stream as a non-streaming response, or the reverse', () => {
    const body = { model: 'acme/a', messages: [{ role: 'user', content: 'Hi' }] };
    const source = { text: '', bytes: new Uint8Array() };
    const clientRequest = openAiClientRequest(readChatRequest(body, source));
    const streamText = events.map((data) => `data: ${data}\n\n`).join('');
    const replay = (form: 'stream' | 'reply', text: string) => {
      const recording = { form, text, dialect: 'openai', model: 'acme/a', provider: 'acme' };
      return replayRecording(recording, 'openai', identity, clientRequest);
    };
    expect(replay('stream', streamText)).toBeUndefined();
    expect(replay('reply', replyText)).toBeUndefined();
    expect(replay('stream', streamText.replace('{"arg', '{"name":"look","arg'))).toBeDefined();
  });
});

const call = { kind: 'tool_call', id: 'call_1', name: 'look', arguments: '{}' } as const;
const earlier: Prompt['turns'] = [
  userTurn('Look.'),
  { role: 'assistant', parts: [call] },
  userTurn('So?'),
];

test('Translation keeps image URLs when it converts streams to full responses and back', () => {
  const upstream = dialects.openai.chat;
  if (!upstream) throw new Error('There is no upstream dialect openai.');
  const identity = { id: 'chatcmpl-1', model: 'acme/a', provider: 'acme', created: 1 };
  const closing = { usage: noUsage, costCredits: 0 };
  const translation = new Translation(makePrompt({}), client, upstream);
  const images = [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }];
  const message = { role: 'assistant', content: 'Here:', images };
  const chunk = { choices: [{ index: 0, delta: message, finish_reason: 'stop' }] };
  const stream = `data: ${JSON.stringify(chunk)}\n\n`;
  const reply = valueIn(translation.replyFromStream(stream, identity));
  const { choices } = JSON.parse(reply.write(closing)) as { choices: unknown };
  expect(choices).toMatchObject([{ message: { content: 'Here:', images } }]);
  const body = { choices: [{ index: 0, message, finish_reason: 'stop' }] };
  const streamed = valueIn(translation.streamReply(JSON.stringify(body), identity));
  expect(streamed.opening).toContain('"image_url":{"url":"https://a.example/b.png"}');
  expect(streamed.opening).not.toContain('![');
});

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const)(
  'Translation to %s drops and reports a tool_choice for a missing tool',
  (name) => {
    const upstream = dialects[name].chat;
    if (!upstream) throw new Error(`There is no upstream dialect ${name}.`);
    const written = (change: Partial<Prompt>) => {
      const { body, dropped } = new Translation(makePrompt(change), client, upstream).write(
        makeTarget(),
      );
      return { choice: /tool_?choice/i.test(String(body)), dropped };
    };
    const expected = { choice: false, dropped: ['tool_choice'] };
    expect(written({ toolChoice: 'required' })).toEqual(expected);
    expect(written({ toolChoice: { name: 'look' } })).toEqual(expected);
    // Bedrock gets the tools of earlier calls, even if the client sent none.
    expect(written({ toolChoice: { name: 'look' }, turns: earlier })).toEqual(expected);
    for (const toolChoice of [null, 'auto', 'none'] as const) {
      expect(written({ toolChoice })).toEqual({ choice: false, dropped: [] });
    }
    const tools = [{ name: 'look', parameters: null }];
    expect(written({ toolChoice: { name: 'look' }, tools }).dropped).toEqual([]);
    // A choice of a tool that the client never offered is sent. The upstream rejects it.
    const other = { toolChoice: { name: 'find' }, tools };
    expect(written(other).dropped).toEqual([]);
    const missing = written({ ...other, unsupported: ['tools[1]'] });
    expect(missing).toEqual({ choice: false, dropped: ['tool_choice', 'tools[1]'] });
  },
);

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const)(
  'Translation to %s sends fetched images as bytes, in messages and tool results',
  (name) => {
    const upstream = dialects[name].chat;
    if (!upstream) throw new Error(`There is no upstream dialect ${name}.`);
    const image = (name: string) => ({ kind: 'image', url: `https://a.example/${name}` }) as const;
    const result = { kind: 'tool_result', callId: 'call_1', isError: false } as const;
    const prompt = makePrompt({
      turns: [
        { role: 'user', parts: [image('message')] },
        { role: 'assistant', parts: [call] },
        { role: 'user', parts: [{ ...result, parts: [image('result')] }] },
      ],
    });
    const images = new Map([
      ['https://a.example/message', 'data:image/png;base64,U2FpZA=='],
      ['https://a.example/result', 'data:image/png;base64,U2hvd24='],
    ]);
    const { body } = new Translation(prompt, client, upstream).write(makeTarget({ images }));
    expect(String(body)).not.toContain('a.example');
    for (const bytes of ['U2FpZA==', 'U2hvd24=']) expect(String(body)).toContain(bytes);
  },
);
