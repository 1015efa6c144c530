/** Problems that users of other gateways report with Claude Code and other Messages clients. */
import { describe, expect, test } from 'bun:test';
import Anthropic from '@anthropic-ai/sdk';
import { json, replay } from '../support/fake-upstream.ts';
import { useSdkGateway } from '../support/sdk-gateway.ts';
import { readStreamText } from '../support/sse-client.ts';

const sdk = await useSdkGateway();

const path = '/v1/messages';
const hello = { role: 'user', content: 'hello' };
const send = (model: string, messages: readonly object[] = [hello]) =>
  sdk.gateway.post({ model, max_tokens: 100, messages }, { path });
const messageFor = async (upstreamMessage: string) => {
  sdk.upstream.script('open-fp8', json(400, { error: { message: upstreamMessage } }));
  const { status, error } = await send('acme/open');
  expect(status).toBe(400);
  return error.message;
};

describe("another provider's message about a full context window", () => {
  test.each([
    "This model's maximum context length is 128000 tokens. However, you sent 140000 tokens.",
    'Your input exceeds the context window of this model. Please adjust your input.',
    'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    'Please reduce the length of the messages or completion.',
    'prompt token count of 74490 exceeds the limit of 72000',
    'the request exceeds the available context size. try increasing the context size',
    'Input is too long for requested model.',
    'too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048.',
    'Invalid request: Your request exceeded model token limit: 262144 (requested: 262147)',
    'Prompt exceeds max length',
    'prompt too long; exceeded it by 12 tokens',
    'Input Tokens Exceeded: Number of input tokens exceeds maximum length.',
  ])(
    'starts with the text that makes Claude Code compact the conversation: %s',
    async (message) => {
      expect(await messageFor(message)).toBe(`prompt is too long: ${message}`);
    },
  );

  test.each([
    'prompt is too long: 208310 tokens > 200000 maximum',
    'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
    "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens.",
    'tools[0].function.parameters is not a valid schema.',
  ])(
    'is not changed if it already has that text or is about something else: %s',
    async (message) => {
      expect(await messageFor(message)).toBe(message);
    },
  );

  test('is unchanged for chat clients', async () => {
    const message = 'Your input exceeds the context window of this model.';
    sdk.upstream.script('open-fp8', json(400, { error: { message } }));
    const { error } = await sdk.gateway.post({ model: 'acme/open', messages: [hello] });
    expect(error.message).toBe(message);
  });
});

const contentType = 'text/event-stream';
const event = (type: string, fields: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'x', content: [] };

test('an overload returns 529 to Messages clients and 503 to chat clients', async () => {
  const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
  sdk.upstream.script('claude-x', json(529, body));
  const reply = await send('acme/claude');
  expect([reply.status, reply.error.type]).toEqual([529, 'overloaded_error']);
  expect(reply.headers.get('retry-after')).toBe('5');
  const other = await sdk.gateway.post({ model: 'acme/claude', messages: [hello] });
  expect([other.status, other.error.type]).toEqual([503, 'upstream_error']);
});

test("a provider's rate limit returns 429 to Messages clients and says whose limit it is", async () => {
  sdk.upstream.script('claude-x', json(429, { error: { type: 'rate_limit_error' } }));
  const limited = await send('acme/claude');
  expect([limited.status, limited.error.type]).toEqual([429, 'rate_limit_error']);
  expect(limited.headers.get('x-tollgate-limited-by')).toBe('provider');
});

test('an overload in the middle of an answer is sent as overloaded_error, so that clients retry', async () => {
  const events = [
    event('message_start', { message: { ...message, usage: { input_tokens: 3 } } }),
    event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Well' } }),
    event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
  ];
  sdk.upstream.script('claude-x', replay(events.join(''), { contentType }));
  const body = { model: 'acme/claude', max_tokens: 100, messages: [hello], stream: true };
  const text = await readStreamText(await sdk.gateway.fetch(body, { path }));
  expect(text).toContain('"text":"Well"');
  expect(text.trim().split('\n').at(-1)).toStartWith(
    'data: {"type":"error","error":{"type":"overloaded_error"',
  );
});

