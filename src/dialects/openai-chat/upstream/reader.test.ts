import { describe, expect, test } from 'bun:test';
import { RecordingSink } from '../../../../tests/support/recording-sink.ts';
import { identity } from '../../../../tests/support/reply-identity.ts';
import { noUsage } from '../../../core/usage.ts';
import { MeteringSink } from '../../normalize/responses/answer-metrics.ts';
import { OpenAiStreamWriter } from '../client/stream-writer.ts';
import { AnswerEmitter, OpenAiStreamReader, openAiUpstream } from './reader.ts';

test.each([
  ['length', 'length'],
  ['function_call', 'tool_calls'],
  ['constructor', 'stop'],
  ['__proto__', 'stop'],
  ['eos', 'stop'],
] as const)('OpenAiStreamReader emits the finish reason "%s" as %s', (reason, word) => {
  const sink = new RecordingSink();
  const emitter = new AnswerEmitter(sink);
  emitter.emit({ content: 'Hi' });
  emitter.finish(reason);
  expect(sink.finishReason).toBe(word);
});

test('OpenAiStreamReader waits for the terminator when content follows a finish reason', () => {
  const sink = new RecordingSink();
  const reader = new OpenAiStreamReader(sink);
  const push = (delta: object, finish_reason: string) =>
    reader.push({ event: null, data: JSON.stringify({ choices: [{ delta, finish_reason }] }) });
  for (const content of ['1', ' 2', ' 3']) push({ content }, 'length');
  push({ content: '' }, 'stop');
  expect([sink.fullText, sink.finishReason, reader.finished]).toEqual(['1 2 3', 'length', false]);
  reader.push({ event: null, data: '[DONE]' });
  expect(reader.finished).toBe(true);
});

test('OpenAiStreamReader is finished after a finish reason is repeated without content', () => {
  const sink = new RecordingSink();
  const reader = new OpenAiStreamReader(sink);
  const push = (delta: object) => {
    const choices = [{ index: 0, delta, finish_reason: 'tool_calls' }];
    reader.push({ event: null, data: JSON.stringify({ choices }) });
  };
  const call = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  push({ role: 'assistant', tool_calls: [call] });
  push({});
  expect(sink.calls).toMatchObject([{ id: 'a', name: 'f', arguments: '{}' }]);
  expect(reader.finished).toBe(true);
});

test.each([['{}'], ['']])(
  'OpenAiStreamReader reads "%s" next to a finish reason as a call without arguments',
  (json) => {
    const sink = new RecordingSink();
    const reader = new OpenAiStreamReader(sink);
    const call = { index: 0, id: 'a', function: { name: 'now', arguments: json } };
    const choices = [{ index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' }];
    reader.push({ event: null, data: JSON.stringify({ choices }) });
    reader.push({ event: null, data: '[DONE]' });
    expect(sink.calls).toMatchObject([{ id: 'a', name: 'now', arguments: '{}' }]);
    expect([sink.finishReason, reader.finished]).toEqual(['tool_calls', true]);
  },
);

test('OpenAiStreamReader does not end two calls whose pieces have finish reasons', () => {
  const sink = new RecordingSink();
  const reader = new OpenAiStreamReader(sink);
  const push = (index: number, extraFields: object, json: string) => {
    const call = { index, ...extraFields, function: { ...extraFields, arguments: json } };
    const choices = [{ index: 0, delta: { tool_calls: [call] }, finish_reason: 'stop' }];
    reader.push({ event: null, data: JSON.stringify({ choices }) });
  };
  push(0, { id: 'a', name: 'f' }, '');
  // The start of an object is held, but counts as content after the finish reason.
  push(0, {}, '{');
  expect(reader.finished).toBe(false);
  push(1, { id: 'b', name: 'g' }, '{');
  for (const json of ['"x":', '1', '}']) for (const index of [0, 1]) push(index, {}, json);
  reader.push({ event: null, data: '[DONE]' });
  expect(sink.calls.map((call) => call.arguments)).toEqual(['{"x":1}', '{"x":1}']);
  expect([sink.finishReason, reader.finished]).toEqual(['tool_calls', true]);
});

test('OpenAiStreamReader reads a stream with messages instead of deltas', () => {
  const sink = new RecordingSink();
  const reader = new OpenAiStreamReader(sink);
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } };
  const message = { role: 'assistant', content: 'Let me see.', tool_calls: [call] };
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
  reader.push({ event: null, data: JSON.stringify({ object: 'chat.completion', choices }) });
  expect([sink.fullText, sink.finishReason]).toEqual(['Let me see.', 'tool_calls']);
  expect(sink.calls).toMatchObject([{ id: 'a', name: 'f', arguments: '{"x":1}' }]);
});

