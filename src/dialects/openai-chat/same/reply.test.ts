import { describe, expect, test } from 'bun:test';
import { failureIn, valueIn } from '../../../../tests/support/read-result.ts';
import { noUsage } from '../../../core/usage.ts';
import type { ReplyOptions } from '../client/stream-writer.ts';
import { readReply } from './reply.ts';

const identity = { id: 'chatcmpl-ours', model: 'acme/large', provider: 'acme', created: 1_800 };
const settled = { usage: { ...noUsage, inputTokens: 2, outputTokens: 3 }, costCredits: 11 };

function read(body: unknown, options?: ReplyOptions) {
  return readReply(typeof body === 'string' ? body : JSON.stringify(body), identity, options);
}

/** The relay of an answer that must be usable. */
function relayOf(body: unknown, options?: ReplyOptions) {
  return valueIn(read(body, options));
}

function written(body: unknown, options?: ReplyOptions): Record<string, unknown> {
  return JSON.parse(relayOf(body, options).write(settled)) as Record<string, unknown>;
}

const answer = (message: object | undefined, reason: string | null = 'stop', more = {}) => ({
  ...{ id: 'theirs', object: 'chat.completion', created: 1, model: 'gpt-up' },
  choices: [{ index: 0, message, finish_reason: reason }],
  ...more,
});