describe('a tool call with incomplete input from another provider', () => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const incompleteCall = {
    index: 0,
    id: 'call_1',
    function: { name: 'look', arguments: '{"path":"/a' },
  };
  const streamWith = async (reason: string, rest = '') => {
    const events = [
      chunk({ tool_calls: [incompleteCall] }),
      chunk({}, reason),
      rest,
      'data: [DONE]\n\n',
    ];
    sdk.upstream.script('open-fp8', replay(events.join(''), { contentType }));
    const body = { model: 'acme/open', max_tokens: 100, messages: [hello], stream: true };
    return (await sdk.gateway.fetch(body, { path })).text();
  };

  test('is sent with the stop reason max_tokens, and is completed if the rest of the input follows', async () => {
    for (const reason of ['length', 'tool_calls', 'stop']) {
      expect(await streamWith(reason)).toContain('"stop_reason":"max_tokens"');
    }
    const rest = chunk({ tool_calls: [{ index: 0, function: { arguments: '"}' } }] });
    expect(await streamWith('tool_calls', rest)).toContain('"stop_reason":"tool_use"');
  });

  test('is replayed from the cache as a stream with the same stop reason', async () => {
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [{ ...incompleteCall, type: 'function' }],
    };
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    sdk.upstream.script('open-fp8', json(200, { id: 'c', choices }));
    const body = { model: 'acme/open', max_tokens: 100, messages: [hello], temperature: 0 };
    expect((await sdk.gateway.post(body, { path })).json.stop_reason).toBe('max_tokens');
    const again = await sdk.gateway.fetch({ ...body, stream: true }, { path });
    expect(again.headers.get('x-cache')).toBe('HIT');
    expect(await again.text()).toContain('"stop_reason":"max_tokens"');
    expect(sdk.upstream.requests.length).toBe(1);
  });
});

test('the Anthropic SDK reads blocks that start with null', async () => {
  const block = (index: number, content_block: object, delta: object) => [
    event('content_block_start', { index, content_block }),
    event('content_block_delta', { index, delta }),
    event('content_block_stop', { index }),
  ];
  const thinking = { type: 'thinking', thinking: null, signature: null };
  const events = [
    event('message_start', { message: { ...message, content: null, usage: { input_tokens: 3 } } }),
    ...block(0, thinking, { type: 'thinking_delta', thinking: 'Hm.' }),
    ...block(1, { type: 'text', text: null }, { type: 'text_delta', text: 'Well.' }),
    event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }),
    event('message_stop', {}),
  ];
  sdk.upstream.script('claude-x', replay(events.join(''), { contentType }));
  const client = new Anthropic({
    baseURL: sdk.anthropicBaseURL,
    apiKey: sdk.apiKey,
    maxRetries: 0,
  });
  const { content } = await client.messages
    .stream({ model: 'acme/claude', max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] })
    .finalMessage();
  expect(content).toMatchObject([
    { type: 'thinking', thinking: 'Hm.', signature: '' },
    { type: 'text', text: 'Well.' },
  ]);
});

describe('blank text blocks, which Anthropic rejects', () => {
  const empty = { type: 'text', text: '' };
  const call = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} };
  const result = { type: 'tool_result', tool_use_id: 'toolu_1' };

  test('are dropped from assistant messages', async () => {
    await send('acme/claude', [hello, { role: 'assistant', content: ' ' }, hello]);
    expect(sdk.lastBody.messages).toEqual([hello, hello]);
  });

  test('are dropped from tool results, and from messages with other content', async () => {
    const called = { role: 'assistant', content: [call] };
    const text = { type: 'text', text: 'Go on.' };
    const content = [{ ...result, content: [empty] }, empty, text];
    await send('acme/claude', [hello, called, { role: 'user', content }]);
    const expected = { role: 'user', content: [result, text] };
    expect(sdk.lastBody.messages).toEqual([hello, called, expected]);
  });

  test('stay in a user message without other content, so that Anthropic rejects the message', async () => {
    const blankMessage = { role: 'user', content: [empty] };
    await send('acme/claude', [blankMessage]);
    expect(sdk.lastBody.messages).toEqual([blankMessage]);
  });
});

test('a forced tool that another provider lacks is dropped with the tool choice', async () => {
  const custom = { name: 'look', input_schema: { type: 'object' } };
  const tools = [{ type: 'code_execution_20250825', name: 'code_execution' }, custom];
  const forced = (name: string) => ({ tools, tool_choice: { type: 'tool', name } });
  const request = { model: 'acme/open', max_tokens: 100, messages: [hello] };
  const reply = await sdk.gateway.post({ ...request, ...forced('code_execution') }, { path });
  expect(reply.headers.get('x-tollgate-dropped-params')).toBe('tool_choice, tools[0]');
  expect(sdk.lastBody.tools).toMatchObject([{ function: { name: 'look' } }]);
  expect(sdk.lastBody.tool_choice).toBeUndefined();
  await sdk.gateway.post({ ...request, ...forced('look') }, { path });
  expect(sdk.lastBody.tool_choice).toEqual({ type: 'function', function: { name: 'look' } });
});

