/**
 * Custom tools, which take free text, and `allowed_tools`. OpenAI's chat API has supported both
 * since GPT-5. A client gets the same results from every upstream.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject, objectsIn } from '../../src/core/json.ts';
import { json, replay, startFakeUpstream } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const api_key = 'upstream-key';
  const openai = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key };
  gateway = await InProcessGateway.start({
    providers: {
      newest: { ...openai, quirks: { newer_tools: 'keep' } },
      other: openai,
      mistral: { ...openai, quirks: { tool_choice_required: 'any' } },
      claude: { dialect: 'anthropic', base_url: upstream.url, api_key },
    },
    models: ['newest', 'other', 'mistral', 'claude'].map((provider) =>
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
const tool = (name: string) => ({ type: 'function', function: { name, parameters } });
const namedTool = (name: string) => ({ type: 'function', function: { name } });
const grammar = { syntax: 'lark', definition: 'start: "*** Begin"' };
const patch = {
  type: 'custom',
  custom: { name: 'patch', description: 'Edits.', format: { type: 'grammar', grammar } },
};
const question = { role: 'user', content: 'Fix it.' };
const customCall = { id: 'call_1', type: 'custom', custom: { name: 'patch', input: 'say "hi"\n' } };
const history = [
  question,
  { role: 'assistant', content: null, tool_calls: [customCall] },
  { role: 'tool', tool_call_id: 'call_1', content: 'Done.' },
];

function lastBody(): Record<string, unknown> {
  const body = upstream.requests.at(-1)?.json;
  if (!isObject(body)) throw new Error('The upstream received no JSON object.');
  return body;
}

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = { id: 'x', object: 'chat.completion', created: 1, model: 'up' };
const claudeUsage = { input_tokens: 3, output_tokens: 2 };

function scriptAnswer(...answers: readonly (readonly object[])[]): void {
  const choices = answers.map((tool_calls, index) => ({
    index,
    message: { role: 'assistant', content: null, tool_calls },
    finish_reason: 'tool_calls',
  }));
  upstream.script('up', json(200, { ...completion, choices, usage }));
}

const text = { contentType: 'text/event-stream' };

interface Delta {
  readonly choice?: number;
  readonly calls: readonly object[];
  /** The finish reason, which some servers send in every chunk. */
  readonly end?: string;
}

/** Scripts a stream of deltas. Each choice finishes at the end of the stream. */
function scriptStream(...deltas: readonly Delta[]): void {
  const object = 'chat.completion.chunk';
  const chunk = (choices: readonly object[], more = {}) =>
    `data: ${JSON.stringify({ ...completion, object, choices, ...more })}\n\n`;
  const chunks = deltas.map(({ choice: index = 0, calls: tool_calls, end = null }) =>
    chunk([{ index, delta: { tool_calls }, finish_reason: end }]),
  );
  const ends = [...new Set(deltas.map(({ choice = 0 }) => choice))].map((index) =>
    chunk([{ index, delta: {}, finish_reason: 'tool_calls' }]),
  );
  const all = [...chunks, ...ends, chunk([], { usage }), 'data: [DONE]\n\n'];
  upstream.script('up', replay(all.join(''), text));
}

/** Assembles the calls of a stream by choice and index, as a client does. */
function callsOf(chunks: readonly Record<string, unknown>[]) {
  const calls: Record<string, Record<string, unknown>> = {};
  for (const { index: choice, delta } of chunks.flatMap(({ choices }) => objectsIn(choices))) {
    for (const piece of objectsIn(isObject(delta) ? delta.tool_calls : undefined)) {
      const { index, id, type, custom, function: body } = piece;
      const call = calls[`${choice}.${index}`] ?? { text: '' };
      calls[`${choice}.${index}`] = call;
      if (id) call.id = id;
      if (type) call.type = type;
      for (const part of [custom, body].filter(isObject)) {
        if (part.name) call.name = part.name;
        call.text += String(part.input ?? part.arguments ?? '');
      }
    }
  }
  return calls;
}

