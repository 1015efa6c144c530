import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../../tests/support/read-result.ts';
import { noUsage } from '../../../core/usage.ts';
import type { ReplyOptions } from '../client/reply-writer.ts';
import { readReply } from './reply.ts';

const identity = { id: 'chatcmpl-ours', model: 'acme/large', provider: 'acme', created: 1_800 };
const settled = { usage: { ...noUsage, inputTokens: 2, outputTokens: 3 }, costCredits: 11 };

function read(body: unknown, options?: ReplyOptions) {
  return readReply(typeof body === 'string' ? body : JSON.stringify(body), identity, options);
}

/** Reads a response that must be usable. */
function replyOf(body: unknown, options?: ReplyOptions) {
  return valueIn(read(body, options));
}

function written(body: unknown, options?: ReplyOptions): Record<string, unknown> {
  return JSON.parse(replyOf(body, options).write(settled)) as Record<string, unknown>;
}

const answer = (message: object | undefined, reason: string | null = 'stop', extraFields = {}) => ({
  ...{ id: 'theirs', object: 'chat.completion', created: 1, model: 'gpt-up' },
  choices: [{ index: 0, message, finish_reason: reason }],
  ...extraFields,
});

test("readReply writes the gateway's identity and settled usage and keeps all other fields", () => {
  const message = { role: 'assistant', content: 'Hi', annotations: [{ a: 1 }] };
  const noise = { service_tier: 'default', provider: 'Other', request_id: 'r', prompt: ['p'] };
  const usage = { prompt_tokens: 90, completion_tokens: 9 };
  expect(written(answer(message, 'stop', { ...noise, usage }))).toEqual({
    ...{ id: 'chatcmpl-ours', object: 'chat.completion', created: 1_800, model: 'acme/large' },
    provider: 'acme',
    service_tier: 'default',
    system_fingerprint: null,
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: {
      ...{ prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, cost: 11 },
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  });
});

test("readReply reports the upstream's output details next to the settled usage", () => {
  const counts = { accepted_prediction_tokens: 2, audio_tokens: 3 };
  const none = { note: 'x', audio: null, deep: { tokens: 1 }, less: -1, half: 0.5 };
  // No detail may exceed the 3 output tokens that were settled.
  const details = { ...counts, ...none, reasoning_tokens: 7, rejected_prediction_tokens: 4 };
  const usageFor = (prompt_tokens: number) => {
    const usage = { prompt_tokens, completion_tokens: 9, completion_tokens_details: details };
    return written(answer({ content: 'Hi' }, 'stop', { usage })).usage;
  };
  const name = 'completion_tokens_details';
  expect(usageFor(90)).toHaveProperty(name, { ...counts, reasoning_tokens: 0 });
  // Details of an impossible report are dropped.
  expect(usageFor(-1)).toHaveProperty(name, { reasoning_tokens: 0 });
});

test('readReply keeps a function_call for clients that send functions', () => {
  const message = {
    role: 'assistant',
    content: null,
    function_call: { name: 'f', arguments: '{}' },
  };
  const reply = answer(message, 'function_call');
  const options = { usesLegacyFunctions: true };
  expect(written(reply, options).choices).toEqual(reply.choices);
  expect(replyOf(reply, options).metrics).toMatchObject({
    finishReason: 'function_call',
    outputCharacters: 3,
  });
});

test('readReply reads a delta as the message when a server responds with a chunk', () => {
  const delta = { role: 'assistant', content: 'Hi' };
  const reply = { ...answer(undefined), choices: [{ index: 0, delta, finish_reason: 'stop' }] };
  expect(written(reply).choices).toEqual([{ index: 0, message: delta, finish_reason: 'stop' }]);
});

test("readReply records the upstream's metrics", () => {
  const tool = { id: 'a', type: 'function', function: { name: 'fn', arguments: '{}' } };
  const message = { content: 'Hi', reasoning_content: 'hm', refusal: null, tool_calls: [tool] };
  const usage = { prompt_tokens: 90, completion_tokens: 9 };
  expect(replyOf(answer(message, 'stop', { usage })).metrics).toEqual({
    usage: { ...noUsage, inputTokens: 90, outputTokens: 9 },
    isEstimate: false,
    finishReason: 'tool_calls',
    outputCharacters: 2 + 2 + 2 + 2,
    failure: undefined,
  });
  expect(replyOf(answer({ content: 'Hi' }, null)).metrics).toMatchObject({
    usage: undefined,
    finishReason: 'stop',
  });
});

test("readReply counts all choices and records the first one's finish reason", () => {
  const choice = (index: unknown, content: string, reason: string | null) => ({
    ...{ logprobs: null, finish_reason: reason },
    ...{ message: { role: 'assistant', content }, index },
  });
  const choices = [
    choice(1, 'four', 'length'),
    'noise',
    choice(0, 'me', 'content_filter'),
    choice(0, '', 'stop'),
  ];
  const body = { ...answer(undefined), choices };
  expect(replyOf(body).metrics).toMatchObject({
    ...{ finishReason: 'content_filter', outputCharacters: 6 },
  });
  expect(written(body).choices).toEqual([choices[0], choices[2], choices[3]]);
  const nameless = [choice(-1, 'a', 'stop'), choice('x', 'b', 'length')];
  const normalized = replyOf({ ...body, choices: nameless });
  expect(normalized.metrics).toMatchObject({ finishReason: 'stop', outputCharacters: 2 });
  expect(JSON.parse(normalized.write(settled)).choices).toMatchObject([{ index: 0 }, { index: 1 }]);
});

describe('readReply', () => {
  const newId = expect.stringMatching(/^call_[0-9a-z]{24}$/);
  const tool = (id: unknown, args: unknown) => ({ id, function: { name: 'f', arguments: args } });
  const cases: Record<string, [object | undefined, object]> = {
    'adds a missing message': [undefined, { role: 'assistant', content: '' }],
    'sets missing content to null': [{}, { role: 'assistant', content: null }],
    'drops empty tool calls': [
      { content: 'a', tool_calls: [] },
      { role: 'assistant', content: 'a' },
    ],
    'adds reasoning next to reasoning_content': [
      { content: 'a', reasoning_content: 'hm' },
      { role: 'assistant', content: 'a', reasoning_content: 'hm', reasoning: 'hm' },
    ],
    'splits content parts': [
      {
        content: [
          { type: 'thinking', thinking: 'hm' },
          { type: 'text', text: 'a' },
        ],
      },
      { role: 'assistant', content: 'a', reasoning: 'hm' },
    ],
    'adds IDs, types, and string arguments to tool calls': [
      { content: null, tool_calls: [tool('', { a: 1 }), tool('b', '{}')] },
      {
        ...{ role: 'assistant', content: null },
        tool_calls: [
          { ...tool(newId, '{"a":1}'), type: 'function' },
          { ...tool('b', '{}'), type: 'function' },
        ],
      },
    ],
    'accepts a call that is not in a list': [
      { content: null, tool_calls: tool('a', '{}') },
      {
        ...{ role: 'assistant', content: null },
        tool_calls: [{ ...tool('a', '{}'), type: 'function' }],
      },
    ],
    'gives calls with the same ID separate IDs': [
      { content: null, tool_calls: [tool('0', '{}'), tool('0', '{}')] },
      {
        ...{ role: 'assistant', content: null },
        tool_calls: [
          { ...tool('0', '{}'), type: 'function' },
          { ...tool(newId, '{}'), type: 'function' },
        ],
      },
    ],
  };
  test.each(Object.entries(cases))('%s', (_, [raw, message]) => {
    expect(written(answer(raw, 'length')).choices).toEqual([
      { index: 0, message, finish_reason: 'length' },
    ]);
  });
});

test("readReply preserves integers that exceed a float's precision", () => {
  const body = JSON.stringify(answer({ content: 'a' }, 'stop', { seed: 'SEED' }));
  const text = replyOf(body.replace('"SEED"', '12345678901234567890')).write(settled);
  expect(text).toContain('"seed":12345678901234567890,');
});

describe('readReply', () => {
  const cases: Record<string, [unknown, object]> = {
    'an error with status 200': [
      { error: { code: 'content_filter', message: 'Filtered.', status: 400 } },
      { kind: 'request', status: 400, message: 'Filtered.' },
    ],
    'a web page': ['<html><title>Sign in</title></html>', { kind: 'malformed', status: null }],
    'a truncated body': [
      JSON.stringify(answer({ content: 'a' })).slice(0, -5),
      { kind: 'malformed' },
    ],
    'an empty body': ['', { kind: 'malformed' }],
    'a string': ['"hello"', { kind: 'malformed' }],
    'an object without choices': [{ id: 'x' }, { kind: 'malformed' }],
    'an empty list of choices': [{ choices: [] }, { kind: 'malformed' }],
    'a choice without output or a finish reason': [
      answer({ content: '' }, null),
      { kind: 'malformed' },
    ],
    'a choice that finished with an error': [answer({ content: 'a' }, 'error'), { kind: 'server' }],
    'excessive nesting': [
      `{"choices":[{"message":{"content":"a"},"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}`,
      { kind: 'malformed' },
    ],
  };
  test.each(Object.entries(cases))('returns a failure for %s', (_, [body, failure]) => {
    expect(failureIn(read(body))).toMatchObject(failure);
  });

  test('accepts an empty choice with a finish reason', () => {
    expect(written(answer({ content: '' }, 'stop')).choices).toMatchObject([{ index: 0 }]);
  });
});

test('readReply completes missing arguments of calls unless the answer was cut off', () => {
  const bare = (body: object) => ({ id: 'a', type: 'function', function: { name: 'f', ...body } });
  const callIn = (body: object, reason: string) => {
    const { choices } = written(answer({ tool_calls: [bare(body)] }, reason));
    const [{ message }] = choices as [{ message: { tool_calls: unknown[] } }];
    return message.tool_calls[0];
  };
  for (const body of [{}, { arguments: '' }, { arguments: null }]) {
    expect(callIn(body, 'stop')).toEqual(bare({ arguments: '{}' }));
  }
  expect(callIn({ arguments: '' }, 'length')).toEqual(bare({ arguments: '' }));
});
