/**
 * `functions`, `function_call`, and the role `function`, which OpenAI used before `tools`. Clients
 * that send them receive calls in the same format from every upstream.
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

function lastBody(): Record<string, unknown> {
  const body = upstream.requests.at(-1)?.json;
  if (!isObject(body)) throw new Error('The upstream received no JSON object.');
  return body;
}

const usage = { input_tokens: 3, output_tokens: 2 };
const toolUse = (name: string) => ({ type: 'tool_use', id: `toolu_${name}`, name, input: {} });
const message = (content: readonly object[], stop_reason: string) => ({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'up' },
  ...{ content, stop_reason, stop_sequence: null, usage },
});
const calledMessage = message([{ ...toolUse('weather'), input: { city: 'Oslo' } }], 'tool_use');

function scriptStream(blocks: readonly { start: object; deltas: readonly object[] }[]): void {
  const index = (at: number, type: string, more: object) => ({ type, index: at, ...more });
  const events: readonly { type: string }[] = [
    { type: 'message_start', ...{ message: { ...calledMessage, content: [], stop_reason: null } } },
    ...blocks.flatMap(({ start, deltas }, i) => [
      index(i, 'content_block_start', { content_block: start }),
      ...deltas.map((delta) => index(i, 'content_block_delta', { delta })),
      index(i, 'content_block_stop', {}),
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

describe('legacy functions for upstreams with tools', () => {
  test('are sent as tools, with each result after its call', async () => {
    upstream.script('up', json(200, calledMessage));
    const reply = await gateway.post(claude);
    expect(reply.status).toBe(200);
    expect(reply.headers.get('x-tollgate-dropped-params')).toBeNull();
    const body = lastBody();
    expect(body.tools).toMatchObject([
      { name: 'weather', description: 'Looks.', input_schema: parameters },
      { name: 'now', input_schema: { type: 'object' } },
    ]);
    expect(body.tool_choice).toMatchObject({ type: 'tool', name: 'weather' });
    expect(body.tool_choice).toMatchObject({ disable_parallel_tool_use: true });
    expect(body.messages).toMatchObject([
      { role: 'user' },
      { content: [{ type: 'tool_use', id: 'call_1', name: 'weather', input: { a: 1 } }] },
      { content: [{ type: 'tool_result', tool_use_id: 'call_1' }] },
      { content: [{ type: 'tool_use', id: 'call_3', name: 'weather', input: { a: 2 } }] },
      { content: [{ type: 'tool_result', tool_use_id: 'call_3' }] },
    ]);
    expect(JSON.stringify(body)).toContain('sun');
  });

  test('return a call as function_call', async () => {
    upstream.script('up', json(200, calledMessage));
    const { json: body } = await gateway.post(claude);
    expect(body.choices).toEqual([
      {
        index: 0,
        message: {
          role: 'assistant',
          content: null,
          refusal: null,
          function_call: { name: 'weather', arguments: '{"city":"Oslo"}' },
        },
        logprobs: null,
        finish_reason: 'function_call',
      },
    ]);
  });

  test('return only the first call in a stream', async () => {
    scriptStream([
      { start: toolUse('weather'), deltas: [input('{"city":'), input('"Oslo"}')] },
      { start: toolUse('now'), deltas: [input('{}')] },
    ]);
    const stream = await gateway.stream(claude);
    const calls = deltasOf(stream.chunks).flatMap((delta) => delta.function_call ?? []);
    expect(calls).toEqual([
      { name: 'weather', arguments: '' },
      { arguments: '{"city":' },
      { arguments: '"Oslo"}' },
    ]);
    expect(deltasOf(stream.chunks).some((delta) => 'tool_calls' in delta)).toBe(false);
    expect(stream.finishReasons).toEqual(['function_call']);
    expect(stream.doneCount).toBe(1);
  });

  test('are sent to Gemini with their results, and a text answer is returned as text', async () => {
    const content = { role: 'model', parts: [{ text: 'Sunny.' }] };
    upstream.script('up', json(200, { candidates: [{ content, finishReason: 'STOP' }] }));
    const reply = await gateway.post({ model: 'acme/google', ...request, function_call: 'auto' });
    expect(reply.json.choices).toMatchObject([
      { message: { content: 'Sunny.' }, finish_reason: 'stop' },
    ]);
    expect(JSON.stringify(lastBody().contents)).toContain('"functionResponse"');
    expect(lastBody().toolConfig).toEqual({ functionCallingConfig: { mode: 'AUTO' } });
  });

  test('are supported by every offer under require_parameters', async () => {
    upstream.script('up', json(200, calledMessage));
    const reply = await gateway.post({ ...claude, provider: { require_parameters: true } });
    expect(reply.status).toBe(200);
  });

  test('are merged with tools, and calls are returned as tool_calls', async () => {
    upstream.script('up', json(200, calledMessage));
    const tools = [{ type: 'function', function: { name: 'look', parameters } }];
    const { json: body } = await gateway.post({ ...claude, tools });
    expect(lastBody().tools).toHaveLength(3);
    expect(body.choices).toMatchObject([
      { message: { tool_calls: [{ function: { name: 'weather' } }] }, finish_reason: 'tool_calls' },
    ]);
  });
});

describe('legacy functions for OpenAI-style upstreams', () => {
  const answer = (more: object) => ({
    ...{ id: 'x', object: 'chat.completion', created: 1, model: 'up' },
    choices: [{ index: 0, message: { role: 'assistant', content: null, ...more } }].map(
      (choice) => ({
        ...choice,
        finish_reason: 'function_call',
      }),
    ),
    usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
  });
  const function_call = { name: 'weather', arguments: '{"city":"Oslo"}' };

  test('pass unchanged in both directions', async () => {
    upstream.script('up', json(200, answer({ function_call })));
    const { json: body } = await gateway.post({ model: 'acme/other', ...request });
    expect(lastBody()).toMatchObject(request);
    expect(body.choices).toMatchObject([
      { message: { function_call }, finish_reason: 'function_call' },
    ]);
  });

  test('return a complete answer as a stream if the client requested one', async () => {
    upstream.script('up', json(200, answer({ function_call })));
    const stream = await gateway.stream({ model: 'acme/other', ...request });
    const calls = deltasOf(stream.chunks).flatMap((delta) => delta.function_call ?? []);
    expect(calls.map((call) => call.arguments).join('')).toBe('{"city":"Oslo"}');
    expect(calls[0]?.name).toBe('weather');
    expect(stream.finishReasons).toEqual(['function_call']);
  });

  const tools = [{ type: 'function', function: { name: 'weather', parameters } }];
  const toolsRequest = { model: 'acme/other', messages: messages.slice(0, 1), tools };

  test('return a function_call as tool_calls to a client that sent tools', async () => {
    upstream.script('up', json(200, answer({ function_call })));
    const { json: body } = await gateway.post(toolsRequest);
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

  test('return a streamed function_call as tool_calls to a client that sent tools', async () => {
    const pieces = [{ name: 'weather', arguments: '' }, { arguments: '{"city":' }];
    const fragments = [...pieces, { name: 'weather', arguments: '"Oslo"}' }];
    const deltas = fragments.map((piece) => ({ role: 'assistant', function_call: piece }));
    const chunks = [...deltas, {}].map((delta, index) => ({
      ...{ id: 'x', object: 'chat.completion.chunk', created: 1, model: 'up' },
      choices: [
        { index: 0, delta, finish_reason: index < fragments.length ? null : 'function_call' },
      ],
    }));
    const text = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
    const contentType = 'text/event-stream';
    upstream.script('up', replay(`${text}data: [DONE]\n\n`, { contentType }));
    const { text: output } = await gateway.post({ ...toolsRequest, stream: true });
    expect(checkOpenAiStream(output)).toMatchObject({
      ended: 'complete',
      tools: [{ name: 'weather', json: '{"city":"Oslo"}' }],
      finishReason: 'tool_calls',
    });
    expect(output).not.toContain('function_call');
  });

  test('keep the name of a result even if the upstream rejects message names', async () => {
    upstream.script('up', json(200, answer({ function_call })));
    const named = [{ role: 'user', name: 'ann', content: 'Hello' }, ...messages];
    await gateway.post({ ...request, model: 'acme/strict', messages: named });
    expect(lastBody().messages).toEqual([{ role: 'user', content: 'Hello' }, ...messages]);
  });
});

test('rejects tool-call arguments with so many fields that parsing is expensive', async () => {
  const fields = Array.from({ length: 15_001 }, (_, i) => `"f${i}":1`).join(',');
  const call = (at: number) => ({
    ...{ id: `call_${at}`, type: 'function' },
    function: { name: 'weather', arguments: `{${fields}}` },
  });
  const tool_calls = Array.from({ length: 10 }, (_, index) => call(index));
  const conversation = [
    { role: 'user', content: 'Hello' },
    { role: 'assistant', tool_calls },
  ];
  for (const model of ['acme/claude', 'acme/google']) {
    const reply = await gateway.post({ model, messages: conversation });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toBe('The arguments of tool calls have more than 150000 fields.');
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  }
  expect(upstream.requests).toHaveLength(0);
});

describe('legacy functions', () => {
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
  ])('are rejected with the path of the invalid field: %j', async (invalid, param) => {
    const reply = await gateway.post({ ...claude, ...invalid });
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(upstream.requests).toHaveLength(0);
  });
});
