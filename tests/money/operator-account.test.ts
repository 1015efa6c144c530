/**
 * Options that vendors charge separately, and references to data stored in a vendor account.
 * Tenants can use both only with their own provider key (BYOK), not with the operator's account.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { type ByokTenant, makeByokTenant } from '../support/byok.ts';
import { chatAnswer, json, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;
let owner: ByokTenant;

const response = {
  id: 'resp_up',
  object: 'response',
  status: 'completed',
  model: 'responses-up',
  output: [],
  usage: { input_tokens: 10, output_tokens: 2, total_tokens: 12 },
};

const providers = ['openai', 'anthropic', 'responses', 'gemini'] as const;

beforeAll(async () => {
  const { url } = upstream;
  const at = (dialect: string, base = '/v1') => ({
    dialect,
    base_url: url + base,
    api_key: 'k-op',
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      openai: at('openai'),
      anthropic: at('anthropic'),
      responses: at('openai-responses'),
      gemini: at('gemini', '/v1beta'),
      mine: { ...at('openai'), quirks: { separately_priced: 'keep' } },
      bare: { ...at('openai'), quirks: { drop_params: ['tools'] } },
      far: { ...at('gemini'), base_url: 'https://vendor.example/v1beta' },
    },
    models: [
      ...providers.map((provider) =>
        chatModel(`acme/${provider}`, [{ provider, model: `${provider}-up` }]),
      ),
      chatModel('acme/mine', [{ provider: 'mine', model: 'mine-up' }]),
      chatModel('acme/bare', [{ provider: 'bare', model: 'bare-up' }]),
      chatModel('acme/far', [{ provider: 'far', model: 'far-up' }]),
      chatModel('acme/speaker', [{ provider: 'openai', model: 'openai-up' }], {
        output_modalities: ['text', 'audio'],
      }),
    ],
  });
  owner = await makeByokTenant(gateway, 'owner');
  for (const provider of providers) await owner.setProviderKey(provider, { api_key: 'k-own' });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => {
  upstream.reset();
  upstream.script('responses-up', json(200, response));
  upstream.script('*', chatAnswer('Yes.'));
});

type Client = 'chat' | 'messages' | 'responses';

const paths: Readonly<Record<Client, string>> = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
};
const hi = [{ role: 'user', content: 'Hi' }];
const bodies: Readonly<Record<Client, object>> = {
  chat: { model: 'acme/openai', messages: hi },
  messages: { model: 'acme/anthropic', messages: hi, max_tokens: 50 },
  responses: { model: 'acme/responses', input: 'Hi' },
};

function send(client: Client, more: object, key = gateway.keys.routing) {
  return gateway.post({ ...bodies[client], ...more }, { path: paths[client], key });
}

/** Returns the values that these fields have in the last request to the vendor. */
function sent(fields: object): object {
  const body = upstream.requests.at(-1)?.json;
  const request = isObject(body) ? body : {};
  return Object.fromEntries(Object.keys(fields).map((name) => [name, request[name]]));
}

const look = { type: 'function', name: 'look', parameters: {} };
const claudeLook = { name: 'look', input_schema: { type: 'object' } };
const addition = (definition: object) => ({
  type: 'tool_addition',
  tool: { type: 'tool_definition', definition },
});
const pdf = 'JVBERi0xLjQK';

/** Vendor field names inside data that belongs to the client or the model. */
const clientData = { file_id: 'f', container_id: 'c', container: 'c', data_sources: ['d'] };
const sampleSchema = {
  type: 'object',
  properties: {
    file_id: { type: 'string', default: 'file-1' },
    source: { default: clientData, const: clientData, enum: [clientData], examples: [clientData] },
  },
  required: ['file_id'],
  dependentRequired: { file_id: ['source'] },
};
const called = {
  id: 'call_1',
  type: 'function',
  function: { name: 'look', arguments: JSON.stringify(clientData) },
};
const serverToolBlocks = [
  { type: 'server_tool_use', id: 'srvtoolu_1', name: 'code_execution', input: clientData },
  {
    type: 'code_execution_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: { type: 'code_execution_result', content: [{ file_id: 'file_1' }] },
  },
  { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'look', server_name: 'm', input: clientData },
  { type: 'text', text: 'Yes.', citations: [{ type: 'char_location', file_id: 'file_1' }] },
];
const serverToolItems = [
  { type: 'code_interpreter_call', id: 'ci_1', container_id: 'cntr_1', code: '1', outputs: [] },
  { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'iVBORw0KGgo=' },
  { type: 'mcp_list_tools', server_label: 'm', tools: [{ name: 'a', input_schema: sampleSchema }] },
  {
    role: 'assistant',
    content: [
      {
        type: 'output_text',
        text: 'Yes.',
        annotations: [{ type: 'container_file_citation', container_id: 'c', file_id: 'f' }],
      },
    ],
  },
];

