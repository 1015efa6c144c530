import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../../core/errors.ts';
import { readResponsesRequest } from './request.ts';

function read(fields: object) {
  const body = { model: 'a/b', input: 'Hi', ...fields };
  const text = JSON.stringify(body);
  return readResponsesRequest(JSON.parse(text), { text, bytes: new TextEncoder().encode(text) });
}

function rejection(fields: object): { param: string | null; message: string } {
  try {
    read(fields);
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    expect(error.status).toBe(400);
    return { param: error.param, message: error.message };
  }
  throw new Error('The request was accepted.');
}

const userMessage = (...content: unknown[]) => ({ input: [{ role: 'user', content }] });

test('readResponsesRequest understands tool_choice any as required', () => {
  const tools = [{ type: 'function', name: 'look', parameters: { type: 'object' } }];
  const { body, source } = read({ tools, tool_choice: 'any' });
  expect([body.tool_choice, source]).toEqual(['required', null]);
});

describe('readResponsesRequest', () => {
  const cases: readonly (readonly [string, object, string])[] = [
    ['without input', { input: undefined }, 'input'],
    ['with an empty input', { input: '' }, 'input'],
    ['with no items', { input: [] }, 'input'],
    ['with an item that is not an object', { input: ['Hi'] }, 'input[0]'],
    ['with an unknown role', { input: [{ role: 'tool', content: '' }] }, 'input[0].role'],
    ['with an item without a role', { input: [{ content: 'Hi' }] }, 'input[0].role'],
    [
      'with content that is a number',
      { input: [{ role: 'user', content: 5 }] },
      'input[0].content',
    ],
    [
      'with a text part without text',
      userMessage({ type: 'input_text' }),
      'input[0].content[0].text',
    ],
    [
      'with an image URL of another scheme',
      userMessage(
        { type: 'input_text', text: '' },
        { type: 'input_image', image_url: 'file:///a' },
      ),
      'input[0].content[1].image_url',
    ],
    [
      'with a call without a call ID',
      { input: [{ type: 'function_call', name: 'a', arguments: '' }] },
      'input[0].call_id',
    ],
    [
      'with a result that has neither output nor a call ID',
      { input: [{ type: 'function_call_output' }] },
      'input[0].call_id',
    ],
    [
      'with an invalid image in a result',
      {
        input: [
          {
            type: 'function_call_output',
            call_id: 'a',
            output: [{ type: 'input_image', image_url: 7 }],
          },
        ],
      },
      'input[0].output[0].image_url',
    ],
    [
      'with a signature that is a number',
      { input: [{ type: 'reasoning', encrypted_content: 7 }] },
      'input[0].encrypted_content',
    ],
    [
      'with a reference to a stored item',
      { input: [{ type: 'item_reference', id: 'rs_1' }] },
      'input[0]',
    ],
    ['with a tool without a type', { tools: [{ name: 'a' }] }, 'tools[0].type'],
    ['with a tool without a name', { tools: [{ type: 'function' }] }, 'tools[0].name'],
    [
      'with an invalid tool name',
      { tools: [{ type: 'web_search' }, { type: 'custom', name: 'a b' }] },
      'tools[1].name',
    ],
    [
      'with an invalid tool in a namespace',
      { tools: [{ type: 'namespace', name: 'a', tools: [{ type: 'function' }] }] },
      'tools[0].tools[0].name',
    ],
    [
      'with an invalid search filter',
      { tools: [{ type: 'web_search', filters: { allowed_domains: 'a.example' } }] },
      'tools[0].filters.allowed_domains',
    ],
    ['with an unknown tool choice', { tool_choice: 'some' }, 'tool_choice'],
    [
      'that allows a tool it does not have',
      {
        tools: [{ type: 'function', name: 'a' }],
        tool_choice: {
          ...{ type: 'allowed_tools', mode: 'auto' },
          tools: [
            { type: 'function', name: 'a' },
            { type: 'custom', name: 'b' },
          ],
        },
      },
      'tool_choice.tools[1].name',
    ],
    ['with an unknown format', { text: { format: { type: 'xml' } } }, 'text.format.type'],
    [
      'with a schema without a name',
      { text: { format: { type: 'json_schema', schema: {} } } },
      'text.format.name',
    ],
    ['with an unknown verbosity', { text: { verbosity: 'loud' } }, 'text.verbosity'],
    ['with an unknown effort', { reasoning: { effort: 'huge' } }, 'reasoning.effort'],
    ['with an output limit of 0', { max_output_tokens: 0 }, 'max_output_tokens'],
    ['with a temperature above 2', { temperature: 2.1 }, 'temperature'],
    ['with metadata that is not text', { metadata: { a: 1 } }, 'metadata.a'],
    ['with an include that is not a list', { include: 'everything' }, 'include'],
    ['with an unknown truncation', { truncation: 'some' }, 'truncation'],
    ['with a previous response', { previous_response_id: 'resp_1' }, 'previous_response_id'],
    ['with a conversation', { conversation: { id: 'conv_1' } }, 'conversation'],
    ['in the background', { background: true }, 'background'],
    ['with a stored prompt', { prompt: { id: 'pmpt_1' }, input: undefined }, 'prompt'],
    ['without a model', { model: undefined }, 'model'],
    ['with too many models', { models: Array.from({ length: 17 }, (_, i) => `a/${i}`) }, 'models'],
  ];
  test.each(cases)('rejects a request %s: %j', (_, fields, param) => {
    const error = rejection(fields);
    expect(error.param).toBe(param);
    expect(error.message).toMatch(/^[^\n]+\.$/);
    expect(error.message).toContain(param);
  });

  test('suggests sending the full conversation instead of previous_response_id', () => {
    expect(rejection({ previous_response_id: 'resp_1' }).message).toBe(
      "previous_response_id references a stored response, but this gateway doesn't store " +
        'responses. Send the full conversation as input.',
    );
  });
});