test('an answer is shown under our names with the settled usage, the rest as it came', () => {
  const message = { role: 'assistant', content: 'Hi', annotations: [{ a: 1 }] };
  const noise = { service_tier: 'default', provider: 'Other', request_id: 'r', prompt: ['p'] };
  const usage = { prompt_tokens: 90, completion_tokens: 9 };
  expect(written(answer(message, 'stop', { ...noise, usage }))).toEqual({
    ...{ id: 'chatcmpl-ours', object: 'chat.completion', created: 1_800, model: 'acme/large' },
    provider: 'acme',
    service_tier: 'default',
    choices: [{ index: 0, message, finish_reason: 'stop' }],
    usage: {
      ...{ prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, cost: 11 },
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  });
});

test('what else it counts in its output is told beside the settled usage', () => {
  const counts = { accepted_prediction_tokens: 2, audio_tokens: 3 };
  const none = { note: 'x', audio: null, deep: { tokens: 1 }, less: -1, half: 0.5 };
  // Of three tokens that were settled, no more than three can be anything.
  const details = { ...counts, ...none, reasoning_tokens: 7, rejected_prediction_tokens: 4 };
  const toldOf = (prompt_tokens: number) => {
    const usage = { prompt_tokens, completion_tokens: 9, completion_tokens_details: details };
    return written(answer({ content: 'Hi' }, 'stop', { usage })).usage;
  };
  const name = 'completion_tokens_details';
  expect(toldOf(90)).toHaveProperty(name, { ...counts, reasoning_tokens: 0 });
  // Of a report that is not believed, no detail is passed on.
  expect(toldOf(-1)).toHaveProperty(name, { reasoning_tokens: 0 });
});

test('the one function of older servers stays what it is, for those who asked for it', () => {
  const message = {
    role: 'assistant',
    content: null,
    function_call: { name: 'f', arguments: '{}' },
  };
  const given = answer(message, 'function_call');
  const older = { usesLegacyFunctions: true };
  expect(written(given, older).choices).toEqual(given.choices);
  expect(relayOf(given, older).metrics).toMatchObject({
    finishReason: 'function_call',
    outputCharacters: 3,
  });
});

test('a delta stands for the message, where a server answers with a chunk', () => {
  const delta = { role: 'assistant', content: 'Hi' };
  const given = { ...answer(undefined), choices: [{ index: 0, delta, finish_reason: 'stop' }] };
  expect(written(given).choices).toEqual([{ index: 0, message: delta, finish_reason: 'stop' }]);
});

test('the facts are what the upstream said', () => {
  const tool = { id: 'a', type: 'function', function: { name: 'fn', arguments: '{}' } };
  const message = { content: 'Hi', reasoning_content: 'hm', refusal: null, tool_calls: [tool] };
  const usage = { prompt_tokens: 90, completion_tokens: 9 };
  expect(relayOf(answer(message, 'stop', { usage })).metrics).toEqual({
    usage: { ...noUsage, inputTokens: 90, outputTokens: 9 },
    isEstimate: false,
    finishReason: 'tool_calls',
    outputCharacters: 2 + 2 + 2 + 2,
    failure: undefined,
  });
  expect(relayOf(answer({ content: 'Hi' }, null)).metrics).toMatchObject({
    usage: undefined,
    finishReason: undefined,
  });
});

test('of several choices the first counts for the log, and all are counted', () => {
  const choice = (index: unknown, content: string, reason: string | null) => ({
    ...{ logprobs: null, finish_reason: reason },
    ...{ message: { role: 'assistant', content }, index },
  });
  const given = [
    choice(1, 'four', 'length'),
    'noise',
    choice(0, 'me', null),
    choice(0, '', 'stop'),
  ];
  const body = { ...answer(undefined), choices: given };
  expect(relayOf(body).metrics).toMatchObject({ finishReason: undefined, outputCharacters: 6 });
  expect(written(body).choices).toEqual([given[0], given[2], given[3]]);
  const nameless = [choice(-1, 'a', 'stop'), choice('x', 'b', 'length')];
  const normalized = relayOf({ ...body, choices: nameless });
  expect(normalized.metrics).toMatchObject({ finishReason: 'stop', outputCharacters: 2 });
  expect(JSON.parse(normalized.write(settled)).choices).toMatchObject([{ index: 0 }, { index: 1 }]);
});

describe('a message is mended:', () => {
  const newId = expect.stringMatching(/^call_[0-9a-z]{24}$/);
  const tool = (id: unknown, args: unknown) => ({ id, function: { name: 'f', arguments: args } });
  const cases: Record<string, [object | undefined, object]> = {
    'none at all becomes an empty one': [undefined, { role: 'assistant', content: '' }],
    'missing content is null': [{}, { role: 'assistant', content: null }],
    'empty tool calls are none': [
      { content: 'a', tool_calls: [] },
      { role: 'assistant', content: 'a' },
    ],
    'reasoning has our name beside its own': [
      { content: 'a', reasoning_content: 'hm' },
      { role: 'assistant', content: 'a', reasoning_content: 'hm', reasoning: 'hm' },
    ],
    'parts are split': [
      {
        content: [
          { type: 'thinking', thinking: 'hm' },
          { type: 'text', text: 'a' },
        ],
      },
      { role: 'assistant', content: 'a', reasoning: 'hm' },
    ],
    'tool calls get ids, types and textual arguments': [
      { content: null, tool_calls: [tool('', { a: 1 }), tool('b', '{}')] },
      {
        ...{ role: 'assistant', content: null },
        tool_calls: [
          { ...tool(newId, '{"a":1}'), type: 'function' },
          { ...tool('b', '{}'), type: 'function' },
        ],
      },
    ],
    'a call in no list is one': [
      { content: null, tool_calls: tool('a', '{}') },
      {
        ...{ role: 'assistant', content: null },
        tool_calls: [{ ...tool('a', '{}'), type: 'function' }],
      },
    ],
    'tool calls under one id get their own': [
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
  test.each(Object.entries(cases))('%s', (_, [given, message]) => {
    expect(written(answer(given, 'length')).choices).toEqual([
      { index: 0, message, finish_reason: 'length' },
    ]);
  });
});

test('integers beyond what a float holds survive', () => {
  const body = JSON.stringify(answer({ content: 'a' }, 'stop', { seed: 'SEED' }));
  const text = relayOf(body.replace('"SEED"', '12345678901234567890')).write(settled);
  expect(text).toContain('"seed":12345678901234567890,');
});

describe('no answer is', () => {
  const cases: Record<string, [unknown, object]> = {
    'an error of status 200': [
      { error: { code: 'content_filter', message: 'Filtered.', status: 400 } },
      { kind: 'request', status: 400, message: 'Filtered.' },
    ],
    'a page': ['<html><title>Sign in</title></html>', { kind: 'malformed', status: null }],
    'a body that was cut': [
      JSON.stringify(answer({ content: 'a' })).slice(0, -5),
      { kind: 'malformed' },
    ],
    'an empty body': ['', { kind: 'malformed' }],
    'a bare text': ['"hello"', { kind: 'malformed' }],
    'an object without choices': [{ id: 'x' }, { kind: 'malformed' }],
    'an empty list of choices': [{ choices: [] }, { kind: 'malformed' }],
    'a choice without output or end': [answer({ content: '' }, null), { kind: 'malformed' }],
    'a choice that ended in error': [answer({ content: 'a' }, 'error'), { kind: 'server' }],
    'nesting beyond reason': [
      `{"choices":[{"message":{"content":"a"},"x":${'['.repeat(200_000)}${']'.repeat(200_000)}}]}`,
      { kind: 'malformed' },
    ],
  };
  test.each(Object.entries(cases))('%s', (_, [body, failure]) => {
    expect(failureIn(read(body))).toMatchObject(failure);
  });

  test('but an empty one with a finish reason is', () => {
    expect(written(answer({ content: '' }, 'stop')).choices).toMatchObject([{ index: 0 }]);
  });
});

test('calls get the arguments that nobody can parse as none, unless the answer was cut', () => {
  const bare = (body: object) => ({ id: 'a', type: 'function', function: { name: 'f', ...body } });
  const shown = (body: object, reason: string) => {
    const { choices } = written(answer({ tool_calls: [bare(body)] }, reason));
    const [{ message }] = choices as [{ message: { tool_calls: unknown[] } }];
    return message.tool_calls[0];
  };
  for (const body of [{}, { arguments: '' }, { arguments: null }]) {
    expect(shown(body, 'stop')).toEqual(bare({ arguments: '{}' }));
  }
  expect(shown({ arguments: '' }, 'length')).toEqual(bare({ arguments: '' }));
});