describe('an allowed_tools choice', () => {
  const tools = [tool('look'), tool('find'), tool('wait')];
  const choice = (mode: string, ...names: readonly string[]) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: names.map(namedTool) },
  });
  const send = (provider: string, tool_choice: unknown) =>
    gateway.post({ model: `acme/${provider}`, messages: [question], tools, tool_choice });

  test('passes unchanged to an upstream that supports it', async () => {
    scriptAnswer([]);
    const chosen = choice('auto', 'find', 'look');
    expect((await send('newest', chosen)).status).toBe(200);
    expect(lastBody()).toMatchObject({ tools, tool_choice: chosen });
  });

  test.each([
    ['other', 'auto', 'auto'],
    ['other', 'required', 'required'],
    ['mistral', 'required', 'any'],
  ])(
    'becomes a filtered tool list for %s, with mode %s sent as %s',
    async (provider, mode, sent) => {
      scriptAnswer([]);
      expect((await send(provider, choice(mode, 'wait', 'look'))).status).toBe(200);
      expect(lastBody().tools).toEqual([tool('look'), tool('wait')]);
      expect(lastBody().tool_choice).toBe(sent);
    },
  );

  test.each([
    ['auto', 'auto'],
    ['required', 'any'],
  ])(
    'becomes a filtered tool list for Anthropic, with mode %s sent as type %s',
    async (mode, type) => {
      const content = [{ type: 'text', text: 'Hello' }];
      const answer = { id: 'm', type: 'message', role: 'assistant', model: 'up', content };
      upstream.script('up', json(200, { ...answer, stop_reason: 'end_turn', usage: claudeUsage }));
      expect((await send('claude', choice(mode, 'find'))).status).toBe(200);
      expect(lastBody().tools).toMatchObject([{ name: 'find' }]);
      expect(lastBody().tools).toHaveLength(1);
      expect(lastBody().tool_choice).toMatchObject({ type });
    },
  );

  const prefix = 'tool_choice.allowed_tools';
  test.each([
    [choice('auto', 'look', 'gone'), `${prefix}.tools[1].function.name`],
    [choice('auto'), `${prefix}.tools`],
    [choice('none', 'look'), `${prefix}.mode`],
    [{ type: 'allowed_tools' }, prefix],
    [{ type: 'allowed_tools', allowed_tools: { tools: [namedTool('look')] } }, `${prefix}.mode`],
    [{ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: 'look' } }, `${prefix}.tools`],
    [
      { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
      `${prefix}.tools[0].function`,
    ],
  ])('is rejected with the path of the invalid field: %j', async (invalid, param) => {
    const reply = await send('newest', invalid);
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(reply.error.message).toStartWith(param);
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});

test('lists the valid values if a tool or tool_choice is invalid', async () => {
  const messageFor = async (fields: object) => {
    const reply = await gateway.post({ model: 'acme/other', messages: [question], ...fields });
    return reply.error.message;
  };
  expect(await messageFor({ tool_choice: { type: 'some_tools' } })).toBe(
    'tool_choice.type must be one of "function", "custom", "allowed_tools", not "some_tools".',
  );
  expect(await messageFor({ tools: [{ type: 'poem' }] })).toBe(
    'tools[0].type must be function, custom, or web_search, not "poem".',
  );
  expect(await messageFor({ tools: [{ type: 'custom', custom: { name: 'a b' } }] })).toBe(
    'tools[0].custom.name must be a tool name of 1 to 128 letters, digits, ' +
      'or the characters _ . : -, not "a b".',
  );
});

