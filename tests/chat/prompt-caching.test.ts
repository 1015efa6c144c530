/** Cache marks on chat messages and parts, converted to each provider's format. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { chatAnswer, json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  gateway = await InProcessGateway.start({
    providers: {
      anthropic: { dialect: 'anthropic', base_url: `${url}/v1`, api_key: 'key' },
      aws: { dialect: 'bedrock', base_url: url, api_key: 'bedrock-api-key-0123456789' },
      responses: { dialect: 'openai-responses', base_url: `${url}/v1`, api_key: 'key' },
      gemini: { dialect: 'gemini', base_url: `${url}/v1beta`, api_key: 'key' },
    },
    models: ['anthropic', 'aws', 'responses', 'gemini'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
    ),
  });
  upstream.script('*', chatAnswer('Rain.'));
  upstream.script('responses-up', json(200, { status: 'completed', output: [] }));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const cache_control = { type: 'ephemeral' };
const called = {
  id: 'call_1',
  type: 'function',
  function: { name: 'weather', arguments: '{}' },
  cache_control,
};
const marked = [
  { role: 'system', content: 'Be brief.', cache_control },
  { role: 'user', content: 'Weather?', cache_control },
  { role: 'assistant', content: 'I look.', tool_calls: [called] },
  { role: 'tool', tool_call_id: 'call_1', content: 'Rain.', cache_control },
];

async function bodySentTo(
  provider: string,
  messages: readonly object[] = marked,
): Promise<unknown> {
  const { status } = await gateway.post({ model: `acme/${provider}`, messages });
  expect(status).toBe(200);
  return upstream.requests.at(-1)?.json;
}

test("sends a message's cache mark to Anthropic on the message's last block", async () => {
  expect(await bodySentTo('anthropic')).toMatchObject({
    system: [{ type: 'text', text: 'Be brief.', cache_control }],
    messages: [
      { content: [{ type: 'text', text: 'Weather?', cache_control }] },
      {
        content: [
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'call_1', cache_control },
        ],
      },
      { content: [{ type: 'tool_result', tool_use_id: 'call_1', cache_control }] },
    ],
  });
});

test('sends a cache mark to Bedrock as a cache point after the block', async () => {
  const cachePoint = { type: 'default' };
  expect(await bodySentTo('aws')).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint }],
    messages: [
      { content: [{ text: 'Weather?' }, { cachePoint }] },
      { content: [{ text: 'I look.' }, { toolUse: { toolUseId: 'call_1' } }, { cachePoint }] },
      { content: [{ toolResult: { toolUseId: 'call_1' } }, { cachePoint }] },
    ],
  });
});

test('sends at most the last 4 cache marks to Anthropic', async () => {
  const ids = ['call_1', 'call_2', 'call_3'];
  const sent = await bodySentTo('anthropic', [
    ...marked.slice(0, 2),
    { role: 'assistant', content: null, tool_calls: ids.map((id) => ({ ...called, id })) },
    ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'Rain.', cache_control })),
  ]);
  const results = ids.map((id) => ({ type: 'tool_result', tool_use_id: id, cache_control }));
  expect(JSON.stringify(sent).split('"cache_control"')).toHaveLength(5);
  expect(sent).toMatchObject({ messages: [{}, {}, { content: results }] });
});

test('counts cache marks inside tool results toward the limit of 4', async () => {
  const ids = ['call_1', 'call_2', 'call_3', 'call_4', 'call_5'];
  const content = [{ type: 'text', text: 'Rain.', cache_control }];
  const sent = await bodySentTo('anthropic', [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: null, tool_calls: ids.map((id) => ({ ...called, id })) },
    ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content })),
  ]);
  expect(JSON.stringify(sent).split('"cache_control"')).toHaveLength(5);
});

const prompt_cache_breakpoint = { mode: 'explicit', ttl: '12h' };
const textPart = (text: string) => ({ type: 'text', text, prompt_cache_breakpoint });
const url = 'data:image/png;base64,iVBORw0KGgo=';
const withBreakpoints = [
  { role: 'system', content: [textPart('Be brief.')] },
  {
    role: 'user',
    content: [
      textPart('Weather?'),
      { type: 'image_url', image_url: { url }, prompt_cache_breakpoint },
      { type: 'text', text: 'There.' },
    ],
  },
  { role: 'assistant', content: null, tool_calls: [{ ...called, cache_control: undefined }] },
  { role: 'tool', tool_call_id: 'call_1', content: [textPart('Rain.')] },
];

test("converts OpenAI's cache breakpoints for Anthropic and Bedrock", async () => {
  expect(await bodySentTo('anthropic', withBreakpoints)).toMatchObject({
    system: [{ type: 'text', text: 'Be brief.', cache_control }],
    messages: [
      {
        content: [
          { type: 'text', text: 'Weather?', cache_control },
          { type: 'image', cache_control },
          { type: 'text', text: 'There.' },
        ],
      },
      {},
      { content: [{ type: 'tool_result', tool_use_id: 'call_1', cache_control }] },
    ],
  });
  expect(JSON.stringify(upstream.requests.at(-1)?.json)).not.toContain('breakpoint');
  const cachePoint = { type: 'default' };
  expect(await bodySentTo('aws', withBreakpoints)).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint }],
    messages: [
      { content: [{ text: 'Weather?' }, { cachePoint }, {}, { cachePoint }, { text: 'There.' }] },
      {},
      { content: [{ toolResult: { toolUseId: 'call_1' } }, { cachePoint }] },
    ],
  });
});

test("passes OpenAI's cache breakpoints unchanged to its Responses endpoint", async () => {
  expect(await bodySentTo('responses', withBreakpoints)).toMatchObject({
    input: [
      { role: 'system', content: [{ text: 'Be brief.', prompt_cache_breakpoint }] },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Weather?', prompt_cache_breakpoint },
          { type: 'input_image', prompt_cache_breakpoint },
          { type: 'input_text', text: 'There.' },
        ],
      },
      { type: 'function_call' },
      {
        type: 'function_call_output',
        output: [{ type: 'input_text', text: 'Rain.', prompt_cache_breakpoint }],
      },
    ],
  });
  expect(JSON.stringify(upstream.requests.at(-1)?.json).match(/breakpoint/g)).toHaveLength(4);
});

test('sends each provider its own kind of mark if a part has both kinds', async () => {
  const hour = { type: 'ephemeral', ttl: '1h' };
  const content = [{ ...textPart('Weather?'), cache_control: hour }];
  const both = [{ role: 'user', content }];
  const block = { type: 'text', text: 'Weather?', cache_control: hour };
  expect(await bodySentTo('anthropic', both)).toMatchObject({ messages: [{ content: [block] }] });
  expect(JSON.stringify(upstream.requests.at(-1)?.json)).not.toContain('breakpoint');
  const cachePoint = { type: 'default', ttl: '1h' };
  expect(await bodySentTo('aws', both)).toMatchObject({
    messages: [{ content: [{}, { cachePoint }] }],
  });
  const part = { type: 'input_text', text: 'Weather?', prompt_cache_breakpoint };
  expect(await bodySentTo('responses', both)).toMatchObject({ input: [{ content: [part] }] });
  expect(JSON.stringify(upstream.requests.at(-1)?.json)).not.toContain('cache_control');
  const { headers } = await gateway.post({ model: 'acme/gemini', messages: both });
  const dropped = headers.get('x-tollgate-dropped-params')?.split(', ').sort();
  expect(dropped).toEqual(['cache_control', 'prompt_cache_breakpoint']);
});

test('moves a breakpoint on an image in a tool result to the end of the result', async () => {
  const image = { type: 'image_url', image_url: { url }, prompt_cache_breakpoint };
  const content = [image, { type: 'text', text: 'Rain.' }];
  const result = { role: 'tool', tool_call_id: 'call_1', content };
  const output = [
    { type: 'input_image', image_url: url, detail: 'auto' },
    { type: 'input_text', text: 'Rain.', prompt_cache_breakpoint },
  ];
  const sent = await bodySentTo('responses', [...withBreakpoints.slice(0, -1), result]);
  expect((sent as { input: readonly object[] }).input.at(-1)).toMatchObject({ output });
  expect(JSON.stringify(sent).match(/breakpoint/g)).toHaveLength(4);
});

test('reports dropped breakpoints under the name that the client used', async () => {
  const gemini = await gateway.post({ model: 'acme/gemini', messages: withBreakpoints });
  expect(gemini.headers.get('x-tollgate-dropped-params')).toBe('prompt_cache_breakpoint');
  const responses = await gateway.post({ model: 'acme/responses', messages: withBreakpoints });
  expect(responses.headers.get('x-tollgate-dropped-params')).toBeNull();
});

test('converts at most 4 breakpoints of a Responses request', async () => {
  const inputText = (text: string) => ({ type: 'input_text', text, prompt_cache_breakpoint });
  const image = { type: 'input_image', image_url: url, prompt_cache_breakpoint };
  const body = {
    input: [
      { role: 'developer', content: [inputText('Be brief.')] },
      { role: 'user', content: [inputText('Hello!'), inputText('Weather?'), image] },
      { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'call_1',
        output: [inputText('Rain.'), inputText('Wind.')],
      },
    ],
  };
  const post = (provider: string) =>
    gateway.post({ model: `acme/${provider}`, ...body }, { path: '/v1/responses' });
  expect((await post('anthropic')).status).toBe(200);
  const sent = upstream.requests.at(-1)?.json;
  expect(sent).toMatchObject({
    messages: [
      {
        content: [
          { type: 'text', text: 'Hello!', cache_control },
          { type: 'text', text: 'Weather?', cache_control },
          { type: 'image', cache_control },
        ],
      },
      {},
      { content: [{ type: 'tool_result', tool_use_id: 'call_1', cache_control }] },
    ],
  });
  expect(JSON.stringify(sent).match(/cache_control|breakpoint/g)).toHaveLength(4);
  const { headers } = await post('gemini');
  expect(headers.get('x-tollgate-dropped-params')).toBe('prompt_cache_breakpoint');
});
