import { expect, test } from 'bun:test';
import { noUsage } from '../../../core/usage.ts';
import { OpenAiReplyWriter } from './reply-writer.ts';

test('OpenAiReplyWriter writes every field that clients validate', () => {
  const identity = {
    id: 'chatcmpl-1',
    model: 'acme/large',
    provider: 'a',
    created: 1_800_000_000,
  };
  const reply = new OpenAiReplyWriter(identity, {});
  reply.text('Hello');
  reply.finish('stop');
  const usage = { ...noUsage, inputTokens: 2, outputTokens: 1 };
  expect(JSON.parse(reply.write({ usage, costCredits: 3 }))).toEqual({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_800_000_000,
    model: 'acme/large',
    provider: 'a',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    system_fingerprint: null,
    usage: {
      prompt_tokens: 2,
      completion_tokens: 1,
      total_tokens: 3,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
      cost: 3,
    },
  });
});

test('OpenAiReplyWriter writes null content next to a refusal', () => {
  const reply = new OpenAiReplyWriter({ id: 'a', model: 'b/c', provider: 'b', created: 1 }, {});
  reply.refusal('I cannot ');
  reply.refusal('do that.');
  reply.finish('stop');
  expect(JSON.parse(reply.write({ usage: noUsage, costCredits: 0 })).choices).toEqual([
    {
      index: 0,
      message: { role: 'assistant', content: null, refusal: 'I cannot do that.' },
      logprobs: null,
      finish_reason: 'stop',
    },
  ]);
});

test('OpenAiReplyWriter writes an empty object for a call without arguments', () => {
  const reply = new OpenAiReplyWriter({ id: 'a', model: 'b/c', provider: 'b', created: 1 }, {});
  reply.toolCall(0, 'call_1', 'now');
  reply.finish('tool_calls');
  expect(JSON.parse(reply.write({ usage: noUsage, costCredits: 0 })).choices[0].message).toEqual({
    role: 'assistant',
    content: null,
    refusal: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'now', arguments: '{}' } }],
  });
});

test('OpenAiReplyWriter writes each reasoning block with its own signature', () => {
  const reply = new OpenAiReplyWriter({ id: 'a', model: 'b/c', provider: 'b', created: 1 }, {});
  reply.reasoning('One, ');
  reply.reasoning('two.');
  reply.reasoningSignature('s1');
  reply.redactedReasoning('hidden');
  reply.reasoning('Three.');
  reply.reasoningSignature('s2');
  reply.text('So.');
  reply.finish('stop');
  const { message } = JSON.parse(reply.write({ usage: noUsage, costCredits: 0 })).choices[0];
  expect(message).toMatchObject({
    content: 'So.',
    reasoning: 'One, two.Three.',
    reasoning_details: [
      { type: 'reasoning.text', index: 0, text: 'One, two.', signature: 's1' },
      { type: 'reasoning.encrypted', index: 1, data: 'hidden' },
      { type: 'reasoning.text', index: 2, text: 'Three.', signature: 's2' },
    ],
  });
});