describe('separately priced option', () => {
  const fields: readonly [Client, object][] = [
    ['chat', { service_tier: 'priority' }],
    ['chat', { service_tier: 'ultrafast' }],
    ['chat', { search_parameters: { mode: 'on' } }],
    ['chat', { enable_search: true }],
    ['chat', { web_search: { enable: true } }],
    ['chat', { deferred: true }],
    ['chat', { preset: 'pricier' }],
    ['chat', { fallbacks: ['pricier'] }],
    ['chat', { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'mp3' } }],
    ['chat', { tools: [{ type: 'web_search_preview' }] }],
    ['messages', { speed: 'fast' }],
    ['messages', { fallbacks: [{ model: 'claude-pricier' }] }],
    ['messages', { container: { skills: [{ type: 'anthropic', skill_id: 'pptx' }] } }],
    ['messages', { priority: -1 }],
    ['responses', { service_tier: 'priority' }],
    ['responses', { service_tier: 'ultrafast' }],
    ['responses', { service_tier: 'of-tomorrow' }],
    ['responses', { kv_transfer_params: { remote_host: '10.0.0.5' } }],
  ];
  test.each(fields)(
    "is dropped from %s only with the operator's account: %j",
    async (client, more) => {
      const reply = await send(client, more);
      expect(reply.status).toBe(200);
      const names = Object.keys(more).map((name) => (name === 'tools' ? 'tools[0]' : name));
      expect(reply.headers.get('x-tollgate-dropped-params')).toBe(names.join(', '));
      const dropped = Object.fromEntries(Object.keys(more).map((name) => [name, undefined]));
      expect(sent(more)).toEqual(dropped);
      const own = await send(client, more, owner.key);
      expect([own.status, own.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
      expect(sent(more)).toEqual({ ...more });
    },
  );

  const tools: readonly [Client, object][] = [
    ['messages', { type: 'advisor_20260301', name: 'advisor', model: 'claude-opus-5' }],
    ['messages', { type: 'web_search_20250305', name: 'web_search' }],
    ['messages', { type: 'code_execution_20250825', name: 'code_execution' }],
    ['responses', { type: 'web_search' }],
    ['responses', { type: 'web_search_preview' }],
    ['responses', { type: 'x_search' }],
    ['responses', { type: 'browser_search' }],
    ['responses', { type: 'collections_search' }],
    ['responses', { type: 'file_search' }],
    ['responses', { type: 'openrouter:web_search' }],
    ['responses', { type: 'image_generation', quality: 'high' }],
    ['responses', { type: 'code_interpreter', container: { type: 'auto' } }],
    ['responses', { type: 'shell', environment: { type: 'container_auto' } }],
  ];
  test.each(tools)('is dropped as a tool of %s: %j', async (client, tool) => {
    const own = client === 'messages' ? claudeLook : look;
    const more = { tools: [own, tool] };
    const reply = await send(client, more);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[1]');
    expect(sent(more)).toEqual({ tools: [own] });
    expect((await send(client, more, owner.key)).status).toBe(200);
    expect(sent(more)).toEqual(more);
  });
});

describe('option without a separate price', () => {
  test.each<[Client, object]>([
    [
      'chat',
      { service_tier: 'flex', modalities: ['text'], novelty: { a: 1 }, web_search_options: {} },
    ],
    ['chat', { enable_search: false, deferred: false }],
    ['chat', { service_tier: 'on_demand' }],
    ['messages', { service_tier: 'standard_only' }],
    ['responses', { service_tier: 'default', access_programs: { cyber: 'standard' } }],
    ['chat', { model: 'acme/speaker', modalities: ['text', 'audio'], audio: { voice: 'alloy' } }],
    ['chat', { metadata: { file_id: 'file-1' }, novelty: { file_id: null, file_ids: [] } }],
    [
      'chat',
      {
        guided_json: sampleSchema,
        chat_template_kwargs: clientData,
        novelty: { container: 'mp4' },
      },
    ],
    ['chat', { documents: [{ file_id: 'file-1', text: 'Rubies are red.' }] }],
    ['chat', { messages: content(file({ file_data: pdf, filename: 'C:\\a.pdf' })) }],
    ['chat', { messages: content(file({ file_data: `data:a/b;name=c:d.pdf;base64,${pdf}` })) }],
    [
      'chat',
      {
        messages: [
          ...hi,
          { role: 'assistant', content: null, tool_calls: [called] },
          { role: 'tool', tool_call_id: 'call_1', content: JSON.stringify(clientData) },
        ],
        tools: [{ type: 'function', function: { name: 'look', parameters: sampleSchema } }],
      },
    ],
    ['messages', { messages: [...hi, { role: 'assistant', content: serverToolBlocks }, ...hi] }],
    [
      'messages',
      { tools: [{ ...claudeLook, input_schema: sampleSchema, input_examples: [clientData] }] },
    ],
    [
      'messages',
      {
        messages: [
          ...hi,
          { role: 'system', content: [addition({ ...claudeLook, input_examples: [clientData] })] },
        ],
      },
    ],
    ['responses', { input: [...hi, ...serverToolItems] }],
    ['responses', { tools: [{ type: 'tool_search', parameters: sampleSchema }, look] }],
    ['messages', { inference_geo: 'global', context_management: { edits: [] } }],
    ['messages', { mcp_servers: [{ type: 'url', url: 'https://mcp.example.com', name: 'm' }] }],
    ['messages', { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }, claudeLook] }],
    ['responses', { tools: [{ type: 'shell', environment: { type: 'local' } }, look] }],
    ['responses', { tools: [{ type: 'mcp', server_label: 'm', server_url: 'https://m.example' }] }],
    ['responses', { tools: [{ ...look, parameters: { properties: { file_id: {} } } }] }],
  ])("is forwarded with the operator's account, %s: %j", async (client, more) => {
    const reply = await send(client, more);
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
    const { model: _, ...rest } = { model: '', ...more };
    expect(sent(rest)).toEqual(rest);
  });
});

