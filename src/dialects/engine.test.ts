import { describe, expect, test } from 'bun:test';
import { question, says, targetOf } from '../../tests/support/question.ts';
import { valueIn } from '../../tests/support/read-result.ts';
import { ToldAnswer } from '../../tests/support/told-answer.ts';
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

test('the listener behind the tally hears which usage is an estimate', () => {
  const told = new ToldAnswer();
  const tally = new MeteringSink(told);
  tally.usage(noUsage, true);
  expect([told.isEstimate, tally.metrics.isEstimate]).toEqual([true, true]);
  tally.usage(noUsage);
  expect([told.isEstimate, tally.metrics.isEstimate]).toEqual([false, false]);
});

/** The basis of the bill for an answer that was cut. Counted words rule out a second attempt. */
test.each<[string, (to: MeteringSink) => void, number]>([
  ['words', (to) => to.text('Hello'), 5],
  ['thoughts', (to) => to.reasoning('Hmm'), 3],
  ['hidden thoughts', (to) => to.redactedReasoning('EncA'), 4],
  ['refusals', (to) => to.refusal('No.'), 3],
  ['the name of a call', (to) => to.toolCall(0, 'call_1', 'look'), 4],
  ['pictures, as bytes', (to) => to.image('image/png', 'iVBO'), 5_200],
  ['pictures, by their addresses', (to) => to.imageAt('https://a.example/b.png'), 5_200],
  ['a signature, which is nobody’s words', (to) => to.reasoningSignature('EqYC'), 0],
])('%s are counted, and begin an answer', (_, tell, characters) => {
  const tally = new MeteringSink(new ToldAnswer());
  expect([tally.started, tally.metrics.outputCharacters]).toEqual([false, 0]);
  tell(tally);
  expect([tally.started, tally.metrics.outputCharacters]).toEqual([true, characters]);
});

test('arguments count beside the name of their call, and a finish counts for nothing', () => {
  const tally = new MeteringSink(new ToldAnswer());
  tally.toolCall(0, 'call_1', 'look');
  tally.toolArguments(0, '{"a":1}');
  tally.finish('tool_calls', null);
  expect(tally.metrics).toMatchObject({ outputCharacters: 11, finishReason: 'tool_calls' });
});

const client = openAiClient({ includeUsage: false });

describe('a call that never gets a name', () => {
  const identity = { id: 'chatcmpl-1', model: 'acme/a', provider: 'acme', created: 1 };
  const called = { index: 0, id: 'call_1', type: 'function', function: { arguments: '{}' } };
  const choice = { index: 0, delta: { tool_calls: [called] }, finish_reason: 'tool_calls' };
  const events = [JSON.stringify({ choices: [choice] }), '[DONE]'];
  const message = { role: 'assistant', content: null, tool_calls: [called] };
  const whole = JSON.stringify({ choices: [{ ...choice, delta: undefined, message }] });

  const item = { type: 'function_call', call_id: 'call_1', arguments: '{"a":1}' };
  const response = { status: 'completed', output: [item] };
  const begun = { ...item, arguments: '' };
  const newer = [
    { type: 'response.output_item.added', output_index: 0, item: begun },
    { type: 'response.function_call_arguments.delta', output_index: 0, delta: '{"a":1}' },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response },
  ].map((event) => JSON.stringify(event));

  test.each([
    ['openai', events, whole],
    ['openai-responses', newer, JSON.stringify(response)],
  ] as const)('is no answer to clients of dialects other than %s', (dialect, stream, reply) => {
    const upstream = dialects[dialect].chat;
    if (!upstream) throw new Error(`There is no upstream dialect ${dialect}.`);
    const listener = anthropicClient({ inputTokensEstimate: 9 });
    const translation = new Translation(question({}), listener, upstream);
    const relay = translation.transformStream(identity);
    const hear = () => stream.map((data) => relay.push({ event: null, data }));
    expect(hear).toThrow(MalformedAnswer);
    expect(() => translation.transformReply(reply, identity)).toThrow(MalformedAnswer);
  });

  test('is not retold in the other form when it was passed on as it came', () => {
    const body = { model: 'acme/a', messages: [{ role: 'user', content: 'Hi' }] };
    const source = { text: '', bytes: new Uint8Array() };
    const conversation = openAiClientRequest(readChatRequest(body, source));
    const text = events.map((data) => `data: ${data}\n\n`).join('');
    const again = (form: 'stream' | 'whole', said: string) => {
      const recording = { form, text: said, dialect: 'openai', model: 'acme/a', provider: 'acme' };
      return replayRecording(recording, 'openai', identity, conversation);
    };
    expect(again('stream', text)).toBeUndefined();
    expect(again('whole', whole)).toBeUndefined();
    expect(again('stream', text.replace('{"arg', '{"name":"look","arg'))).toBeDefined();
  });
});