describe('custom tools', () => {
  const tools = [tool('look'), patch];
  const tool_choice = { type: 'custom', custom: { name: 'patch' } };
  const request = { tools, tool_choice, messages: history };
  const asFunction = (json: string) => ({ name: 'patch', arguments: json });
  const call = (index: number, json: string) => ({
    ...{ index, id: `call_${index}`, type: 'function' },
    function: asFunction(json),
  });
  const more = (index: number, json: string) => ({ index, function: { arguments: json } });
  const look = { id: 'call_9', type: 'function', function: { name: 'look', arguments: '{}' } };

  test('pass unchanged in both directions, delta by delta, if the upstream supports them', async () => {
    const begin = { index: 0, ...customCall, custom: { name: 'patch', input: '' } };
    const next = (input: string) => ({ index: 0, custom: { input } });
    scriptStream({ calls: [begin] }, { calls: [next('a"')] }, { calls: [next('b')] });
    const stream = await gateway.stream({ model: 'acme/newest', ...request });
    expect(lastBody()).toMatchObject(request);
    const deltas = stream.chunks.flatMap(({ choices }) => objectsIn(choices)).map((c) => c.delta);
    const calls = deltas.flatMap((delta) => objectsIn(isObject(delta) ? delta.tool_calls : []));
    expect(calls).toEqual([begin, next('a"'), next('b')]);
  });

  test('are streamed in index order if the upstream returns the calls in one JSON answer', async () => {
    scriptAnswer([customCall, look]);
    const stream = await gateway.stream({ model: 'acme/newest', ...request });
    expect(Object.values(callsOf(stream.chunks))).toEqual([
      { id: 'call_9', type: 'function', name: 'look', text: '{}' },
      { id: 'call_1', type: 'custom', name: 'patch', text: 'say "hi"\n' },
    ]);
    expect(Object.keys(callsOf(stream.chunks))).toEqual(['0.0', '0.1']);
  });

  test('are sent to other upstreams as functions with a string input, also in the history', async () => {
    scriptAnswer([]);
    expect((await gateway.post({ model: 'acme/other', ...request })).status).toBe(200);
    const sent = lastBody();
    expect(sent.tools).toMatchObject([
      tool('look'),
      { type: 'function', function: { name: 'patch', parameters: { required: ['input'] } } },
    ]);
    expect(JSON.stringify(sent.tools)).toContain(JSON.stringify(grammar.definition).slice(1, -1));
    expect(sent.tool_choice).toEqual(namedTool('patch'));
    expect(sent.messages).toEqual([
      question,
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1', type: 'function', function: asFunction('{"input":"say \\"hi\\"\\n"}') },
        ],
      },
      history[2],
    ]);
  });

  test('are restored from the function calls of every choice', async () => {
    scriptAnswer([call(0, '{"input":"a\\nb"}'), look], [call(0, '{"input":"c"}')]);
    const reply = await gateway.post({ model: 'acme/other', ...request, n: 2 });
    const asCustom = (input: string) => ({ type: 'custom', custom: { name: 'patch', input } });
    expect(reply.json.choices).toMatchObject([
      { message: { tool_calls: [asCustom('a\nb'), look] }, finish_reason: 'tool_calls' },
      { message: { tool_calls: [asCustom('c')] }, finish_reason: 'tool_calls' },
    ]);
    expect(reply.text).not.toContain('"input\\"');
  });

  test('are restored from streamed function calls, in pieces and next to other calls', async () => {
    scriptStream(
      { calls: [call(0, '')] },
      { calls: [more(0, '{"inp'), { index: 1, ...look }] },
      { choice: 1, calls: [call(0, '{"input":"other"}')] },
      { calls: [more(0, 'ut":"a\\')] },
      { calls: [more(0, 'nb"}')] },
    );
    const stream = await gateway.stream({ model: 'acme/other', ...request, n: 2 });
    expect(callsOf(stream.chunks)).toEqual({
      '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a\nb' },
      '0.1': { id: 'call_9', type: 'function', name: 'look', text: '{}' },
      '1.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'other' },
    });
    expect([stream.finishReasons, stream.doneCount]).toEqual([['tool_calls'], 1]);
  });

  test.each(['stop', 'tool_calls'])(
    'are restored in a stream if every chunk has finish_reason %s',
    async (end) => {
      scriptStream(
        { calls: [call(0, '')], end },
        { calls: [more(0, '{"inp')], end },
        { calls: [more(0, 'ut":"a\\')], end },
        { calls: [more(0, 'nb"}')], end },
        { calls: [call(1, '{"input":"c"}')], end },
      );
      const stream = await gateway.stream({ model: 'acme/other', ...request });
      expect(callsOf(stream.chunks)).toEqual({
        '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a\nb' },
        '0.1': { id: 'call_1', type: 'custom', name: 'patch', text: 'c' },
      });
      expect([stream.finishReasons, stream.doneCount]).toEqual([['tool_calls'], 1]);
    },
  );

  test('are restored if the upstream answers a stream request with JSON', async () => {
    scriptAnswer([call(0, '{"input":"a"}'), look]);
    const stream = await gateway.stream({ model: 'acme/other', ...request });
    expect(callsOf(stream.chunks)).toEqual({
      '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a' },
      '0.1': { id: 'call_9', type: 'function', name: 'look', text: '{}' },
    });
  });

  test('end the stream with an error if the input of a call is too long', async () => {
    const megabyte = 'x'.repeat(1024 * 1024);
    const pieces = Array.from({ length: 5 }, () => ({ calls: [more(0, megabyte)] }));
    scriptStream({ calls: [call(0, '{"input":"')] }, ...pieces);
    const stream = await gateway.stream({ model: 'acme/other', ...request });
    expect(stream.error).toMatchObject({ type: 'upstream_error', code: 502 });
    expect([stream.finishReasons, stream.doneCount]).toEqual([[], 0]);
  });

  describe('for Anthropic', () => {
    const block = { type: 'tool_use', id: 'toolu_1', name: 'patch' };
    const message = { id: 'm', type: 'message', role: 'assistant', model: 'up' };

    test('are converted in the request and in the answer', async () => {
      const content = [{ ...block, input: { input: 'a\nb' } }];
      const end = { stop_reason: 'tool_use', usage: claudeUsage };
      upstream.script('up', json(200, { ...message, content, ...end }));
      const reply = await gateway.post({ model: 'acme/claude', ...request });
      expect(lastBody().tool_choice).toMatchObject({ type: 'tool', name: 'patch' });
      expect(lastBody().messages).toMatchObject([
        { role: 'user' },
        { content: [{ type: 'tool_use', name: 'patch', input: { input: 'say "hi"\n' } }] },
        { content: [{ type: 'tool_result' }] },
      ]);
      const custom = { name: 'patch', input: 'a\nb' };
      expect(reply.json.choices).toMatchObject([
        { message: { tool_calls: [{ id: 'toolu_1', type: 'custom', custom }] } },
      ]);
    });

    test('keep cache_control in every supported position', async () => {
      const end = { stop_reason: 'end_turn', usage: claudeUsage };
      const content = [{ type: 'text', text: 'Hello' }];
      upstream.script('up', json(200, { ...message, content, ...end }));
      const cache_control = { type: 'ephemeral' };
      const beside = { ...patch, cache_control };
      const inside = { type: 'custom', custom: { name: 'draw', cache_control } };
      const flat = { type: 'custom', name: 'write', cache_control };
      const marked = [beside, inside, flat];
      await gateway.post({ model: 'acme/claude', messages: [question], tools: marked });
      expect(lastBody().tools).toMatchObject(
        ['patch', 'draw', 'write'].map((name) => ({ name, cache_control })),
      );
    });

    test('are converted in a stream', async () => {
      const delta = (partial_json: string) => ({
        ...{ type: 'content_block_delta', index: 0 },
        delta: { type: 'input_json_delta', partial_json },
      });
      const events: readonly { type: string }[] = [
        { type: 'message_start', ...{ message: { ...message, content: [], usage: claudeUsage } } },
        { type: 'content_block_start', ...{ index: 0, content_block: { ...block, input: {} } } },
        ...['{"input"', ':"a\\n', 'b"}'].map(delta),
        { type: 'content_block_stop', ...{ index: 0 } },
        { type: 'message_delta', ...{ delta: { stop_reason: 'tool_use' }, usage: claudeUsage } },
        { type: 'message_stop' },
      ];
      const lines = events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`);
      upstream.script('up', replay(lines.join(''), text));
      const stream = await gateway.stream({ model: 'acme/claude', ...request });
      expect(callsOf(stream.chunks)).toEqual({
        '0.0': { id: 'toolu_1', type: 'custom', name: 'patch', text: 'a\nb' },
      });
    });
  });

  test('are accepted in the Responses format, together with input items', async () => {
    scriptAnswer([call(0, '{"input":"a"}')]);
    const flat = { type: 'custom', name: 'patch', format: { type: 'grammar', ...grammar } };
    const input = [
      question,
      { type: 'custom_tool_call', call_id: 'call_1', name: 'patch', input: 'x' },
      { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Done.' },
    ];
    const reply = await gateway.post({ model: 'acme/newest', tools: [flat], input });
    const { description: _, ...custom } = patch.custom;
    expect(lastBody()).toMatchObject({
      tools: [{ type: 'custom', custom }],
      messages: [
        question,
        { tool_calls: [{ ...customCall, custom: { name: 'patch', input: 'x' } }] },
        { role: 'tool', tool_call_id: 'call_1', content: 'Done.' },
      ],
    });
    expect(reply.json.choices).toMatchObject([{ message: { tool_calls: [{ type: 'custom' }] } }]);
  });

  test.each([
    [{ tools: [{ type: 'custom' }] }, 'tools[0].custom'],
    [{ tools: [{ type: 'custom', custom: { name: 'a b' } }] }, 'tools[0].custom.name'],
    [
      { tools: [{ type: 'custom', custom: { name: 'a', format: { type: 'poem' } } }] },
      'tools[0].custom.format.type',
    ],
    [{ tools, tool_choice: { type: 'custom' } }, 'tool_choice.custom'],
    [
      {
        messages: [
          { role: 'assistant', tool_calls: [{ ...customCall, custom: { name: 'patch' } }] },
        ],
      },
      'messages[0].tool_calls[0].custom.input',
    ],
  ])('is rejected with the path of the invalid field: %j', async (invalid, param) => {
    const reply = await gateway.post({ model: 'acme/other', messages: [question], ...invalid });
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(upstream.requests).toHaveLength(0);
  });
});