test('separately_priced: keep forwards priced options, but rejects references', async () => {
  const more = {
    model: 'acme/mine',
    service_tier: 'priority',
    tools: [{ type: 'web_search_preview' }],
  };
  const reply = await send('chat', more);
  expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, null]);
  expect(sent(more)).toEqual({ ...more, model: 'mine-up' });
  const rejected = await send('chat', { model: 'acme/mine', novelty: { file_id: 'file-1' } });
  expect([rejected.status, upstream.requests.length]).toEqual([400, 1]);
});

test('drops all tools, including priced ones, for a provider without tools', async () => {
  const tools = [
    { type: 'web_search_preview' },
    { type: 'function', function: { name: 'f', parameters: {} } },
  ];
  const reply = await send('chat', { model: 'acme/bare', tools });
  expect([reply.status, sent({ tools })]).toEqual([200, { tools: undefined }]);
});

describe('tool_choice of a dropped tool', () => {
  test.each<[Client, object, object]>([
    [
      'chat',
      { tools: [{ type: 'web_search_preview' }], tool_choice: 'auto', parallel_tool_calls: false },
      { tools: undefined, tool_choice: undefined, parallel_tool_calls: undefined },
    ],
    [
      'messages',
      {
        tools: [{ type: 'web_search_20250305', name: 'web_search' }, claudeLook],
        tool_choice: { type: 'tool', name: 'web_search' },
      },
      { tools: [claudeLook], tool_choice: undefined },
    ],
    [
      'messages',
      {
        tools: [{ type: 'web_search_20250305', name: 'web_search' }, claudeLook],
        tool_choice: { type: 'tool', name: 'look' },
      },
      { tools: [claudeLook], tool_choice: { type: 'tool', name: 'look' } },
    ],
    [
      'responses',
      { tools: [{ type: 'image_generation' }, look], tool_choice: { type: 'image_generation' } },
      { tools: [look], tool_choice: undefined },
    ],
    [
      'responses',
      { tools: [{ type: 'image_generation' }], tool_choice: 'required' },
      { tools: undefined, tool_choice: undefined },
    ],
    [
      'responses',
      {
        tools: [{ type: 'image_generation' }, look],
        tool_choice: {
          type: 'allowed_tools',
          mode: 'auto',
          tools: [{ type: 'image_generation' }, { type: 'function', name: 'look' }],
        },
      },
      {
        tools: [look],
        tool_choice: {
          type: 'allowed_tools',
          mode: 'auto',
          tools: [{ type: 'function', name: 'look' }],
        },
      },
    ],
  ])('is adjusted for %s: %j', async (client, more, expected) => {
    expect((await send(client, more)).status).toBe(200);
    expect(sent(more)).toEqual(expected);
  });
});