describe("Anthropic's tools that the client runs", () => {
  const request = { model: 'acme/open', max_tokens: 100, messages: [hello] };
  const tools = [
    { type: 'bash_20250124', name: 'bash', cache_control: { type: 'ephemeral' } },
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 9_000 },
    { type: 'memory_20250818', name: 'memory' },
    {
      ...{ type: 'computer_20251124', name: 'computer', enable_zoom: true },
      ...{ display_width_px: 1_024, display_height_px: 768 },
    },
  ];

  test('reach another provider as functions with their published schemas', async () => {
    const reply = await sdk.gateway.post({ ...request, tools }, { path });
    const dropped = reply.headers.get('x-tollgate-dropped-params');
    expect([reply.status, dropped]).toEqual([200, 'cache_control']);
    const sent = sdk.lastBody.tools as { function: Record<string, unknown> }[];
    const [bash, editor, memory, computer] = sent.map((tool) => tool.function);
    expect(sent.map((tool) => tool.function.name)).toEqual(tools.map(({ name }) => name));
    expect(bash?.parameters).toMatchObject({ properties: { command: { type: 'string' } } });
    expect(editor?.parameters).toMatchObject({
      properties: { command: { enum: ['view', 'create', 'str_replace', 'insert'] } },
      required: ['command', 'path'],
    });
    expect(memory?.parameters).toMatchObject({
      properties: {
        command: { enum: ['view', 'create', 'str_replace', 'insert', 'delete', 'rename'] },
      },
    });
    expect(computer?.description).toContain('1024 pixels wide and 768 pixels high');
    expect(computer?.parameters).toMatchObject({
      properties: { action: { enum: expect.arrayContaining(['screenshot', 'zoom']) } },
    });
  });

  test('are called under their own names', async () => {
    const call = { name: 'bash', arguments: '{"command":"ls"}' };
    const message = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: call }],
    };
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }];
    sdk.upstream.script('open-fp8', json(200, { object: 'chat.completion', choices }));
    const reply = await sdk.gateway.post({ ...request, tools }, { path });
    expect(reply.json.stop_reason).toBe('tool_use');
    expect(reply.json.content).toMatchObject([
      { type: 'tool_use', name: 'bash', input: { command: 'ls' } },
    ]);
  });

  test('reach Anthropic unchanged', async () => {
    await sdk.gateway.post({ ...request, model: 'acme/claude', tools }, { path });
    expect(sdk.lastBody.tools).toEqual(tools);
  });

  test.each([
    ['bash_29990101', { tools: [tools[1], { type: 'bash_29990101', name: 'bash' }] }, 'tools[1]'],
    ['computer_toolset_20260801', { tools: [{ type: 'computer_toolset_20260801' }] }, 'tools[0]'],
    [
      'memory_29990101',
      {
        messages: [
          hello,
          {
            role: 'system',
            content: [
              {
                type: 'tool_addition',
                tool: { definition: { type: 'memory_29990101', name: 'memory' } },
              },
            ],
          },
        ],
      },
      'messages[1].content[0]',
    ],
  ])('get 400 if their schema is unknown: %s', async (type, fields, param) => {
    const { status, error } = await sdk.gateway.post({ ...request, ...fields }, { path });
    expect(status).toBe(400);
    expect(error.message).toBe(
      `${param} has the type "${type}", which cannot be sent to this model.`,
    );
    const direct = { ...request, ...fields, model: 'acme/claude' };
    expect((await sdk.gateway.post(direct, { path })).status).toBe(200);
  });
});

test('a schema pattern that OpenAI rejects is sent only to Anthropic', async () => {
  const pattern = '^(?!__.*__$)[^\\p{Cc}]+$';
  const input_schema = { type: 'object', properties: { label: { type: 'string', pattern } } };
  const tools = [{ name: 'Artifact', input_schema }];
  const request = { max_tokens: 100, messages: [hello], tools };
  await sdk.gateway.post({ ...request, model: 'acme/claude' }, { path });
  expect(sdk.lastBody.tools).toEqual(tools);
  await sdk.gateway.post({ ...request, model: 'acme/open' }, { path });
  const parameters = { type: 'object', properties: { label: { type: 'string' } } };
  expect(sdk.lastBody.tools).toEqual([
    { type: 'function', function: { name: 'Artifact', parameters } },
  ]);
});