test('OpenAiStreamReader reads an error event that is not JSON', () => {
  const reader = new OpenAiStreamReader(new RecordingSink());
  const failure = reader.push({ event: 'error', data: 'rate limit reached' });
  expect(failure).toMatchObject({ kind: 'server', message: 'rate limit reached' });
});

test('OpenAiStreamReader reads nothing after the terminator', () => {
  const sink = new RecordingSink();
  const reader = new OpenAiStreamReader(sink);
  const push = (data: unknown) => reader.push({ event: null, data: JSON.stringify(data) });
  const late = {
    choices: [{ index: 0, delta: { content: 'too late' } }],
    usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
  };
  push({ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] });
  reader.push({ event: null, data: '[DONE]' });
  expect([push('?'), push({ error: { message: 'no' } }), push(late)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(sink.fullText).toBe('Hi');
  expect(sink.lastUsage).toBeUndefined();
});

test('readFullReply separates calls that have the same index', () => {
  const sink = new RecordingSink();
  const call = (id: string, name: string, json: string) => ({
    ...{ index: 0, id, type: 'function' },
    function: { name, arguments: json },
  });
  const message = { content: null, tool_calls: [call('a', 'f', '{"x":1}'), call('b', 'g', '')] };
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
  expect(openAiUpstream.readReply(JSON.stringify({ choices }), sink)).toBeUndefined();
  expect(sink.calls.map(({ id, name, arguments: json }) => [id, name, json])).toEqual([
    ['a', 'f', '{"x":1}'],
    ['b', 'g', '{}'],
  ]);
});

test('readFullReply emits the choice with index 0, regardless of its position', () => {
  const sink = new RecordingSink();
  const choices = ['Zero', 'One'].map((content, index) => ({
    ...{ index, finish_reason: 'stop' },
    message: { role: 'assistant', content },
  }));
  openAiUpstream.readReply(JSON.stringify({ choices: choices.reverse() }), sink);
  expect(sink.fullText).toBe('Zero');
});

describe('AnswerEmitter with the function_call of an older server', () => {
  const only = { name: 'look', arguments: '{"a":1}' };

  test('emits its pieces as a tool call', () => {
    const sink = new RecordingSink();
    const reader = new OpenAiStreamReader(sink);
    const push = (delta: object, finish_reason: string | null) =>
      reader.push({ event: null, data: JSON.stringify({ choices: [{ delta, finish_reason }] }) });
    push(
      { role: 'assistant', content: null, function_call: { name: 'look', arguments: '' } },
      null,
    );
    for (const json of ['{"a"', ':1}']) push({ function_call: { arguments: json } }, null);
    push({}, 'function_call');
    expect(sink.calls).toMatchObject([{ id: expect.stringMatching(/^call_\w{24}$/), ...only }]);
    expect(sink.finishReason).toBe('tool_calls');
  });

  test('emits it as a tool call from a non-streaming response', () => {
    const sink = new RecordingSink();
    const message = { role: 'assistant', content: null, function_call: only };
    const choices = [{ index: 0, message, finish_reason: 'function_call' }];
    expect(openAiUpstream.readReply(JSON.stringify({ choices }), sink)).toBeUndefined();
    expect(sink.calls).toMatchObject([only]);
    expect(sink.finishReason).toBe('tool_calls');
  });
});

describe('AnswerEmitter with a free-form call', () => {
  const functionCall = { name: 'sql', arguments: '{"input":"SELECT 1"}' };

  test('emits it as a function call once its input is complete', () => {
    const sink = new RecordingSink();
    const reader = new OpenAiStreamReader(sink);
    const push = (delta: object, finish_reason: string | null) =>
      reader.push({ event: null, data: JSON.stringify({ choices: [{ delta, finish_reason }] }) });
    const call = { index: 0, id: 'call_1', type: 'custom', custom: { name: 'sql', input: '' } };
    push({ role: 'assistant', content: null, tool_calls: [call] }, null);
    for (const input of ['SELECT', ' 1'])
      push({ tool_calls: [{ index: 0, custom: { input } }] }, null);
    push({}, 'tool_calls');
    expect(sink.calls).toMatchObject([{ id: 'call_1', ...functionCall }]);
    expect(sink.finishReason).toBe('tool_calls');
  });

  test.each(['tool_calls', null])(
    'emits it as a function call from a reply with the finish reason %p',
    (reason) => {
      const sink = new RecordingSink();
      const call = { id: 'call_1', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } };
      const message = { role: 'assistant', content: null, tool_calls: [call] };
      const choices = [{ index: 0, message, finish_reason: reason }];
      const body = { choices, usage: { prompt_tokens: 10, completion_tokens: 9 } };
      const metering = new MeteringSink(sink);
      expect(openAiUpstream.readReply(JSON.stringify(body), metering)).toBeUndefined();
      expect(sink.calls).toMatchObject([{ id: 'call_1', ...functionCall }]);
      expect(sink.finishReason).toBe('tool_calls');
      // The usage is exact, even without a finish reason.
      expect([metering.metrics.usage?.outputTokens, metering.metrics.isEstimate]).toEqual([
        9,
        false,
      ]);
    },
  );
});

