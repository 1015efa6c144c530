import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

// Invalid requests: the error names the exact field, and nothing is sent upstream.

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const vendor = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000, body_bytes: 2_000_000 },
    providers: { vendor },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: 'chat-up' }]),
      chatModel('acme/limited-images', [{ provider: 'vendor', model: 'limited-images-up' }], {
        image_limits: { long_edge_px: 2576, megapixels: 3.75 },
      }),
      chatModel('acme/text-only', [{ provider: 'vendor', model: 'text-up' }], {
        input_modalities: ['text'],
        features: [],
      }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
afterEach(() => expect(upstream.requests).toHaveLength(0));

const messages = [{ role: 'user', content: 'hello' }];
const chat = { model: 'acme/chat', messages };

const toolWith = (parameters: object) => ({
  tools: [{ type: 'function', function: { name: 'f', parameters } }],
});

async function expectRejected(body: unknown, param: string | null, status = 400) {
  const reply = await gateway.post(body);
  expect([reply.status, reply.error.param]).toEqual([status, param]);
  expect(reply.error).toMatchObject({ type: 'invalid_request_error', code: status });
  expect(reply.error).not.toHaveProperty('metadata');
  expect(reply.headers.get('x-should-retry')).toBe('false');
  expect(reply.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  return reply;
}

test('logs a rejected request with the model from its body', async () => {
  const { requestId } = await expectRejected({ model: 'acme/chat', messages: 'none' }, 'messages');
  const { json } = await gateway.get(`/v1/customer/logs?model=${encodeURIComponent('acme/chat')}`);
  const row = { request_id: requestId, model: 'acme/chat' };
  expect(json.logs).toContainEqual(expect.objectContaining(row));
});

describe('number validation', () => {
  const invalidCounts = ['-1', '0', '1.5', '1e999', '-1e999', '"5"', 'true', '[]', '{}', '1e300'];

  for (const name of ['max_tokens', 'max_completion_tokens', 'n']) {
    test.each(invalidCounts)(`rejects an invalid ${name}: %s`, async (value) => {
      await expectRejected(`{"model":"acme/chat","${name}":${value},"messages":[]}`, name);
    });
    test.each(['9007199254740993', '18446744073686646784'])(
      `rejects an unsafe integer in ${name}: %s`,
      async (value) => {
        await expectRejected(`{"model":"acme/chat","${name}":${value},"messages":[]}`, name);
      },
    );
  }

  test.each([
    ['temperature', -0.1],
    ['temperature', 2.1],
    ['temperature', '1'],
    ['top_p', -1],
    ['top_p', 1.5],
    ['frequency_penalty', -2.5],
    ['presence_penalty', 3],
    ['top_logprobs', 21],
    ['top_logprobs', 1.5],
    ['seed', 1.5],
    ['seed', 'x'],
  ])('rejects an invalid %s: %p', async (name, value) => {
    await expectRejected({ ...chat, [name]: value }, name);
  });

  test('rejects numbers too large for a double', async () => {
    for (const name of ['temperature', 'top_p', 'seed', 'frequency_penalty']) {
      await expectRejected(`{"${name}":1e999,"model":"acme/chat","messages":[]}`, name);
    }
  });
});

describe('the param of an error', () => {
  const part = (content: unknown) => ({ messages: [...messages, { role: 'user', content }] });
  test.each<[object, string]>([
    [{ model: 5 }, 'model'],
    [{ model: '' }, 'model'],
    [{ models: 'acme/chat' }, 'models'],
    [{ models: ['acme/chat', 7] }, 'models[1]'],
    [{ models: Array.from({ length: 17 }, (_, i) => `a/${i}`) }, 'models'],
    [{ messages: [] }, 'messages'],
    [{ messages: 'hello' }, 'messages'],
    [{ messages: {} }, 'messages'],
    [{ messages: [{ content: 'x' }] }, 'messages[0].role'],
    [{ messages: [...messages, { role: 'robot', content: 'x' }] }, 'messages[1].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: { text: 'x' } }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: [] }] }, 'messages[0].content'],
    [part(['x']), 'messages[1].content[0]'],
    [part([{ text: 'x' }]), 'messages[1].content[0].type'],
    [part([{ type: 'video', text: 'x' }]), 'messages[1].content[0].type'],
    [part([{ type: 'text' }]), 'messages[1].content[0].text'],
    [
      part([
        { type: 'text', text: 'ok' },
        { type: 'text', text: 1 },
      ]),
      'messages[1].content[1].text',
    ],
    [part([{ type: 'image_url' }]), 'messages[1].content[0].image_url'],
    [part([{ type: 'image_url', image_url: 'x' }]), 'messages[1].content[0].image_url'],
    [
      part([{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }]),
      'messages[1].content[0].image_url.url',
    ],
    [part([{ type: 'input_audio', input_audio: {} }]), 'messages[1].content[0].input_audio.data'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f' } }] }] },
      'messages[0].tool_calls[0].function.arguments',
    ],
    [{ stream: 'yes' }, 'stream'],
    [{ stream_options: { include_usage: 1 } }, 'stream_options.include_usage'],
    [{ tools: {} }, 'tools'],
    [{ tools: [{ type: 'magic', function: { name: 'f' } }] }, 'tools[0].type'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].function'],
    [{ tools: [{ type: 'function', function: {} }] }, 'tools[0].function.name'],
    [{ tools: [{ type: 'function', function: { name: 'a b' } }] }, 'tools[0].function.name'],
    [
      { tools: [{ type: 'function', function: { name: 'f', parameters: 'x' } }] },
      'tools[0].function.parameters',
    ],
    [{ tools: [{ type: 'function', name: 'f', function: null }] }, 'tools[0].function'],
    [{ tools: [{ type: 'function', name: 'f', function: {} }] }, 'tools[0].function.name'],
    [toolWith({ type: 5 }), 'tools[0].function.parameters.type'],
    [toolWith({ properties: 'city' }), 'tools[0].function.parameters.properties'],
    [toolWith({ required: 'city' }), 'tools[0].function.parameters.required'],
    [toolWith({ required: ['city', 5] }), 'tools[0].function.parameters.required[1]'],
    [{ tool_choice: 'maybe' }, 'tool_choice'],
    [{ tool_choice: { type: 'function' } }, 'tool_choice.function'],
    [{ tool_choice: { type: 'function', name: 'f', function: null } }, 'tool_choice.function'],
    [{ response_format: 'json' }, 'response_format'],
    [{ response_format: { type: 'yaml' } }, 'response_format.type'],
    [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
    [
      { response_format: { type: 'json_schema', json_schema: {} } },
      'response_format.json_schema.name',
    ],
    [{ reasoning: 'high' }, 'reasoning'],
    [{ reasoning: { effort: 'extreme' } }, 'reasoning.effort'],
    [{ reasoning: { budget_tokens: 0 } }, 'reasoning.budget_tokens'],
    [{ reasoning_effort: 'extreme' }, 'reasoning_effort'],
    [{ logprobs: 1 }, 'logprobs'],
    [{ logit_bias: { '5': 101 } }, 'logit_bias.5'],
    [{ logit_bias: [] }, 'logit_bias'],
    [{ stop: 5 }, 'stop'],
    [{ stop: ['a', 5] }, 'stop[1]'],
    [{ user: 5 }, 'user'],
    [{ safety_identifier: 5 }, 'safety_identifier'],
    [{ prompt_cache_key: {} }, 'prompt_cache_key'],
    [{ verbosity: 'loud' }, 'verbosity'],
    [{ provider: 'openai' }, 'provider'],
    [{ provider: { order: 'openai' } }, 'provider.order'],
    [{ provider: { only: [5] } }, 'provider.only[0]'],
    [{ provider: { sort: 'beauty' } }, 'provider.sort'],
    [{ provider: { allow_fallbacks: 'no' } }, 'provider.allow_fallbacks'],
    [{ provider: { max_price: { prompt: -1 } } }, 'provider.max_price.prompt'],
    [{ provider: { max_price: { prompt: 'cheap' } } }, 'provider.max_price.prompt'],
    [{ route: 'random' }, 'route'],
  ])('is the path of the invalid field: %j', async (fields, param) => {
    await expectRejected({ ...chat, ...fields }, param);
  });

  test.each<[unknown, string]>([
    ['', 'input'],
    [[], 'input'],
    [5, 'input'],
    [['text'], 'input[0]'],
    [[{ type: 'magic' }], 'input[0].type'],
    [[{ role: 'user' }], 'input[0].content'],
    [[{ role: 'robot', content: 'x' }], 'input[0].role'],
    [[{ role: 'user', content: [{ type: 'input_text' }] }], 'input[0].content[0].text'],
    [[{ type: 'function_call', name: 'f', arguments: '' }], 'input[0].call_id'],
    [[{ role: 'user', content: 'x' }, { type: 'function_call_output' }], 'input[1].call_id'],
  ])('is the path of the invalid field in input: %j', async (input, param) => {
    await expectRejected({ model: 'acme/chat', input }, param);
  });

  test('is `messages` if there are too many messages, detected within 5 seconds of CPU time', async () => {
    const many = Array.from({ length: 100_000 }, () => ({ role: 'user', content: '' }));
    const cpuBefore = process.cpuUsage();
    const small = JSON.stringify({ model: 'acme/chat', messages: many.slice(0, 50_000) });
    await expectRejected(small, 'messages');
    const { user, system } = process.cpuUsage(cpuBefore);
    expect((user + system) / 1_000).toBeLessThan(5_000);
    await expectRejected({ ...chat, messages: many }, null, 413);
  });

  test('is `messages` if both messages and input are missing', async () => {
    await expectRejected({ model: 'acme/chat' }, 'messages');
  });
});

describe('a body that is not a request', () => {
  test.each<[string, string | Uint8Array]>([
    ['empty', ''],
    ['truncated JSON', '{"model":"acme/chat","messages":['],
    ['an array', '[]'],
    ['a string', '"hello"'],
    ['null', 'null'],
    ['JSON with a comment', '{"model":"acme/chat",/* hi */"messages":[]}'],
    ['NaN', '{"model":"acme/chat","temperature":NaN}'],
    ['invalid UTF-8', Buffer.from('7b226d6f64656c223a22fffe227d', 'hex')],
    ['a surrogate encoded as UTF-8', Buffer.from('7b2261223a22eda080227d', 'hex')],
  ])('is rejected: %s', async (_, body) => {
    await expectRejected(body, null);
  });

  test('is rejected with 10,000 levels of nesting in messages or in a tool schema', async () => {
    const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`;
    await expectRejected(`{"model":"acme/chat","messages":${deep}}`, null);
    const objects = `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`;
    const tool = `{"type":"function","function":{"name":"f","parameters":${objects}}}`;
    await expectRejected(
      `{"model":"acme/chat","messages":[{"role":"user","content":"x"}],"tools":[${tool}]}`,
      null,
    );
    await expectRejected('['.repeat(1_900_000), null);
  });
});

describe('model limits and capabilities', () => {
  /** Returns only a PNG header, which is enough to read the dimensions. */
  function png(width: number, height: number): string {
    const bytes = Buffer.alloc(33);
    bytes.write('89504e470d0a1a0a0000000d49484452', 'hex');
    bytes.writeUInt32BE(width, 16);
    bytes.writeUInt32BE(height, 20);
    return `data:image/png;base64,${bytes.toString('base64')}`;
  }
  const image = (url: string) => ({ type: 'image_url', image_url: { url } });

  test.each([
    ['the long edge in landscape', png(2577, 10)],
    ['the long edge in portrait', png(10, 2577)],
    ['megapixels', png(2000, 2000)],
  ])(
    'reject an image that exceeds the limit for %s, with an error that names its path',
    async (_, url) => {
      const text = { type: 'text', text: 'Look' };
      const conversation = [...messages, { role: 'user', content: [text, image(url)] }];
      const param = 'messages[1].content[1].image_url.url';
      await expectRejected({ model: 'acme/limited-images', messages: conversation }, param);
      const input = [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }];
      await expectRejected(
        { model: 'acme/limited-images', input },
        'input[0].content[0].image_url',
      );
    },
  );

  test('accept an image of the maximum size, or of any size if the model has no limit', async () => {
    const fits = [{ role: 'user', content: [image(png(2576, 1400))] }];
    expect((await gateway.post({ model: 'acme/limited-images', messages: fits })).status).toBe(200);
    const large = [{ role: 'user', content: [image(png(9000, 9000))] }];
    expect((await gateway.post({ model: 'acme/chat', messages: large })).status).toBe(200);
    expect(upstream.requests).toHaveLength(2);
    upstream.reset();
  });

  test.each<[string, object]>([
    ['images', { messages: [{ role: 'user', content: [image('https://example.test/x.png')] }] }],
    ['tools', { tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }],
    ['structured JSON', { response_format: { type: 'json_object' } }],
  ])(
    'reject %s with model_capability_mismatch if the model does not support them',
    async (_, fields) => {
      const reply = await gateway.post({ ...chat, ...fields, model: 'acme/text-only' });
      expect(reply.status).toBe(400);
      expect(reply.error).toMatchObject({ type: 'model_capability_mismatch', param: 'model' });
    },
  );
});
