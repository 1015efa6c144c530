import { expect, test } from 'bun:test';
import { noUsage } from '../../core/usage.ts';
import { OpenAiReplyWriter } from './client-reply.ts';

test('a whole answer from elsewhere has every field that clients check for', () => {
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
      { index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' },
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
