/**
 * What vendors answer with 400, by their own sentences, and clients send all the same: shipped
 * models get it in words that their vendors take.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { builtinCatalog } from '../../src/config/catalog/index.ts';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import { chatAnswer, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Shipped models, by the names that they have here. */
const shipped = {
  'acme/deepseek': 'deepseek/deepseek-v4-pro',
  'acme/mistral': 'mistralai/mistral-large-2512',
  'acme/grok': 'x-ai/grok-4.7',
  'acme/oss': 'openai/gpt-oss-120b',
  'acme/gemini': 'google/gemini-3.8-flash',
  'acme/haiku': 'anthropic/claude-haiku-4.5',
  'acme/opus': 'anthropic/claude-opus-5',
} as const;

function placeOf(id: string) {
  const model = builtinCatalog.models.find((each) => each.id === id);
  const [endpoint] = model?.endpoints ?? [];
  const provider = builtinCatalog.providers.find(({ name }) => name === endpoint?.provider);
  if (!model || !endpoint || !provider) throw new Error(`${id} is no longer in the catalogue.`);
  return { model, endpoint, provider };
}

beforeAll(async () => {
  const places = Object.entries(shipped).map(([alias, id]) => ({ alias, ...placeOf(id) }));
  gateway = await InProcessGateway.start({
    providers: Object.fromEntries(
      places.map(({ provider: { name, dialect, quirks = {} } }) => {
        const base_url = `${upstream.url}/${dialect === 'gemini' ? 'v1beta' : 'v1'}`;
        return [name, { dialect, quirks, base_url, api_key: 'key' }];
      }),
    ),
    models: places.map(({ alias, model, endpoint: { provider, quirks = {} } }) =>
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

const said = { role: 'user', content: 'Weather?' };
const tool = (name: string, parameters: object = { type: 'object', properties: {} }) => ({
  type: 'function',
  function: { name, parameters },
});

async function asked(model: keyof typeof shipped, body: object, path = '/v1/chat/completions') {
  await gateway.post({ model, messages: [said], ...body }, { path });
  return fieldsOf(upstream.requests.at(-1)?.json);
}

test('what a vendor refuses is named to clients of every kind', async () => {
  const tools = [{ name: 'weather', input_schema: { type: 'object' } }];
  const wish = {
    ...{ max_tokens: 50, tools, output_config: { effort: 'high' }, stop_sequences: ['.'] },
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  };
  const told = async (model: keyof typeof shipped, body: object, path: string) => {
    const reply = await gateway.post({ model, ...body }, { path });
    return reply.headers.get('x-tollgate-dropped-params');
  };
  const message = { messages: [said], ...wish };
  expect(await told('acme/deepseek', message, '/v1/messages')).toBe(
    'reasoning, parallel_tool_calls',
  );
  expect(await told('acme/grok', message, '/v1/messages')).toBe('stop');
  expect(await told('acme/mistral', { input: 'Weather?', user: 'me' }, '/v1/responses')).toBe(
    'user',
  );
});

test('DeepSeek: «Thinking mode does not support this tool_choice»', async () => {
  const { function: weather } = tool('weather');
  for (const tool_choice of ['required', { type: 'function', function: { name: weather.name } }]) {
    const wish = { tools: [tool('weather')], tool_choice, reasoning_effort: 'high' };
    const body = await asked('acme/deepseek', wish);
    expect(body).toMatchObject({ tool_choice, thinking: { type: 'disabled' } });
    expect(body.reasoning_effort).toBeUndefined();
  }
  const free = await asked('acme/deepseek', { tools: [tool('weather')], tool_choice: 'auto' });
  expect(free.thinking).toBeUndefined();
});

test('Mistral: «Expected last role User or Tool (or Assistant with prefix True)»', async () => {
  const begun = [said, { role: 'assistant', content: 'Well,' }];
  for (const messages of [begun, [{ role: 'system', content: 'Greet.' }]]) {
    const body = await asked('acme/mistral', { messages });
    expect(objectsIn(body.messages).at(-1)?.role).toBe('user');
  }
});

test.each(['acme/mistral', 'acme/grok'] as const)(
  '%s: an assistant message must have content or tool calls',
  async (model) => {
    const stopped = { role: 'assistant', content: '' };
    const body = await asked(model, { messages: [said, stopped, { ...said, content: 'Now?' }] });
    const contents = objectsIn(body.messages).map(({ content }) => content);
    expect(contents).toEqual(['Weather?', 'Now?']);
  },
);

test('Groq: «json mode cannot be combined with tool/function calling»', async () => {
  const wish = { tools: [tool('weather')], response_format: { type: 'json_object' } };
  const body = await asked('acme/oss', wish);
  expect([body.response_format, objectsIn(body.tools)]).toEqual([undefined, wish.tools]);
  expect(JSON.stringify(body.messages)).toContain('JSON');
});

test('Google: «Invalid function name. Must start with a letter or an underscore»', async () => {
  const tools = [tool('21st_builder'), tool('weather'), tool('weather')];
  const body = await asked('acme/gemini', { tools });
  const [offered] = objectsIn(body.tools);
  const names = objectsIn(offered?.functionDeclarations).map(({ name }) => String(name));
  // «Duplicate function declaration found» is its word for the last of them.
  expect(names).toHaveLength(2);
  for (const name of names) expect(name).toMatch(/^[A-Za-z_][\w.:-]{0,63}$/);
});

test('Anthropic: «Tool names must be unique», «must match JSON Schema draft 2020-12»', async () => {
  const number = { type: 'number' };
  const properties = {
    at: { type: 'array', items: [number, number] },
    radius: { type: 'number', minimum: 0, exclusiveMinimum: true },
  };
  const weather = tool('weather', { type: 'object', properties });
  const body = await asked('acme/opus', { tools: [weather, weather] });
  const newer = {
    at: { type: 'array', prefixItems: [number, number] },
    radius: { type: 'number', exclusiveMinimum: 0 },
  };
  expect(objectsIn(body.tools)).toEqual([
    { name: 'weather', input_schema: { type: 'object', properties: newer } },
  ]);
});

test('Claude before Opus 4.8 takes no instructions among the messages', async () => {
  const messages = [said, { role: 'system', content: 'Be brief.' }];
  const given = { max_tokens: 50, messages };
  const older = await asked('acme/haiku', given, '/v1/messages');
  expect(older.messages).toEqual([said]);
  expect(JSON.stringify(older.system)).toContain('Be brief.');
  const newer = await asked('acme/opus', given, '/v1/messages');
  expect(newer.messages).toEqual(messages);
});
