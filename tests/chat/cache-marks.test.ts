/** Marks for prompt caching on the messages of a chat, which stand on blocks elsewhere. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { json, say, startFakeUpstream } from '../support/fake-upstream.ts';
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
  upstream.script('*', say('Rain.'));
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
const messages = [
  { role: 'system', content: 'Be brief.', cache_control },
  { role: 'user', content: 'Weather?', cache_control },
  { role: 'assistant', content: 'I look.', tool_calls: [called] },
  { role: 'tool', tool_call_id: 'call_1', content: 'Rain.', cache_control },
];

async function askedOf(provider: string, said: readonly object[] = messages): Promise<unknown> {
  const { status } = await gateway.post({ model: `acme/${provider}`, messages: said });
  expect(status).toBe(200);
  return upstream.book.at(-1)?.json;
}

test('Anthropic finds each on the block that its message ends with', async () => {
  expect(await askedOf('anthropic')).toMatchObject({
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

test('Bedrock finds a cache point behind it', async () => {
  const cachePoint = { type: 'default' };
  expect(await askedOf('aws')).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint }],
    messages: [
      { content: [{ text: 'Weather?' }, { cachePoint }] },
      { content: [{ text: 'I look.' }, { toolUse: { toolUseId: 'call_1' } }, { cachePoint }] },
      { content: [{ toolResult: { toolUseId: 'call_1' } }, { cachePoint }] },
    ],
  });
});

test('Anthropic gets four of them at most, the last', async () => {
  const ids = ['call_1', 'call_2', 'call_3'];
  const asked = await askedOf('anthropic', [
    ...messages.slice(0, 2),
    { role: 'assistant', content: null, tool_calls: ids.map((id) => ({ ...called, id })) },
    ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'Rain.', cache_control })),
  ]);
  const results = ids.map((id) => ({ type: 'tool_result', tool_use_id: id, cache_control }));
  const sent = JSON.stringify(asked);
  expect(sent.split('"cache_control"')).toHaveLength(5);
  expect(asked).toMatchObject({ messages: [{}, {}, { content: results }] });
});

test('those inside of results are among the four', async () => {
  const ids = ['call_1', 'call_2', 'call_3', 'call_4', 'call_5'];
  const content = [{ type: 'text', text: 'Rain.', cache_control }];
  const asked = await askedOf('anthropic', [
    { role: 'user', content: 'Weather?' },
    { role: 'assistant', content: null, tool_calls: ids.map((id) => ({ ...called, id })) },
    ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content })),
  ]);
  expect(JSON.stringify(asked).split('"cache_control"')).toHaveLength(5);
});

const prompt_cache_breakpoint = { mode: 'explicit', ttl: '12h' };
const text = (words: string) => ({ type: 'text', text: words, prompt_cache_breakpoint });
const url = 'data:image/png;base64,iVBORw0KGgo=';
const pointed = [
  { role: 'system', content: [text('Be brief.')] },
  {
    role: 'user',
    content: [
      text('Weather?'),
      { type: 'image_url', image_url: { url }, prompt_cache_breakpoint },
      { type: 'text', text: 'There.' },
    ],
  },
  { role: 'assistant', content: null, tool_calls: [{ ...called, cache_control: undefined }] },
  { role: 'tool', tool_call_id: 'call_1', content: [text('Rain.')] },
];

test('as OpenAI writes them, Anthropic and Bedrock find them in their words', async () => {
  expect(await askedOf('anthropic', pointed)).toMatchObject({
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
  expect(JSON.stringify(upstream.book.at(-1)?.json)).not.toContain('breakpoint');
  const cachePoint = { type: 'default' };
  expect(await askedOf('aws', pointed)).toMatchObject({
    system: [{ text: 'Be brief.' }, { cachePoint }],
    messages: [
      { content: [{ text: 'Weather?' }, { cachePoint }, {}, { cachePoint }, { text: 'There.' }] },
      {},
      { content: [{ toolResult: { toolUseId: 'call_1' } }, { cachePoint }] },
    ],
  });
});

test('as OpenAI writes them, its newer endpoint gets them as they are', async () => {
  expect(await askedOf('responses', pointed)).toMatchObject({
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
  expect(JSON.stringify(upstream.book.at(-1)?.json).match(/breakpoint/g)).toHaveLength(4);
});

test('marked in both ways, each finds its own', async () => {
  const hour = { type: 'ephemeral', ttl: '1h' };
  const content = [{ ...text('Weather?'), cache_control: hour }];
  const both = [{ role: 'user', content }];
  const block = { type: 'text', text: 'Weather?', cache_control: hour };
  expect(await askedOf('anthropic', both)).toMatchObject({ messages: [{ content: [block] }] });
  expect(JSON.stringify(upstream.book.at(-1)?.json)).not.toContain('breakpoint');
  const cachePoint = { type: 'default', ttl: '1h' };
  expect(await askedOf('aws', both)).toMatchObject({
    messages: [{ content: [{}, { cachePoint }] }],
  });
  const part = { type: 'input_text', text: 'Weather?', prompt_cache_breakpoint };
  expect(await askedOf('responses', both)).toMatchObject({ input: [{ content: [part] }] });
  expect(JSON.stringify(upstream.book.at(-1)?.json)).not.toContain('cache_control');
  const { headers } = await gateway.post({ model: 'acme/gemini', messages: both });
  const dropped = headers.get('x-tollgate-dropped-params')?.split(', ').sort();
  expect(dropped).toEqual(['cache_control', 'prompt_cache_breakpoint']);
});

test('one on a picture that a tool brought stands behind all that it brought', async () => {
  const picture = { type: 'image_url', image_url: { url }, prompt_cache_breakpoint };
  const content = [picture, { type: 'text', text: 'Rain.' }];
  const result = { role: 'tool', tool_call_id: 'call_1', content };
  const output = [
    { type: 'input_image', image_url: url, detail: 'auto' },
    { type: 'input_text', text: 'Rain.', prompt_cache_breakpoint },
  ];
  const asked = await askedOf('responses', [...pointed.slice(0, -1), result]);
  expect((asked as { input: readonly object[] }).input.at(-1)).toMatchObject({ output });
  expect(JSON.stringify(asked).match(/breakpoint/g)).toHaveLength(4);
});

test('where there is no place for them, the client is told by its own name', async () => {
  const told = await gateway.post({ model: 'acme/gemini', messages: pointed });
  expect(told.headers.get('x-tollgate-dropped-params')).toBe('prompt_cache_breakpoint');
  const newer = await gateway.post({ model: 'acme/responses', messages: pointed });
  expect(newer.headers.get('x-tollgate-dropped-params')).toBeNull();
});

test('those of a Responses client are found as well, four at most', async () => {
  const say = (words: string) => ({ type: 'input_text', text: words, prompt_cache_breakpoint });
  const shown = { type: 'input_image', image_url: url, prompt_cache_breakpoint };
  const body = {
    input: [
      { role: 'developer', content: [say('Be brief.')] },
      { role: 'user', content: [say('Hello!'), say('Weather?'), shown] },
      { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: [say('Rain.'), say('Wind.')] },
    ],
  };
  const ask = (provider: string) =>
    gateway.post({ model: `acme/${provider}`, ...body }, { path: '/v1/responses' });
  expect((await ask('anthropic')).status).toBe(200);
  const sent = upstream.book.at(-1)?.json;
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
  const { headers } = await ask('gemini');
  expect(headers.get('x-tollgate-dropped-params')).toBe('prompt_cache_breakpoint');
});
