import { describe, expect, test } from 'bun:test';
import { makeTarget } from '../../tests/support/prompts.ts';
import { readCountRequest, readMessagesRequest } from './anthropic/client/request.ts';
import { anthropicClientRequest } from './anthropic/client-request.ts';
import { anthropicCount } from './anthropic/count-tokens.ts';
import type { ClientRequest } from './dialect.ts';
import { readChatRequest } from './openai-chat/client/request.ts';
import { openAiClientRequest } from './openai-chat/client-request.ts';
import { readResponsesRequest } from './responses/client/request.ts';
import { responsesClientRequest } from './responses/client-request.ts';

type Fields = Record<string, unknown>;

function sourceOf(fields: object): [Fields, { text: string; bytes: Uint8Array }] {
  const text = JSON.stringify({ model: 'a/b', ...fields });
  return [JSON.parse(text) as Fields, { text, bytes: new TextEncoder().encode(text) }];
}

const messages = [{ role: 'user', content: 'Hi' }];
const chatTool = { type: 'function', function: { name: 'list', parameters: undefined } };
const flatTool = { type: 'function', name: 'list' };

const clients: Record<string, () => ClientRequest> = {
  chat: () => openAiClientRequest(readChatRequest(...sourceOf({ messages, tools: [chatTool] }))),
  responses: () =>
    responsesClientRequest(readResponsesRequest(...sourceOf({ input: 'Hi', tools: [flatTool] }))),
  messages: () =>
    anthropicClientRequest(
      readMessagesRequest(...sourceOf({ max_tokens: 9, messages, tools: [{ name: 'list' }] })),
      new Headers(),
    ),
};

const object = { type: 'object', properties: {} };
const input_schema = expect.objectContaining({ type: 'object' });
const written = {
  openai: [{ type: 'function', function: { name: 'list', parameters: object } }],
  'openai-responses': [
    { type: 'function', name: 'list', parameters: expect.objectContaining(object) },
  ],
  anthropic: [{ name: 'list', input_schema }],
  bedrock: { tools: [{ toolSpec: { name: 'list', inputSchema: { json: { type: 'object' } } } }] },
  gemini: [{ functionDeclarations: [{ name: 'list' }] }],
} as const;

const cases = Object.keys(clients).flatMap((client) =>
  Object.entries(written).map(([dialect, tools]) => [client, dialect, tools] as const),
);

describe('a tool without parameters', () => {
  test.each(cases)('of a %s client gets the schema that %s requires', (client, dialect, tools) => {
    const adapter = clients[client]?.().adapterFor(dialect as keyof typeof written);
    const body = JSON.parse(String(adapter?.write(makeTarget()).body)) as Fields;
    expect(body.tools ?? body.toolConfig).toMatchObject(tools);
  });
});

test('a strict tool without parameters gets a schema that allows no arguments', () => {
  const [body, source] = sourceOf({
    messages,
    tools: [{ ...chatTool, function: { name: 'list', strict: true } }],
  });
  const adapter = openAiClientRequest(readChatRequest(body, source));
  for (const dialect of ['openai', 'openai-responses'] as const) {
    const sent = String(adapter.adapterFor(dialect)?.write(makeTarget()).body);
    expect(sent).toContain('"additionalProperties":false');
  }
});

test('other tools keep numbers that have more digits than a float', () => {
  const exact = '12345678901234567890';
  const text =
    `{"model":"a/b","messages":[{"role":"user","content":"Hi"}],"tools":[` +
    '{"type":"function","function":{"name":"list"}},{"type":"function","function":{"name":"find",' +
    `"parameters":{"type":"object","properties":{"id":{"const":${exact}}}}}}]}`;
  const source = { text, bytes: new TextEncoder().encode(text) };
  const request = openAiClientRequest(readChatRequest(JSON.parse(text), source));
  expect(String(request.adapterFor('openai')?.write(makeTarget()).body)).toContain(exact);
});

test('a tool without a schema gets one before Anthropic counts its tokens', () => {
  const request = readCountRequest(...sourceOf({ messages, tools: [{ name: 'list' }] }));
  const written = anthropicCount(request, new Headers()).write(makeTarget());
  const body = JSON.parse(String(written?.body)) as Fields;
  expect(body.tools).toEqual([{ name: 'list', input_schema: object }]);
});
