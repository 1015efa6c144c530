/**
 * `functions`, `function_call` and the role `function`, from before there were tools: older clients
 * still speak so, and hear their answers the same way, whichever upstream gives them.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { checkOpenAiStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const { url } = upstream;
  const api_key = 'upstream-key';
  gateway = await InProcessGateway.start({
    providers: {
      claude: { dialect: 'anthropic', base_url: url, api_key },
      google: { dialect: 'gemini', base_url: `${url}/v1beta`, api_key },
      other: { dialect: 'openai', base_url: `${url}/v1`, api_key },
      strict: {
        dialect: 'openai',
        base_url: `${url}/v1`,
        api_key,
        quirks: { message_names: 'drop' },
      },
    },
    models: ['claude', 'google', 'other', 'strict'].map((provider) =>
      chatModel(`acme/${provider}`, [{ provider, model: 'up' }]),
    ),
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const functions = [{ name: 'weather', description: 'Looks.', parameters }, { name: 'now' }];
const messages = [
  { role: 'user', content: 'How is the weather?' },
  { role: 'assistant', content: null, function_call: { name: 'weather', arguments: '{"a":1}' } },
  { role: 'function', name: 'weather', content: 'rain' },
  { role: 'assistant', content: '', function_call: { name: 'weather', arguments: '{"a":2}' } },
  { role: 'function', name: 'weather', content: 'sun' },
];
const request = { messages, functions, function_call: { name: 'weather' } };
const claude = { model: 'acme/claude', ...request };

function lastAsked(): Record<string, unknown> {
  const asked = upstream.book.at(-1)?.json;
  if (!isObject(asked)) throw new Error('The upstream was asked nothing readable.');
  return asked;
}

const usage = { input_tokens: 3, output_tokens: 2 };
const toolUse = (name: string) => ({ type: 'tool_use', id: `toolu_${name}`, name, input: {} });
const message = (content: readonly object[], stop_reason: string) => ({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'up' },
  ...{ content, stop_reason, stop_sequence: null, usage },
});
const called = message([{ ...toolUse('weather'), input: { city: 'Oslo' } }], 'tool_use');

function scriptStream(blocks: readonly { start: object; deltas: readonly object[] }[]): void {
  const index = (at: number, type: string, more: object) => ({ type, index: at, ...more });
  const events: readonly { type: string }[] = [
    { type: 'message_start', ...{ message: { ...called, content: [], stop_reason: null } } },
    ...blocks.flatMap(({ start, deltas }, at) => [
      index(at, 'content_block_start', { content_block: start }),
      ...deltas.map((delta) => index(at, 'content_block_delta', { delta })),
      index(at, 'content_block_stop', {}),
    ]),
    { type: 'message_delta', ...{ delta: { stop_reason: 'tool_use' }, usage } },
    { type: 'message_stop' },
  ];
  const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  upstream.script('up', replay(text.join(''), { contentType: 'text/event-stream' }));
}

const input = (partial_json: string) => ({ type: 'input_json_delta', partial_json });

interface Delta {
  readonly function_call?: { readonly name?: string; readonly arguments: string };
  readonly tool_calls?: unknown;
}

function deltasOf(chunks: readonly Record<string, unknown>[]): readonly Delta[] {
  return chunks.flatMap(({ choices }) =>
    Array.isArray(choices) ? choices.map(({ delta }) => delta as Delta) : [],
  );
}

describe('for an upstream that has tools', () => {
  test('they are tools, and each result belongs to its call', async () => {
    upstream.script('up', json(200, called));
    const reply = await gateway.post(claude);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
    const asked = lastAsked();
    expect(asked.tools).toMatchObject([
      { name: 'weather', description: 'Looks.', input_schema: parameters },
      { name: 'now', input_schema: { type: 'object' } },
    ]);
    expect(asked.tool_choice).toMatchObject({ type: 'tool', name: 'weather' });
    expect(asked.tool_choice).toMatchObject({ disable_parallel_tool_use: true });
    expect(asked.messages).toMatchObject([
      { role: 'user' },
      { content: [{ type: 'tool_use', id: 'call_1', name: 'weather', input: { a: 1 } }] },
      { content: [{ type: 'tool_result', tool_use_id: 'call_1' }] },
      { content: [{ type: 'tool_use', id: 'call_3', name: 'weather', input: { a: 2 } }] },
      { content: [{ type: 'tool_result', tool_use_id: 'call_3' }] },
    ]);
    expect(JSON.stringify(asked)).toContain('sun');
  });

  test('the call is told the old way', async () => {
    upstream.script('up', json(200, called));
    const { json: body } = await gateway.post(claude);
    expect(body.choices).toEqual([
      {
        index: 0,
        message: {
          role: 'assistant',
          content: null,
          function_call: { name: 'weather', arguments: '{"city":"Oslo"}' },
        },
        finish_reason: 'function_call',
      },
    ]);
  });

  test('and in a stream, where there is room for one only', async () => {
    scriptStream([
      { start: toolUse('weather'), deltas: [input('{"city":'), input('"Oslo"}')] },
      { start: toolUse('now'), deltas: [input('{}')] },
    ]);
    const heard = await gateway.stream(claude);
    const calls = deltasOf(heard.chunks).flatMap((delta) => delta.function_call ?? []);
    expect(calls).toEqual([
      { name: 'weather', arguments: '' },
      { arguments: '{"city":' },
      { arguments: '"Oslo"}' },
    ]);
    expect(deltasOf(heard.chunks).some((delta) => 'tool_calls' in delta)).toBe(false);
    expect(heard.finishReasons).toEqual(['function_call']);
    expect(heard.dones).toBe(1);
  });

  test('Gemini gets names, and words stay words', async () => {
    const content = { role: 'model', parts: [{ text: 'Sunny.' }] };
    upstream.script('up', json(200, { candidates: [{ content, finishReason: 'STOP' }] }));
    const reply = await gateway.post({ model: 'acme/google', ...request, function_call: 'auto' });
    expect(reply.json.choices).toMatchObject([
      { message: { content: 'Sunny.' }, finish_reason: 'stop' },
    ]);
    expect(JSON.stringify(lastAsked().contents)).toContain('"functionResponse"');
    expect(lastAsked().toolConfig).toEqual({ functionCallingConfig: { mode: 'AUTO' } });
  });

  test('no offer is passed over for a client that insists on its parameters', async () => {
    upstream.script('up', json(200, called));
    const reply = await gateway.post({ ...claude, provider: { require_parameters: true } });
    expect(reply.status).toBe(200);
  });

  test('beside tools they are tools, and are answered as such', async () => {
    upstream.script('up', json(200, called));
    const tools = [{ type: 'function', function: { name: 'look', parameters } }];
    const { json: body } = await gateway.post({ ...claude, tools });
    expect(lastAsked().tools).toHaveLength(3);
    expect(body.choices).toMatchObject([
      { message: { tool_calls: [{ function: { name: 'weather' } }] }, finish_reason: 'tool_calls' },
    ]);
  });
});

describe('for an upstream that speaks so itself', () => {
  const answered = (more: object) => ({
    ...{ id: 'x', object: 'chat.completion', created: 1, model: 'up' },
    choices: [{ index: 0, message: { role: 'assistant', content: null, ...more } }].map((one) => ({
      ...one,
      finish_reason: 'function_call',
    })),
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
  const function_call = { name: 'weather', arguments: '{"city":"Oslo"}' };

  test('they pass both ways as they are', async () => {
    upstream.script('up', json(200, answered({ function_call })));
    const { json: body } = await gateway.post({ model: 'acme/other', ...request });
    expect(lastAsked()).toMatchObject(request);
    expect(body.choices).toMatchObject([
      { message: { function_call }, finish_reason: 'function_call' },
    ]);
  });

  test('a whole answer becomes the stream that was asked for', async () => {
    upstream.script('up', json(200, answered({ function_call })));
    const heard = await gateway.stream({ model: 'acme/other', ...request });
    const calls = deltasOf(heard.chunks).flatMap((delta) => delta.function_call ?? []);
    expect(calls.map((call) => call.arguments).join('')).toBe('{"city":"Oslo"}');
    expect(calls[0]?.name).toBe('weather');
    expect(heard.finishReasons).toEqual(['function_call']);
  });

  const tools = [{ type: 'function', function: { name: 'weather', parameters } }];
  const newer = { model: 'acme/other', messages: messages.slice(0, 1), tools };

  test('a client that knows tools hears of one', async () => {
    upstream.script('up', json(200, answered({ function_call })));
    const { json: body } = await gateway.post(newer);
    const call = { id: expect.stringMatching(/^call_\w+$/), type: 'function' };
    const message = { role: 'assistant', content: null };
    expect(body.choices).toEqual([
      {
        index: 0,
        message: { ...message, tool_calls: [{ ...call, function: function_call }] },
        finish_reason: 'tool_calls',
      },
    ]);
  });

  test('and so it does in a stream', async () => {
    const pieces = [{ name: 'weather', arguments: '' }, { arguments: '{"city":' }];
    const said = [...pieces, { name: 'weather', arguments: '"Oslo"}' }];
    const deltas = said.map((piece) => ({ role: 'assistant', function_call: piece }));
    const chunks = [...deltas, {}].map((delta, at) => ({
      ...{ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'up' },
      choices: [{ index: 0, delta, finish_reason: at < said.length ? null : 'function_call' }],
    }));
    const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
    const contentType = 'text/event-stream';
    upstream.script('up', replay(`${text}data: [DONE]\n\n`, { contentType }));
    const { text: heard } = await gateway.post({ ...newer, stream: true });
    expect(checkOpenAiStream(heard)).toMatchObject({
      ended: 'whole',
      tools: [{ name: 'weather', json: '{"city":"Oslo"}' }],
      finishReason: 'tool_calls',
    });
    expect(heard).not.toContain('function_call');
  });

  test('a result keeps its name where other messages may have none', async () => {
    upstream.script('up', json(200, answered({ function_call })));
    const named = [{ role: 'user', name: 'ann', content: 'Hello' }, ...messages];
    await gateway.post({ ...request, model: 'acme/strict', messages: named });
    expect(lastAsked().messages).toEqual([{ role: 'user', content: 'Hello' }, ...messages]);
  });
});

test('the arguments of calls cannot keep the gateway busy', async () => {
  const fields = Array.from({ length: 15_001 }, (_, i) => `"f${i}":1`).join(',');
  const arguments_ = `{${fields}}`;
  const call = (at: number) => ({
    ...{ id: `call_${at}`, type: 'function' },
    function: { name: 'weather', arguments: arguments_ },
  });
  const tool_calls = Array.from({ length: 10 }, (_, at) => call(at));
  const asked = [
    { role: 'user', content: 'Hello' },
    { role: 'assistant', tool_calls },
  ];
  for (const model of ['acme/claude', 'acme/google']) {
    const reply = await gateway.post({ model, messages: asked });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toBe('The arguments of tool calls have more than 150000 fields.');
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  }
  expect(upstream.book).toHaveLength(0);
});

describe('are checked', () => {
  test.each([
    [{ functions: [{ description: 'nameless' }] }, 'functions[0].name'],
    [{ functions: {} }, 'functions'],
    [{ functions: [{ name: 'a', parameters: 'none' }] }, 'functions[0].parameters'],
    [{ function_call: 'sometimes' }, 'function_call'],
    [{ messages: [{ role: 'function', content: 'rain' }] }, 'messages[0].name'],
    [{ messages: [{ role: 'function', name: 'a', content: 3 }] }, 'messages[0].content'],
    [
      { messages: [{ role: 'assistant', function_call: { name: 'a' } }] },
      'messages[0].function_call.arguments',
    ],
  ])('%j', async (wrong, param) => {
    const reply = await gateway.post({ ...claude, ...wrong });
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(upstream.book).toHaveLength(0);
  });
});
