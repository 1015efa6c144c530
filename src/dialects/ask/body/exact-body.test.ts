import { describe, expect, test } from 'bun:test';
import { targetOf } from '../../../../tests/support/question.ts';
import type { DialectName } from '../../../config/provider-schema.ts';
import { anthropicConversation } from '../../anthropic/conversation.ts';
import { readMessagesRequest } from '../../anthropic/messages-request.ts';
import type { Conversation } from '../../dialect.ts';
import { readChatRequest } from '../../openai/chat-request.ts';
import { openAiConversation } from '../../openai/conversation.ts';
import { responsesConversation } from '../../responses/conversation.ts';
import { readResponsesRequest } from '../../responses/request.ts';

/** The largest of 64 bits, and an id: neither is a float. */
const [most, id] = ['9223372036854775807', '12345678901234567890'];
const upstreams: readonly DialectName[] = ['openai', 'anthropic', 'gemini', 'openai-responses'];

function sourceOf(text: string) {
  return { text, bytes: new TextEncoder().encode(text) };
}

const chat = (text: string) =>
  openAiConversation(readChatRequest(JSON.parse(text), sourceOf(text)));
const messages = (text: string) =>
  anthropicConversation(readMessagesRequest(JSON.parse(text), sourceOf(text)), new Headers());
const responses = (text: string) =>
  responsesConversation(readResponsesRequest(JSON.parse(text), sourceOf(text)));

function written(conversation: Conversation, dialect: DialectName): string {
  return String(conversation.crossTo(dialect)?.write(targetOf({})).body);
}

const schema = `{"type":"object","properties":{"n":{"type":"integer","maximum":${most}}}}`;
const question = '"messages":[{"role":"user","content":"Hi"}]';

describe.each(upstreams)('for an upstream that speaks %s', (dialect) => {
  const tool = `[{"type":"function","function":{"name":"f","parameters":${schema}}}]`;

  // Where the model does not stand first, the whole body is written again.
  test.each([
    ['a chat', chat(`{${question},"tools":${tool},"model":"a/b"}`)],
    [
      'an older chat',
      chat(`{${question},"functions":[{"name":"f","parameters":${schema}}]
      ,"model":"a/b"}`),
    ],
    ['a chat with input', chat(`{"input":"Hi","tools":${tool},"model":"a/b"}`)],
    [
      'a chat with skills',
      chat(`{"model":"a/b",${question},"tools":${tool}}`).instruct('Be kind.'),
    ],
    [
      'messages',
      messages(`{${question},"tools":[{"name":"f","input_schema":${schema}}]
      ,"max_tokens":9,"model":"a/b"}`),
    ],
    [
      'a response',
      responses(`{"input":"Hi","tools":[{"type":"function","name":"f",
      "parameters":${schema}}],"model":"a/b"}`),
    ],
  ])('the bounds in a tool of %s are as they were written', (_, conversation) => {
    expect(written(conversation, dialect)).toContain(`"maximum":${most}`);
  });

  test('so are the arguments of a call, which Anthropic’s clients send as JSON', () => {
    // The id of the call is one that Anthropic refuses, so that its messages are mended.
    const call = `{"type":"tool_use","id":"a.b","name":"f","input":{"id":${id}}}`;
    const result = '{"type":"tool_result","tool_use_id":"a.b","content":"x"}';
    const turns = `[{"role":"user","content":"Hi"},{"role":"assistant","content":[${call}]},
      {"role":"user","content":[${result}]}]`;
    const body = written(messages(`{"model":"a/b","max_tokens":9,"messages":${turns}}`), dialect);
    expect(body.replaceAll('\\', '')).toContain(`{"id":${id}}`);
  });
});

test('a body of very many values goes on as floats: it would take seconds otherwise', () => {
  const many = (commas: number) => `{"a":[${'1,'.repeat(commas)}${id}],${question},"model":"a/b"}`;
  expect(written(chat(many(149_000)), 'openai')).toContain(`,${id}]`);
  expect(written(chat(many(151_000)), 'openai')).toContain(',12345678901234567000]');
});