test.each(['additional_tools', 'tool_search_output'])(
  'priced tools in an input item are dropped: %s',
  async (type) => {
    const added = (...tools: object[]) => [
      { type, tools },
      { role: 'user', content: 'Hi' },
    ];
    const reply = await send('responses', { input: added({ type: 'image_generation' }, look) });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('input[0].tools[0]');
    expect(sent({ input: 0 })).toEqual({ input: added(look) });
  },
);

describe('tools that a message adds', () => {
  const reference = (type: string, name: string) => ({
    type,
    tool: { type: 'tool_reference', name },
  });
  const search = { type: 'web_search_20260318', name: 'web_search' };
  const withSystemBlocks = (...blocks: object[]) => [...hi, { role: 'system', content: blocks }];

  test('are dropped if priced, with all references to them', async () => {
    const kept = [{ type: 'text', text: 'Look it up.' }, addition(claudeLook)];
    const messages = [
      ...withSystemBlocks(...kept, addition(search), reference('tool_removal', 'look')),
      ...withSystemBlocks(reference('tool_removal', 'web_search')),
    ];
    const reply = await send('messages', { messages });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
      'messages[1].content[2], messages[3].content[0]',
    );
    const left = [...withSystemBlocks(...kept, reference('tool_removal', 'look')), ...hi];
    expect([reply.status, sent({ messages })]).toEqual([200, { messages: left }]);
    await send('messages', { messages }, owner.key);
    expect(sent({ messages })).toEqual({ messages });
  });

  test('are dropped from the tool changes of a summary', async () => {
    const summary = { type: 'compaction', content: 'They looked.', signature: 'EqYC' };
    const withChanges = (...tool_changes: object[]) => [
      { role: 'assistant', content: [{ ...summary, tool_changes }] },
      ...hi,
    ];
    const messages = withChanges(addition(claudeLook), addition(search));
    const reply = await send('messages', { messages });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe(
      'messages[0].content[0].tool_changes[1]',
    );
    expect([reply.status, sent({ messages })]).toEqual([
      200,
      { messages: withChanges(addition(claudeLook)) },
    ]);
    await send('messages', { messages }, owner.key);
    expect(sent({ messages })).toEqual({ messages });
  });

  test('are dropped if they reference a dropped tool', async () => {
    const more = { tools: [search, claudeLook], messages: withSystemBlocks() };
    const referencing = withSystemBlocks(reference('tool_addition', 'web_search'));
    const reply = await send('messages', { ...more, messages: referencing });
    expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tools[0], messages[1].content[0]');
    expect(sent(more)).toEqual({ tools: [claudeLook], messages: hi });
  });
});

const content = (part: object) => [{ role: 'user', content: [{ type: 'text', text: 'Hi' }, part] }];
const inputs = (part: object) => [{ role: 'user', content: [part] }];
const item = (output: object) => [{ type: 'novelty_output', call_id: 'c', output }];

