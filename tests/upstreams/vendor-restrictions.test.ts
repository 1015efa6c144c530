/**
 * Requests that clients send even though a vendor rejects them with 400. Built-in models receive
 * them in a form that their vendor accepts. Test names quote the vendors' messages.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Built-in models, by their alias in this test. */
const builtinModels = {
  'acme/deepseek': 'deepseek/deepseek-v4-pro',
  'acme/mistral': 'mistralai/mistral-large-2512',
  'acme/grok': 'x-ai/grok-4.7',
  'acme/oss': 'openai/gpt-oss-120b',
  'acme/gemini': 'google/gemini-3.8-flash',
  'acme/haiku': 'anthropic/claude-haiku-4.5',
  'acme/opus': 'anthropic/claude-opus-5',
} as const;

function catalogEntryOf(id: string) {
  const model = builtinCatalog.models.find((entry) => entry.id === id);
  const [endpoint] = model?.endpoints ?? [];
  const provider = builtinCatalog.providers.find(({ name }) => name === endpoint?.provider);
  if (!model || !endpoint || !provider) throw new Error(`${id} is no longer in the catalog.`);
  return { model, endpoint, provider };
}

beforeAll(async () => {
  const entries = Object.entries(builtinModels).map(([alias, id]) => ({
    alias,
    ...catalogEntryOf(id),
  }));
  gateway = await InProcessGateway.start({
    providers: Object.fromEntries(
      entries.map(({ provider: { name, dialect, quirks = {} } }) => {
        const base_url = `${upstream.url}/${dialect === 'gemini' ? 'v1beta' : 'v1'}`;
        return [name, { dialect, quirks, base_url, api_key: 'key' }];
      }),
    ),
    models: entries.map(({ alias, model, endpoint: { provider, quirks = {} } }) =>
      chatModel(alias, [{ provider, model: 'up', quirks }], {
        ...(model.thinking ? { thinking: model.thinking } : {}),
      }),
    ),
  });
});
beforeEach(() => {
  upstream.reset();
  upstream.script('*', chatAnswer('Rain.'));
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

const userMessage = { role: 'user', content: 'Weather?' };
const tool = (name: string, parameters: object = { type: 'object', properties: {} }) => ({
  type: 'function',
  function: { name, parameters },
});

async function sentBody(
  model: keyof typeof builtinModels,
  body: object,
  path = '/v1/chat/completions',
) {
  await gateway.post({ model, messages: [userMessage], ...body }, { path });
  return fieldsOf(upstream.requests.at(-1)?.json);
}

test('dropped parameters are reported to every client', async () => {
  const tools = [{ name: 'weather', input_schema: { type: 'object' } }];
  const options = {
    ...{ max_tokens: 50, tools, output_config: { effort: 'high' }, stop_sequences: ['.'] },
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  };
  const droppedFor = async (model: keyof typeof builtinModels, body: object, path: string) => {
    const reply = await gateway.post({ model, ...body }, { path });
    return reply.headers.get('x-tollgate-dropped-params');
  };
  const message = { messages: [userMessage], ...options };
  expect(await droppedFor('acme/deepseek', message, '/v1/messages')).toBe(
    'reasoning, parallel_tool_calls',
  );
  expect(await droppedFor('acme/grok', message, '/v1/messages')).toBe('stop');
  expect(await droppedFor('acme/mistral', { input: 'Weather?', user: 'me' }, '/v1/responses')).toBe(
    'user',
  );
});

test('DeepSeek: "Thinking mode does not support this tool_choice"', async () => {
  const { function: weather } = tool('weather');
  for (const tool_choice of ['required', { type: 'function', function: { name: weather.name } }]) {
    const options = { tools: [tool('weather')], tool_choice, reasoning_effort: 'high' };
    const body = await sentBody('acme/deepseek', options);
    expect(body).toMatchObject({ tool_choice, thinking: { type: 'disabled' } });
    expect(body.reasoning_effort).toBeUndefined();
  }
  const auto = await sentBody('acme/deepseek', { tools: [tool('weather')], tool_choice: 'auto' });
  expect(auto.thinking).toBeUndefined();
});

test('Mistral: "Expected last role User or Tool (or Assistant with prefix True)"', async () => {
  const startedAnswer = [userMessage, { role: 'assistant', content: 'Well,' }];
  for (const messages of [startedAnswer, [{ role: 'system', content: 'Greet.' }]]) {
    const body = await sentBody('acme/mistral', { messages });
    expect(objectsIn(body.messages).at(-1)?.role).toBe('user');
  }
});

test.each(['acme/mistral', 'acme/grok'] as const)(
  '%s: "An assistant message must have content or tool calls"',
  async (model) => {
    const emptyAnswer = { role: 'assistant', content: '' };
    const body = await sentBody(model, {
      messages: [userMessage, emptyAnswer, { ...userMessage, content: 'Now?' }],
    });
    const contents = objectsIn(body.messages).map(({ content }) => content);
    expect(contents).toEqual(['Weather?', 'Now?']);
  },
);

test('Groq: "json mode cannot be combined with tool/function calling"', async () => {
  const options = { tools: [tool('weather')], response_format: { type: 'json_object' } };
  const body = await sentBody('acme/oss', options);
  expect([body.response_format, objectsIn(body.tools)]).toEqual([undefined, options.tools]);
  expect(JSON.stringify(body.messages)).toContain('JSON');
});

test('Google: "Invalid function name. Must start with a letter or an underscore"', async () => {
  const tools = [tool('21st_builder'), tool('weather'), tool('weather')];
  const body = await sentBody('acme/gemini', { tools });
  const [offered] = objectsIn(body.tools);
  const names = objectsIn(offered?.functionDeclarations).map(({ name }) => String(name));
  // Google's message for the last tool is "Duplicate function declaration found".
  expect(names).toHaveLength(2);
  for (const name of names) expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/);
});

test('Anthropic: "Tool names must be unique", "must match JSON Schema draft 2020-12"', async () => {
  const number = { type: 'number' };
  const properties = {
    at: { type: 'array', items: [number, number] },
    radius: { type: 'number', minimum: 0, exclusiveMinimum: true },
  };
  const weather = tool('weather', { type: 'object', properties });
  const body = await sentBody('acme/opus', { tools: [weather, weather] });
  const newer = {
    at: { type: 'array', prefixItems: [number, number] },
    radius: { type: 'number', exclusiveMinimum: 0 },
  };
  expect(objectsIn(body.tools)).toEqual([
    { name: 'weather', input_schema: { type: 'object', properties: newer } },
  ]);
});

test('Claude before Opus 4.8 receives instructions only in system', async () => {
  const messages = [userMessage, { role: 'system', content: 'Be brief.' }];
  const fields = { max_tokens: 50, messages };
  const older = await sentBody('acme/haiku', fields, '/v1/messages');
  expect(older.messages).toEqual([userMessage]);
  expect(JSON.stringify(older.system)).toContain('Be brief.');
  const newer = await sentBody('acme/opus', fields, '/v1/messages');
  expect(newer.messages).toEqual(messages);
});
