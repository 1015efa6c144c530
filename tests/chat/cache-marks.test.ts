/** Marks for prompt caching on the messages of a chat, which stand on blocks elsewhere. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { say, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  gateway = await InProcessGateway.start({
    providers: {
      anthropic: { dialect: 'anthropic', base_url: `${url}/v1`, api_key: 'key' },
      aws: { dialect: 'bedrock', base_url: url, api_key: 'bedrock-api-key-0123456789' },
    },
    models: ['anthropic', 'aws'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
    ),
  });
  upstream.script('*', say('Rain.'));
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