test('AnswerEmitter holds content between the pieces of a call up to a limit', () => {
  const sink = new RecordingSink();
  const emitter = new AnswerEmitter(sink);
  const fragment = (json: string) => ({
    tool_calls: [{ index: 0, function: { arguments: json } }],
  });
  emitter.emit({ tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '{' } }] });
  emitter.emit({ content: 'Hi' });
  expect(sink.fullText).toBe('');
  emitter.emit(fragment('}'));
  expect([sink.fullText, sink.order]).toEqual(['Hi', ['call', 'arguments', 'text']]);

  emitter.emit({ tool_calls: [{ index: 1, id: 'b', function: { name: 'f', arguments: '{' } }] });
  const piece = 'x'.repeat(1024 * 1024);
  for (let index = 0; index < 3; index += 1) emitter.emit({ content: piece });
  expect(sink.fullText).toBe('Hi');
  emitter.emit({ content: piece });
  expect(sink.fullText).toHaveLength(2 + 4 * 1024 * 1024);
});

test('OpenAiStreamWriter writes complete free-form input if each piece has a finish reason', () => {
  const customTools = new Set(['patch']);
  const writer = new OpenAiStreamWriter(identity, { includeUsage: false, customTools });
  const reader = new OpenAiStreamReader(writer);
  const opening = { id: 'a', type: 'function' };
  const pieces = ['', '{"inp', 'ut":"a b', '"}'].map((json, index) => ({
    ...(index === 0 ? opening : {}),
    index: 0,
    function: { ...(index === 0 ? { name: 'patch' } : {}), arguments: json },
  }));
  for (const piece of pieces) {
    const choices = [{ index: 0, delta: { tool_calls: [piece] }, finish_reason: 'stop' }];
    reader.push({ event: null, data: JSON.stringify({ choices }) });
  }
  reader.push({ event: null, data: '[DONE]' });
  const output = writer.take() + writer.close({ usage: noUsage, costCredits: 0 });
  expect(output.match(/"input":"[^"]*"/g)).toEqual(['"input":""', '"input":"a b"']);
  expect(output).toEndWith('"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n');
});

test('OpenAiStreamWriter writes the free-form input of every choice before its finish', () => {
  const customTools = new Set(['patch']);
  const options = { includeUsage: false, customTools, choices: 2 };
  const first = new OpenAiStreamWriter(identity, options);
  for (const [text, writer] of Object.entries({ a: first, b: first.choice(1) })) {
    writer?.toolCall(0, `call_${text}`, 'patch');
    writer?.toolArguments(0, `{"input":"${text}"}`);
    writer?.finish('tool_calls');
  }
  const output = first.take() + first.close({ usage: noUsage, costCredits: 0 });
  const ends = output.matchAll(/"index":(\d),"delta":(?:\{\}|.*"input":"(.)").*"finish_reason":/g);
  expect([...ends].map(([, index, text]) => [index, text])).toEqual([
    ...[
      ['0', 'a'],
      ['1', 'b'],
    ],
    ...[
      ['0', undefined],
      ['1', undefined],
    ],
  ]);
});

function emitted(message: object) {
  const answer = new RecordingSink();
  const choices = [{ index: 0, message, finish_reason: 'stop' }];
  expect(openAiUpstream.readReply(JSON.stringify({ choices }), answer)).toBeUndefined();
  return answer;
}

const imagePart = (url: unknown) => ({ type: 'image_url', image_url: { url } });

describe('readFullReply with a generated image', () => {
  test('emits it with its media type after the text', () => {
    const images = [
      imagePart('data:image/png;base64,iVBO'),
      imagePart('data:image/svg+xml;base64,PHN2'),
    ];
    const answer = emitted({ role: 'assistant', content: 'Here.', images });
    expect(answer.images).toEqual([
      { mediaType: 'image/png', base64: 'iVBO' },
      { mediaType: 'image/svg+xml', base64: 'PHN2' },
    ]);
    expect(answer.order.slice(0, 2)).toEqual(['text', 'image']);
  });

  test.each([
    null,
    'data:image/png;base64,iVBO',
    { type: 'image_url' },
    imagePart(7),
    imagePart(''),
    imagePart('file:///a.png'),
    imagePart('data:image/png;base64,'),
  ])('ignores %j', (image) => {
    const answer = emitted({ role: 'assistant', content: 'Here.', images: [image] });
    expect([answer.fullText, answer.images]).toEqual(['Here.', []]);
  });
});

test('readFullReply emits an image URL as a link for clients that accept only bytes', () => {
  const images = [imagePart('https://example.com/a (1).png')];
  const answer = emitted({ role: 'assistant', content: 'Here:', images });
  expect(answer.fullText).toBe('Here:\n![image](https://example.com/a%20%281%29.png)\n');
  expect(answer.images).toEqual([]);
});

test('readFullReply accepts a response without a finish reason if it has output', () => {
  const read = (message: object) => {
    const answer = new RecordingSink();
    const choices = [{ index: 0, message, finish_reason: null }];
    return [openAiUpstream.readReply(JSON.stringify({ choices }), answer), answer.fullText];
  };
  expect(read({ role: 'assistant', content: 'Hi' })).toEqual([undefined, 'Hi']);
  expect(read({ role: 'assistant', content: '' })).toMatchObject([{ kind: 'malformed' }, '']);
});

test('AnswerEmitter emits a call sent as both tool_calls and function_call once', () => {
  const f = { name: 'look', arguments: '{"a":1}' };
  const call = { index: 0, id: 'call_a', type: 'function', function: f };
  const both = emitted({ role: 'assistant', content: null, tool_calls: [call], function_call: f });
  expect(both.calls).toMatchObject([{ id: 'call_a', ...f }]);
  const older = emitted({ role: 'assistant', content: null, function_call: f });
  expect(older.calls).toMatchObject([f]);
});

describe('readFullReply with several reasoning blocks', () => {
  const signed = (text: string, signature: string) => ({ type: 'reasoning.text', text, signature });
  const encrypted = { type: 'reasoning.encrypted', data: 'zzz' };
  const details = [encrypted, signed('One.', 'a'), signed('Two.', 'b')];
  const order = ['redacted', 'reasoning', 'signature', 'reasoning', 'signature', 'text', 'finish'];

  test.each([{ reasoning: 'One.Two.' }, {}])('keeps the signature of each: %j', (fields) => {
    const answer = emitted({
      role: 'assistant',
      content: 'Hi',
      ...fields,
      reasoning_details: details,
    });
    expect(answer.order).toEqual(order);
    expect([answer.reasoningText, answer.signatures]).toEqual(['One.Two.', ['a', 'b']]);
  });

  test('emits them once if details and reasoning differ', () => {
    const reasoning = 'One and two.';
    const answer = emitted({
      role: 'assistant',
      content: 'Hi',
      reasoning,
      reasoning_details: details,
    });
    expect([answer.reasoningText, answer.signatures]).toEqual([reasoning, ['a', 'b']]);
  });
});