const references: readonly [Client, object, string][] = [
  [
    'chat',
    { messages: content(file({ file_id: 'file-1' })) },
    'messages[0].content[1].file.file_id',
  ],
  [
    'chat',
    { messages: content(file({ file_data: 'gs://bucket/a.pdf' })) },
    'messages[0].content[1].file.file_data',
  ],
  [
    'chat',
    { messages: [...hi, { role: 'assistant', audio: { id: 'audio_1' } }, ...hi] },
    'messages[1].audio.id',
  ],
  ['chat', { extra: { cached_content: 'cachedContents/a' } }, 'extra.cached_content'],
  ['chat', { data_sources: [{ type: 'azure_search', parameters: {} }] }, 'data_sources'],
  [
    'messages',
    { messages: content({ type: 'document', source: { type: 'file', file_id: 'file_1' } }) },
    'messages[0].content[1].source.file_id',
  ],
  [
    'messages',
    { messages: content({ type: 'container_upload', file_id: 'file_1' }) },
    'messages[0].content[1].file_id',
  ],
  ['messages', { container: 'container_1' }, 'container'],
  ['messages', { container: { id: 'container_1' } }, 'container.id'],
  [
    'responses',
    { novelty: [{ environment: { container_id: 'c' } }] },
    'novelty[0].environment.container_id',
  ],
  ['messages', { inference_geo: 'us' }, 'inference_geo'],
  [
    'responses',
    { input: inputs({ type: 'input_image', file_id: 'file-1' }) },
    'input[0].content[0].file_id',
  ],
  [
    'responses',
    { input: inputs({ type: 'input_file', file_id: 'file-1' }) },
    'input[0].content[0].file_id',
  ],
  ['responses', { input: [{ type: 'image_generation_call', id: 'ig_1' }, ...hi] }, 'input[0].id'],
  ['responses', { input: item({ type: 'screenshot', file_id: 'f' }) }, 'input[0].output.file_id'],
  [
    'responses',
    { tools: [{ type: 'file_search', vector_store_ids: ['vs_1'] }] },
    'tools[0].vector_store_ids',
  ],
  [
    'responses',
    { tools: [{ type: 'code_interpreter', container: 'cntr_1' }] },
    'tools[0].container',
  ],
  [
    'responses',
    { tools: [{ type: 'code_interpreter', container: { type: 'auto', file_ids: ['file-1'] } }] },
    'tools[0].container.file_ids',
  ],
  [
    'responses',
    { tools: [{ type: 'mcp', server_label: 'm', tunnel_id: 'tunnel_1' }] },
    'tools[0].tunnel_id',
  ],
  ['responses', { access_programs: { cyber: 'daybreak_blue' } }, 'access_programs'],
];

function file(fields: object) {
  return { type: 'file', file: fields };
}

describe('reference to data in a vendor account', () => {
  test.each(references)('is rejected without BYOK, %s: %j', async (client, more, param) => {
    const reply = await send(client, more);
    expect([reply.status, upstream.requests]).toEqual([400, []]);
    expect(String(reply.error.message)).toStartWith(`${param} `);
    if (client !== 'messages') expect(reply.error.param).toBe(param);
    expect((await gateway.record(reply.requestId)).charges).toMatchObject({ modelCharge: 0 });
    expect((await send(client, more, owner.key)).status).toBe(200);
    expect(sent(more)).toEqual({ ...more });
  });

  test('is rejected for every dialect', async () => {
    for (const provider of providers) {
      const messages = content(file({ file_id: 'file-1' }));
      const reply = await send('chat', { model: `acme/${provider}`, messages });
      expect([provider, reply.status]).toEqual([provider, 400]);
    }
    expect(upstream.requests).toEqual([]);
  });

  test('is rejected if it is a URL of the provider', async () => {
    const file_url = 'https://vendor.example/v1beta/files/abc';
    const input = inputs({ type: 'input_file', file_url });
    const reply = await send('responses', { model: 'acme/far', input });
    expect([reply.status, reply.error.param]).toEqual([400, 'input[0].content[0].file_url']);
  });

  test('is rejected if it is an image URL of the provider', async () => {
    const image_url = { url: 'https://vendor.example/v1beta/files/abc' };
    const messages = content({ type: 'image_url', image_url });
    const reply = await send('chat', { model: 'acme/far', messages });
    const param = 'messages[0].content[1].image_url.url';
    expect([reply.status, reply.error.param]).toEqual([400, param]);
  });
});

test("a request with such a reference does not fall back to the operator's account", async () => {
  upstream.script('openai-up', status500());
  const receivedKeys = () => upstream.requests.map(({ headers }) => headers.authorization);
  await send('chat', {}, owner.key);
  expect(receivedKeys()).toEqual(['Bearer k-own', 'Bearer k-op']);
  upstream.reset();
  upstream.script('openai-up', status500());
  const messages = content(file({ file_id: 'file-1' }));
  expect((await send('chat', { messages }, owner.key)).status).toBe(502);
  expect(receivedKeys()).toEqual(['Bearer k-own']);
});

test("count_tokens does not send such a reference with the operator's account", async () => {
  const source = { type: 'file', file_id: 'file_1' };
  const messages = content({ type: 'document', source });
  const count = (key: string) =>
    gateway.post({ model: 'acme/anthropic', messages }, { path: '/v1/messages/count_tokens', key });
  expect((await count(gateway.keys.routing)).status).toBe(200);
  expect(upstream.requests).toEqual([]);
  await count(owner.key);
  expect(upstream.requests).toMatchObject([{ path: '/v1/messages/count_tokens' }]);
});