describe('readResponsesRequest', () => {
  test.each([
    { previous_response_id: null, background: false, conversation: null, prompt: null },
    { store: true },
    { store: false, include: ['reasoning.encrypted_content'], client_metadata: { a: 'b' } },
    { input: [{ type: 'tool_search_call', execution: 'x' }] },
    { input: [{ role: 'user', content: [{ type: 'input_hologram', data: 5 }] }] },
    { tools: [{ type: 'computer', display: 5 }] },
    { tool_choice: { type: 'web_search' } },
    {
      tools: [
        { type: 'custom', name: 'a' },
        { type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'b' }] },
        { type: 'mcp', server_label: 's' },
      ],
      input: [{ type: 'additional_tools', tools: [{ type: 'function', name: 'c' }] }],
      tool_choice: {
        type: 'allowed_tools',
        tools: [
          ...['a', 'b', 'n__b', 'c'].map((name) => ({ type: 'function', name })),
          { type: 'mcp', server_label: 's', name: 'd' },
          { type: 'image_generation' },
        ],
      },
    },
    { instructions: null, tools: null, text: null, reasoning: null, metadata: null },
  ])('accepts %j', (fields) => {
    expect(read(fields).request.models).toEqual(['a/b']);
  });

  test('derives the required model capabilities from parts, tools, and formats', () => {
    const image = { type: 'input_image', image_url: 'https://a.example/b.png' };
    const { request } = read({
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'x' }, image] },
        { type: 'function_call_output', call_id: 'c', output: [image] },
        { role: 'user', content: [{ type: 'input_file', file_id: 'f' }] },
      ],
      tools: [{ type: 'namespace', name: 'a', tools: [] }],
      text: { format: { type: 'json_object' } },
      max_output_tokens: 77,
      stream: true,
      safety_identifier: 'ann',
    });
    expect(request).toMatchObject({
      operationName: 'chat',
      stream: true,
      outputTokensMax: 77,
      user: 'ann',
      needs: { tools: true, json: true, images: true, audio: false, files: true },
      images: [
        { param: 'input[0].content[1].image_url', url: image.image_url },
        { param: 'input[1].output[0].image_url', url: image.image_url },
      ],
    });
  });

  test("treats a web_search tool as the provider's own search", () => {
    const tool = { type: 'web_search', filters: { allowed_domains: ['a.example'] } };
    expect(read({ tools: [{ type: 'function', name: 'a' }, tool] }).request.search).toMatchObject({
      param: 'tools[1]',
      isProviderTool: true,
      allowedDomains: ['a.example'],
    });
    expect(read({ tools: [{ ...tool, external_web_access: false }] }).request.search).toBeNull();
    expect(read({ model: 'a/b:online' }).request.search).toMatchObject({ isProviderTool: false });
  });

  test('reads a cache TTL of 1 hour, which has its own price', () => {
    const forHour = { type: 'ephemeral', ttl: '1h' };
    expect(read({ cache_control: forHour }).request.usesLongCacheTtl()).toBe(true);
    expect(read({ cache_control: { type: 'ephemeral' } }).request.usesLongCacheTtl()).toBe(false);
  });

  test('lists parameters under the names that the model list uses', () => {
    const { request } = read({
      provider: { require_parameters: true },
      max_output_tokens: 5,
      reasoning: { effort: 'low' },
      text: { format: { type: 'json_object' } },
      store: false,
      user: 'ann',
    });
    const names = ['max_tokens', 'reasoning', 'response_format', 'user'];
    expect(request.parameters.toSorted()).toEqual(names);
  });
});
