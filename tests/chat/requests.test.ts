import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { json, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

// Valid requests in every format, and the body that the upstream receives for each of them.

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  const efforts = { low: 'low', medium: 'medium', high: 'high', xhigh: 'high', max: 'high' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { vendor: base, claude: { dialect: 'anthropic', base_url: upstream.url } },
    models: [
      chatModel('acme/claude', [{ provider: 'claude', model: 'claude-up' }]),
      chatModel('acme/chat', [{ provider: 'vendor', model: 'chat-up' }]),
      chatModel('acme/second', [{ provider: 'vendor', model: 'second-up' }]),
      chatModel('acme/thinker', [{ provider: 'vendor', model: 'thinker-up', quirks: { efforts } }]),
      chatModel('acme/new', [
        {
          provider: 'vendor',
          model: 'new-up',
          quirks: { output_limit: 'max_completion_tokens', rename_params: { seed: 'random_seed' } },
        },
      ]),
      chatModel('acme/adaptive', [{ provider: 'vendor', model: 'adaptive-up' }], {
        thinking: 'adaptive',
      }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const messages = [{ role: 'user', content: 'hello' }];
const chat = { model: 'acme/chat', messages };

/** Returns the body that the upstream receives if a client sends `body`. */
async function forwarded(body: unknown): Promise<Record<string, unknown>> {
  const before = upstream.requests.length;
  const reply = await gateway.post(body);
  if (reply.status !== 200) throw new Error(`Rejected: ${reply.text}`);
  const seen = upstream.requests[before]?.json;
  if (!isObject(seen)) throw new Error('The upstream received no JSON object.');
  return seen;
}

const tool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    strict: true,
  },
};

describe('parameters', () => {
  test.each<[string, unknown]>([
    ['temperature', 0],
    ['temperature', 2],
    ['top_p', 0.5],
    ['max_tokens', 1],
    ['max_completion_tokens', 77],
    ['n', 2],
    ['tools', [tool]],
    ['tool_choice', 'none'],
    ['tool_choice', 'auto'],
    ['tool_choice', 'required'],
    ['tool_choice', { type: 'function', function: { name: 'get_weather' } }],
    ['parallel_tool_calls', false],
    ['response_format', { type: 'text' }],
    ['response_format', { type: 'json_object' }],
    [
      'response_format',
      { type: 'json_schema', json_schema: { name: 's', strict: true, schema: { type: 'object' } } },
    ],
    ['logprobs', true],
    ['top_logprobs', 20],
    ['logit_bias', { '50256': -100, '11': 100 }],
    ['stop', 'END'],
    ['stop', ['a', 'b']],
    ['frequency_penalty', -2],
    ['presence_penalty', 2],
    ['seed', 42],
    ['seed', -1],
    ['user', 'user-1'],
    ['reasoning_effort', 'high'],
    ['metadata', { order: '7' }],
    ['stream', false],
    ['some_vendor_extension', { nested: [1, { deep: true }] }],
    ['top_k', 40],
  ])('are passed to the upstream unchanged: %s %j', async (name, value) => {
    const seen = await forwarded({ ...chat, [name]: value });
    expect(seen).toEqual({ model: 'chat-up', messages, [name]: value });
  });

  test('are treated as not set if they are null', async () => {
    const nulls = Object.fromEntries(
      [
        'models',
        'input',
        'instructions',
        'stream',
        'stream_options',
        'temperature',
        'top_p',
        'max_tokens',
        'max_completion_tokens',
        'n',
        'tools',
        'tool_choice',
        'parallel_tool_calls',
        'response_format',
        'reasoning',
        'reasoning_effort',
        'logprobs',
        'top_logprobs',
        'logit_bias',
        'stop',
        'frequency_penalty',
        'presence_penalty',
        'seed',
        'user',
        'provider',
        'route',
      ].map((name) => [name, null]),
    );
    const seen = await forwarded({ ...nulls, ...chat });
    expect(seen.model).toBe('chat-up');
    expect(seen.messages).toEqual(messages);
  });

  test('are not forwarded if they are meant for the gateway', async () => {
    const seen = await forwarded({
      ...chat,
      models: ['acme/second'],
      provider: { order: ['vendor'], only: ['vendor'], ignore: [], allow_fallbacks: true },
      route: 'fallback',
      usage: { include: true },
      reasoning: { exclude: true },
    });
    expect(seen).toEqual({ model: 'chat-up', messages });
  });

  test("contain max_completion_tokens rather than max_tokens, under the provider's name for it", async () => {
    const both = { max_tokens: 10, max_completion_tokens: 20 };
    const plain = await forwarded({ ...chat, ...both });
    expect(plain).toEqual({ model: 'chat-up', messages, max_completion_tokens: 20 });
    const named = await forwarded({ model: 'acme/new', messages, max_tokens: 10 });
    expect(named).toEqual({ model: 'new-up', messages, max_completion_tokens: 10 });
  });

  test('are renamed if the provider has another name for them', async () => {
    const seen = await forwarded({ model: 'acme/new', messages, seed: 3 });
    expect(seen).toEqual({ model: 'new-up', messages, random_seed: 3 });
  });

  test('do not include stream_options if the request is not a stream', async () => {
    const seen = await forwarded({ ...chat, stream_options: { include_usage: true } });
    expect(seen).not.toHaveProperty('stream_options');
  });
});

describe('reasoning effort', () => {
  test.each([
    ['low', 'low'],
    ['medium', 'medium'],
    ['high', 'high'],
    ['xhigh', 'high'],
    ['max', 'high'],
    ['none', undefined],
  ])(
    "is mapped to the provider's value from either request field: %s to %p",
    async (effort, value) => {
      for (const spelling of [{ reasoning: { effort } }, { reasoning_effort: effort }]) {
        const seen = await forwarded({ model: 'acme/thinker', messages, ...spelling });
        expect(seen.reasoning_effort).toBe(value);
        expect(seen).not.toHaveProperty('reasoning');
      }
    },
  );

  test('is derived from a token budget, which adaptive models reject with 400', async () => {
    const reasoning = { budget_tokens: 2048 };
    const sent = await forwarded({ ...chat, reasoning });
    expect(sent).toEqual({ model: 'chat-up', messages, reasoning_effort: 'low' });
    upstream.reset();
    const refused = await gateway.post({ model: 'acme/adaptive', messages, reasoning });
    expect(refused.status).toBe(400);
    expect(refused.error).toMatchObject({
      type: 'invalid_request_error',
      param: 'reasoning.budget_tokens',
    });
    expect(refused.error.message).toContain('reasoning.effort');
    expect(upstream.requests).toHaveLength(0);
    const effort = { model: 'acme/adaptive', messages, reasoning: { effort: 'max' } };
    expect((await forwarded(effort)).reasoning_effort).toBe('max');
  });
});

describe('model selection', () => {
  test('uses model if it is set, and otherwise starts with the first entry of models', async () => {
    const alone = await forwarded({ models: ['acme/second', 'acme/chat'], messages });
    expect(alone).toEqual({ model: 'second-up', messages });
    const both = await forwarded({ ...chat, models: ['acme/second'] });
    expect(both).toEqual({ model: 'chat-up', messages });
  });

  const otherProblems = [{ messages: [] }, { messages: 'hi' }, { temperature: 'hot' }];
  const empty = { models: [] };
  const withoutModel = [
    {},
    { model: null },
    empty,
    { models: null },
    { ...empty, temperature: 'hot' },
  ];
  test.each([...withoutModel, ...otherProblems])(
    'rejects a request without a model, whatever else is invalid: %j',
    async (missing) => {
      const reply = await gateway.post({ messages, ...missing });
      expect(reply.status).toBe(400);
      expect(reply.error).toMatchObject({
        type: 'invalid_request_error',
        code: 400,
        param: 'model',
      });
    },
  );

  test('accepts at most 16 different models, including the first', async () => {
    const chain = Array.from({ length: 16 }, (_, i) => `acme/unknown-${i}`);
    const tooLong = await gateway.post({ ...chat, models: chain });
    expect(tooLong.status).toBe(400);
    expect(tooLong.error.param).toBe('models');
    // These are 16 different models, because acme/chat is repeated.
    const fits = { ...chat, models: [...chain.slice(0, 15), 'acme/chat'] };
    expect((await gateway.post(fits)).status).toBe(200);
  });
});

describe('messages', () => {
  test('pass unchanged in every role and part type, with names and unknown fields', async () => {
    const pixel = 'data:image/png;base64,iVBORw0KGgo=';
    const conversation = [
      { role: 'system', content: 'Be brief.', name: 'rules' },
      { role: 'developer', content: [{ type: 'text', text: 'Be kind.' }] },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look', cache_control: { type: 'ephemeral' } },
          { type: 'image_url', image_url: { url: 'https://example.test/a.png', detail: 'low' } },
          { type: 'image_url', image_url: { url: pixel } },
          { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
          { type: 'file', file: { file_data: 'data:application/pdf;base64,JVBERg==' } },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'result' },
      { role: 'assistant', content: [{ type: 'text', text: 'Well' }], refusal: null },
      { role: 'user', content: '' },
    ];
    const seen = await forwarded({ ...chat, messages: conversation });
    expect(seen.messages).toEqual(conversation);
  });
});

describe('a chat request in the Responses format', () => {
  const claudeAnswer = {
    ...{ id: 'm', type: 'message', role: 'assistant', model: 'claude-up' },
    ...{ content: [{ type: 'text', text: 'Rain.' }], stop_reason: 'end_turn' },
    usage: { input_tokens: 3, output_tokens: 2 },
  };

  test('becomes one user message after the instructions if its input is a string', async () => {
    const input = { model: 'acme/chat', input: 'What is it?' };
    expect(await forwarded(input)).toEqual({
      model: 'chat-up',
      messages: [{ role: 'user', content: 'What is it?' }],
    });
    expect(await forwarded({ ...input, instructions: 'Be brief.', messages: null })).toEqual({
      model: 'chat-up',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'What is it?' },
      ],
    });
  });

  test('may combine instructions with messages without shifting error paths', async () => {
    const messages = [{ role: 'user', content: 'What is it?' }];
    const request = { model: 'acme/chat', messages, instructions: 'Be brief.' };
    expect((await forwarded(request)).messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      ...messages,
    ]);
    const invalid = await gateway.post({ ...request, messages: [{ role: 'user', content: 4 }] });
    expect([invalid.status, invalid.error.param]).toEqual([400, 'messages[0].content']);
  });

  test('has its input items converted to messages', async () => {
    const image = { type: 'input_image', image_url: 'https://example.test/a.png', detail: 'high' };
    const seen = await forwarded({
      model: 'acme/chat',
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'Weather?' }, image] },
        { type: 'reasoning', id: 'rs_1', encrypted_content: 'abc' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hm' }] },
        { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":1}' },
        { type: 'function_call', call_id: 'c2', name: 'g', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'sun' },
        {
          type: 'function_call_output',
          call_id: 'c2',
          output: [{ type: 'input_text', text: 'rain' }],
        },
      ],
    });
    const call = (id: string, name: string, args: string) => ({
      id,
      type: 'function',
      function: { name, arguments: args },
    });
    const url = { url: 'https://example.test/a.png', detail: 'high' };
    expect(seen.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Weather?' },
          { type: 'image_url', image_url: url },
        ],
      },
      {
        role: 'assistant',
        content: 'Hm',
        tool_calls: [call('c1', 'f', '{"a":1}'), call('c2', 'g', '{}')],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'sun' },
      { role: 'tool', tool_call_id: 'c2', content: 'rain' },
    ]);
    expect(seen).not.toHaveProperty('input');
    expect(seen).not.toHaveProperty('instructions');
  });

  test('has its other parameters converted to chat parameters or dropped', async () => {
    const schema = { type: 'object', properties: {} };
    const format = { type: 'json_schema', name: 'weather', schema, strict: true };
    const seen = await forwarded({
      model: 'acme/chat',
      input: 'Weather?',
      text: { format, verbosity: 'low' },
      include: ['reasoning.encrypted_content'],
      truncation: 'auto',
      max_tool_calls: 4,
      store: false,
      previous_response_id: null,
    });
    expect(seen).toEqual({
      model: 'chat-up',
      messages: [{ role: 'user', content: 'Weather?' }],
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'weather', schema, strict: true },
      },
      store: false,
    });
  });

  test.each([
    ['acme/chat', { truncation: 'auto', max_tool_calls: 4 }, 'max_tool_calls, truncation'],
    ['acme/chat', { text: { verbosity: 'low' }, n: 1 }, 'text.verbosity'],
    ['acme/chat', { client_metadata: { a: 'b' } }, 'client_metadata'],
    ['acme/claude', { include: ['message.output_text.logprobs'], top_a: 1 }, 'top_a, include'],
    ['acme/chat', { include: ['reasoning.encrypted_content'], truncation: 'disabled' }, null],
    ['acme/chat', { text: { verbosity: 'medium' }, client_metadata: null }, null],
  ])('reports the parameters dropped for %s from %j: %s', async (model, more, dropped) => {
    if (model === 'acme/claude') upstream.script('claude-up', json(200, claudeAnswer));
    const reply = await gateway.post({ model, input: 'Weather?', ...more });
    expect([reply.status, reply.headers.get('x-tollgate-dropped-params')]).toEqual([200, dropped]);
  });

  test.each([
    [{ text: { format: { type: 'json_schema', schema: {} } } }, 'text.format.name'],
    [{ include: 'everything' }, 'include'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ conversation: 'conv_1' }, 'conversation'],
    [{ background: true }, 'background'],
  ])('is rejected as it is on the Responses endpoint: %j', async (more, param) => {
    const reply = await gateway.post({ model: 'acme/chat', input: 'Weather?', ...more });
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(upstream.requests).toHaveLength(0);
  });

  test('is rejected if it has both messages and input', async () => {
    const reply = await gateway.post({ ...chat, input: 'too much' });
    expect(reply.status).toBe(400);
    expect(reply.error.param).toBe('input');
    expect(upstream.requests).toHaveLength(0);
  });

  test('can be streamed', async () => {
    const stream = await gateway.stream({ model: 'acme/chat', input: 'hi' });
    expect(stream.content).toBe('ok');
    expect(stream.doneCount).toBe(1);
  });
});

test("returns the gateway's id and model, the usage with its cost, and the provider", async () => {
  const reply = await gateway.post(chat);
  expect(reply.json).toMatchObject({
    id: `chatcmpl-${reply.requestId.replaceAll('-', '')}`,
    object: 'chat.completion',
    model: 'acme/chat',
    provider: 'vendor',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 1,
      completion_tokens: 1,
      total_tokens: 2,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
      cost: 3,
    },
  });
  expect(reply.text).not.toContain('chat-up');
});