const call = { kind: 'tool_call', id: 'call_1', name: 'look', arguments: '{}' } as const;
const earlier: Prompt['turns'] = [says('Look.'), { role: 'assistant', parts: [call] }, says('So?')];

test('a picture by its address stays one for a client that hears an answer once more', () => {
  const upstream = dialects.openai.chat;
  if (!upstream) throw new Error('There is no upstream dialect openai.');
  const identity = { id: 'chatcmpl-1', model: 'acme/a', provider: 'acme', created: 1 };
  const closing = { usage: noUsage, costCredits: 0 };
  const translation = new Translation(question({}), client, upstream);
  const images = [{ type: 'image_url', image_url: { url: 'https://a.example/b.png' } }];
  const words = { role: 'assistant', content: 'Here:', images };
  const chunk = { choices: [{ index: 0, delta: words, finish_reason: 'stop' }] };
  const stream = `data: ${JSON.stringify(chunk)}\n\n`;
  const joined = valueIn(translation.replyFromStream(stream, identity));
  const { choices } = JSON.parse(joined.write(closing)) as { choices: unknown };
  expect(choices).toMatchObject([{ message: { content: 'Here:', images } }]);
  const whole = { choices: [{ index: 0, message: words, finish_reason: 'stop' }] };
  const streamed = valueIn(translation.streamReply(JSON.stringify(whole), identity));
  expect(streamed.opening).toContain('"image_url":{"url":"https://a.example/b.png"}');
  expect(streamed.opening).not.toContain('![');
});

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const)(
  'a tool that %s cannot be made to call, because there is none, is named as dropped',
  (name) => {
    const upstream = dialects[name].chat;
    if (!upstream) throw new Error(`There is no upstream dialect ${name}.`);
    const written = (change: Partial<Prompt>) => {
      const { body, dropped } = new Translation(question(change), client, upstream).write(
        targetOf(),
      );
      return { choice: /tool_?choice/i.test(String(body)), dropped };
    };
    const silent = { choice: false, dropped: ['tool_choice'] };
    expect(written({ toolChoice: 'required' })).toEqual(silent);
    expect(written({ toolChoice: { name: 'look' } })).toEqual(silent);
    // Bedrock is told of tools that were called earlier, whoever left them out.
    expect(written({ toolChoice: { name: 'look' }, turns: earlier })).toEqual(silent);
    for (const toolChoice of [null, 'auto', 'none'] as const) {
      expect(written({ toolChoice })).toEqual({ choice: false, dropped: [] });
    }
    const tools = [{ name: 'look', parameters: null }];
    expect(written({ toolChoice: { name: 'look' }, tools }).dropped).toEqual([]);
    // A tool that was never offered is refused by the upstream itself.
    const other = { toolChoice: { name: 'find' }, tools };
    expect(written(other).dropped).toEqual([]);
    const lost = written({ ...other, foreign: ['tools[1]'] });
    expect(lost).toEqual({ choice: false, dropped: ['tool_choice', 'tools[1]'] });
  },
);

test.each(['openai', 'openai-responses', 'anthropic', 'gemini', 'bedrock'] as const)(
  'a picture that was fetched goes to %s as its bytes, said or shown by a tool',
  (name) => {
    const upstream = dialects[name].chat;
    if (!upstream) throw new Error(`There is no upstream dialect ${name}.`);
    const image = (place: string) =>
      ({ kind: 'image', url: `https://a.example/${place}` }) as const;
    const result = { kind: 'tool_result', callId: 'call_1', isError: false } as const;
    const dialogue = question({
      turns: [
        { role: 'user', parts: [image('said')] },
        { role: 'assistant', parts: [call] },
        { role: 'user', parts: [{ ...result, parts: [image('shown')] }] },
      ],
    });
    const images = new Map([
      ['https://a.example/said', 'data:image/png;base64,U2FpZA=='],
      ['https://a.example/shown', 'data:image/png;base64,U2hvd24='],
    ]);
    const { body } = new Translation(dialogue, client, upstream).write(targetOf({ images }));
    expect(String(body)).not.toContain('a.example');
    for (const bytes of ['U2FpZA==', 'U2hvd24=']) expect(String(body)).toContain(bytes);
  },
);
