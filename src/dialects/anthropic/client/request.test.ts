import { expect, test } from 'bun:test';
import { readMessagesRequest } from './request.ts';

function requestInfoOf(fields: object) {
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { model: 'a/b', max_tokens: 5, messages, ...fields };
  const text = JSON.stringify(body);
  return readMessagesRequest(body, { text, bytes: Buffer.from(text) }).request;
}

function parametersOf(fields: object): readonly string[] {
  return requestInfoOf(fields).parameters;
}

const optionalFields = {
  thinking: { type: 'adaptive' },
  stop_sequences: ['x'],
  output_config: { format: { type: 'json_schema', schema: {} } },
  temperature: null,
  top_k: 5,
};

test('readMessagesRequest names parameters like the model list', () => {
  const names = parametersOf({ ...optionalFields, provider: { require_parameters: true } });
  const expected = ['max_tokens', 'reasoning', 'response_format', 'stop', 'top_k'];
  expect(names.toSorted()).toEqual(expected);
});

test('readMessagesRequest lists no parameters without require_parameters', () => {
  expect(parametersOf(optionalFields)).toEqual([]);
});

test('readMessagesRequest finds nested images', () => {
  const image = (host: string) => ({
    type: 'image',
    source: { type: 'url', url: `https://${host}.example/a.png` },
  });
  const folder = { type: 'document', source: { type: 'content', content: [image('folder')] } };
  const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: [folder] };
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const { images, needs } = requestInfoOf({
    messages: [
      { role: 'user', content: [image('bare'), folder] },
      { role: 'assistant', content: [call] },
      { role: 'user', content: [result] },
    ],
  });
  expect(images).toEqual([
    { param: 'messages[0].content[0].source', url: 'https://bare.example/a.png' },
    {
      param: 'messages[0].content[1].source.content[0].source',
      url: 'https://folder.example/a.png',
    },
    {
      param: 'messages[2].content[0].content[0].source.content[0].source',
      url: 'https://folder.example/a.png',
    },
  ]);
  expect(needs.images).toBe(true);
});

test('readMessagesRequest ignores generated images', () => {
  const image = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const messagesOf = (role: string) => [{ role, content: [image] }];
  const { images, needs } = requestInfoOf({ messages: messagesOf('assistant') });
  expect([images, needs.images]).toEqual([[], false]);
  expect(requestInfoOf({ messages: messagesOf('user') }).needs.images).toBe(true);
  expect(() => requestInfoOf({ messages: messagesOf('system') })).toThrow(
    '"image" belongs in a user message',
  );
});

test("readMessagesRequest doesn't count the bytes of generated images as input", () => {
  const bytesWith = (data: string) => {
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    return requestInfoOf({ messages: [{ role: 'assistant', content: [image] }] }).inputBytes;
  };
  expect(bytesWith('AAAA'.repeat(1_000))).toBe(bytesWith('AAAA'));
});

test.each(['constructor', '__proto__', 'toString', 'block_of_next_year'])(
  'readMessagesRequest accepts a block of the unknown type %s',
  (type) => {
    const messages = [{ role: 'user', content: [JSON.parse(`{"type":"${type}"}`)] }];
    expect(() => requestInfoOf({ messages })).not.toThrow();
  },
);

test("readMessagesRequest treats a tool in a message like one of the request's tools", () => {
  const image_url = { default: 'http://10.0.0.1/a.png' };
  const schema = { type: 'object', properties: { image_url } };
  const requestInfoWith = (definition: object) => {
    const content = [{ type: 'tool_addition', tool: { type: 'tool_definition', definition } }];
    return requestInfoOf({ messages: [{ role: 'system', content }] });
  };
  // A URL in a tool's schema is only text for the model.
  const own = requestInfoWith({
    name: 'look',
    input_schema: { ...schema, image_url: image_url.default },
  });
  expect([own.needs.tools, own.urls]).toEqual([true, []]);
  const unsupported = requestInfoWith({
    type: 'mcp_next',
    name: 'look',
    server_url: 'http://10.0.0.1/',
  });
  expect([unsupported.needs.tools, unsupported.urls?.length]).toEqual([false, 1]);
});

test('readMessagesRequest requires tool support for a summary that adds a tool', () => {
  const definition = { name: 'look', input_schema: { type: 'object' } };
  const needsTools = (...tool_changes: object[]) => {
    const content = [{ type: 'compaction', content: 'They met.', tool_changes }];
    return requestInfoOf({ messages: [{ role: 'assistant', content }] }).needs.tools;
  };
  expect(needsTools({ type: 'tool_addition', tool: { type: 'tool_definition', definition } })).toBe(
    true,
  );
  expect(needsTools()).toBe(false);
});

test('readMessagesRequest names the characters allowed in a tool name', () => {
  const tools = [{ name: 'look up', input_schema: { type: 'object' } }];
  expect(() => requestInfoOf({ tools })).toThrow(
    'tools[0].name must be a tool name of 1 to 128 letters, digits, or the characters _ . : -, not "look up".',
  );
});
