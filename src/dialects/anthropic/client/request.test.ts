import { expect, test } from 'bun:test';
import { readMessagesRequest } from './request.ts';

function askOf(fields: object) {
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { model: 'a/b', max_tokens: 5, messages, ...fields };
  const text = JSON.stringify(body);
  return readMessagesRequest(body, { text, bytes: Buffer.from(text) }).request;
}

function parametersOf(fields: object): readonly string[] {
  return askOf(fields).parameters;
}

const given = {
  thinking: { type: 'adaptive' },
  stop_sequences: ['x'],
  output_config: { format: { type: 'json_schema', schema: {} } },
  temperature: null,
  top_k: 5,
};

test('parameters have the names that the list of models gives them', () => {
  const names = parametersOf({ ...given, provider: { require_parameters: true } });
  const expected = ['max_tokens', 'reasoning', 'response_format', 'stop', 'top_k'];
  expect(names.toSorted()).toEqual(expected);
});

test('parameters are told only where providers have to take all of them', () => {
  expect(parametersOf(given)).toEqual([]);
});

test('pictures are found however deep they stand: each is checked, held for and inlined', () => {
  const picture = (host: string) => ({
    type: 'image',
    source: { type: 'url', url: `https://${host}.example/a.png` },
  });
  const folder = { type: 'document', source: { type: 'content', content: [picture('folder')] } };
  const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: [folder] };
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const { images, needs } = askOf({
    messages: [
      { role: 'user', content: [picture('bare'), folder] },
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

test('a picture that a model made may be sent back, and no model has to look at it', () => {
  const picture = { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } };
  const told = (role: string) => [{ role, content: [picture] }];
  const { images, needs } = askOf({ messages: told('assistant') });
  expect([images, needs.images]).toEqual([[], false]);
  expect(askOf({ messages: told('user') }).needs.images).toBe(true);
  expect(() => askOf({ messages: told('system') })).toThrow('"image" belongs in a user message');
});

test('nothing is held for the bytes of a picture that a model made', () => {
  const bytesWith = (data: string) => {
    const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    return askOf({ messages: [{ role: 'assistant', content: [picture] }] }).inputBytes;
  };
  expect(bytesWith('AAAA'.repeat(1_000))).toBe(bytesWith('AAAA'));
});

test.each(['constructor', '__proto__', 'toString', 'block_of_next_year'])(
  'a block of the unknown type %s stands wherever its client put it',
  (type) => {
    const messages = [{ role: 'user', content: [JSON.parse(`{"type":"${type}"}`)] }];
    expect(() => askOf({ messages })).not.toThrow();
  },
);

test('a tool that a message adds counts like one of the request’s tools', () => {
  const image_url = { default: 'http://10.0.0.1/a.png' };
  const schema = { type: 'object', properties: { image_url } };
  const asking = (definition: object) => {
    const content = [{ type: 'tool_addition', tool: { type: 'tool_definition', definition } }];
    return askOf({ messages: [{ role: 'system', content }] });
  };
  // An address in the schema of a tool is only words for the model.
  const own = asking({ name: 'look', input_schema: { ...schema, image_url: image_url.default } });
  expect([own.needs.tools, own.addresses]).toEqual([true, []]);
  const foreign = asking({ type: 'mcp_next', name: 'look', server_url: 'http://10.0.0.1/' });
  expect([foreign.needs.tools, foreign.addresses?.length]).toEqual([false, 1]);
});

test('a summary of the conversation that adds a tool needs a model with tools', () => {
  const definition = { name: 'look', input_schema: { type: 'object' } };
  const asking = (...tool_changes: object[]) => {
    const content = [{ type: 'compaction', content: 'They met.', tool_changes }];
    return askOf({ messages: [{ role: 'assistant', content }] }).needs.tools;
  };
  expect(asking({ type: 'tool_addition', tool: { type: 'tool_definition', definition } })).toBe(
    true,
  );
  expect(asking()).toBe(false);
});

test('the refusal of a tool’s name says which characters it may have', () => {
  const tools = [{ name: 'look up', input_schema: { type: 'object' } }];
  expect(() => askOf({ tools })).toThrow(
    'tools[0].name must be a name for a tool of 1 to 128 letters, digits or _.:-, not "look up".',
  );
});
