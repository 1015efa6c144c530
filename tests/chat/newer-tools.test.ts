/**
 * Tools that take a free text, and a choice of some of the tools: OpenAI's chat has known both
 * since GPT-5. Its clients hear the same whichever upstream answers.
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
const named = (name: string) => ({ type: 'function', function: { name } });
const grammar = { syntax: 'lark', definition: 'start: "*** Begin"' };
const patch = {
  type: 'custom',
  custom: { name: 'patch', description: 'Edits.', format: { type: 'grammar', grammar } },
};
const question = { role: 'user', content: 'Mend it.' };
const called = { id: 'call_1', type: 'custom', custom: { name: 'patch', input: 'say "hi"\n' } };
const history = [
  question,
  { role: 'assistant', content: null, tool_calls: [called] },
  { role: 'tool', tool_call_id: 'call_1', content: 'Done.' },
];

function lastAsked(): Record<string, unknown> {
  const asked = upstream.requests.at(-1)?.json;
  if (!isObject(asked)) throw new Error('The upstream was asked nothing readable.');
  return asked;
}

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = { id: 'x', object: 'chat.completion', created: 1, model: 'up' };
const claudeUsage = { input_tokens: 3, output_tokens: 2 };

function scriptWhole(...answers: readonly (readonly object[])[]): void {
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
  /** Some servers write one into every chunk. */
  readonly end?: string;
}

/** Each delta is one of the choice that it names, which ends with the stream. */
function scriptStream(...deltas: readonly Delta[]): void {
  const object = 'chat.completion.chunk';
  const chunk = (choices: readonly object[], more = {}) =>
    `data: ${JSON.stringify({ ...completion, object, choices, ...more })}\n\n`;
  const said = deltas.map(({ choice: index = 0, calls: tool_calls, end = null }) =>
    chunk([{ index, delta: { tool_calls }, finish_reason: end }]),
  );
  const ends = [...new Set(deltas.map(({ choice = 0 }) => choice))].map((index) =>
    chunk([{ index, delta: {}, finish_reason: 'tool_calls' }]),
  );
  const all = [...said, ...ends, chunk([], { usage }), 'data: [DONE]\n\n'];
  upstream.script('up', replay(all.join(''), text));
}

/** The calls of a stream, put together by choice and index as a client does it. */
function heardCalls(chunks: readonly Record<string, unknown>[]) {
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

describe('a choice of some of the tools', () => {
  const tools = [tool('look'), tool('find'), tool('wait')];
  const choice = (mode: string, ...names: readonly string[]) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: names.map(named) },
  });
  const ask = (provider: string, tool_choice: unknown) =>
    gateway.post({ model: `acme/${provider}`, messages: [question], tools, tool_choice });

  test('goes as it is to those who know it', async () => {
    scriptWhole([]);
    const chosen = choice('auto', 'find', 'look');
    expect((await ask('newest', chosen)).status).toBe(200);
    expect(lastAsked()).toMatchObject({ tools, tool_choice: chosen });
  });

  test.each([
    ['other', 'auto', 'auto'],
    ['other', 'required', 'required'],
    ['mistral', 'required', 'any'],
  ])('to %s it is those tools, and %s is %s', async (provider, mode, sent) => {
    scriptWhole([]);
    expect((await ask(provider, choice(mode, 'wait', 'look'))).status).toBe(200);
    expect(lastAsked().tools).toEqual([tool('look'), tool('wait')]);
    expect(lastAsked().tool_choice).toBe(sent);
  });

  test.each([
    ['auto', 'auto'],
    ['required', 'any'],
  ])('so it is in other dialects, where %s is %s', async (mode, type) => {
    const content = [{ type: 'text', text: 'Hello' }];
    const answer = { id: 'm', type: 'message', role: 'assistant', model: 'up', content };
    upstream.script('up', json(200, { ...answer, stop_reason: 'end_turn', usage: claudeUsage }));
    expect((await ask('claude', choice(mode, 'find'))).status).toBe(200);
    expect(lastAsked().tools).toMatchObject([{ name: 'find' }]);
    expect(lastAsked().tools).toHaveLength(1);
    expect(lastAsked().tool_choice).toMatchObject({ type });
  });

  const place = 'tool_choice.allowed_tools';
  test.each([
    [choice('auto', 'look', 'gone'), `${place}.tools[1].function.name`],
    [choice('auto'), `${place}.tools`],
    [choice('none', 'look'), `${place}.mode`],
    [{ type: 'allowed_tools' }, place],
    [{ type: 'allowed_tools', allowed_tools: { tools: [named('look')] } }, `${place}.mode`],
    [{ type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: 'look' } }, `${place}.tools`],
    [
      { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
      `${place}.tools[0].function`,
    ],
  ])('is refused where it is %j', async (wrong, param) => {
    const reply = await ask('newest', wrong);
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(reply.error.message).toStartWith(param);
    expect(upstream.requests).toHaveLength(0);
    expect((await gateway.record(reply.requestId)).charges.modelCharge).toBe(0);
  });
});

test('of a choice or a tool of another type, the types there are are told', async () => {
  const sentence = async (fields: object) => {
    const reply = await gateway.post({ model: 'acme/other', messages: [question], ...fields });
    return reply.error.message;
  };
  expect(await sentence({ tool_choice: { type: 'some_tools' } })).toBe(
    'tool_choice.type must be one of "function", "custom", "allowed_tools", not "some_tools".',
  );
  expect(await sentence({ tools: [{ type: 'poem' }] })).toBe(
    'tools[0].type must be function, custom or web_search, not "poem".',
  );
  expect(await sentence({ tools: [{ type: 'custom', custom: { name: 'a b' } }] })).toBe(
    'tools[0].custom.name must be a name for a tool of 1 to 128 letters, digits or _.:-, not ' +
      '"a b".',
  );
});

describe('a tool that takes a free text', () => {
  const tools = [tool('look'), patch];
  const tool_choice = { type: 'custom', custom: { name: 'patch' } };
  const asked = { tools, tool_choice, messages: history };
  const asFunction = (json: string) => ({ name: 'patch', arguments: json });
  const call = (index: number, json: string) => ({
    ...{ index, id: `call_${index}`, type: 'function' },
    function: asFunction(json),
  });
  const more = (index: number, json: string) => ({ index, function: { arguments: json } });
  const look = { id: 'call_9', type: 'function', function: { name: 'look', arguments: '{}' } };

  test('passes both ways where the upstream knows it, the text in its pieces', async () => {
    const begin = { index: 0, ...called, custom: { name: 'patch', input: '' } };
    const next = (input: string) => ({ index: 0, custom: { input } });
    scriptStream({ calls: [begin] }, { calls: [next('a"')] }, { calls: [next('b')] });
    const heard = await gateway.stream({ model: 'acme/newest', ...asked });
    expect(lastAsked()).toMatchObject(asked);
    const deltas = heard.chunks.flatMap(({ choices }) => objectsIn(choices)).map((c) => c.delta);
    const calls = deltas.flatMap((delta) => objectsIn(isObject(delta) ? delta.tool_calls : []));
    expect(calls).toEqual([begin, next('a"'), next('b')]);
  });

  test('and the calls of a whole answer stream in the order of their indexes', async () => {
    scriptWhole([called, look]);
    const heard = await gateway.stream({ model: 'acme/newest', ...asked });
    expect(Object.values(heardCalls(heard.chunks))).toEqual([
      { id: 'call_9', type: 'function', name: 'look', text: '{}' },
      { id: 'call_1', type: 'custom', name: 'patch', text: 'say "hi"\n' },
    ]);
    expect(Object.keys(heardCalls(heard.chunks))).toEqual(['0.0', '0.1']);
  });

  test('is a function with one text to the others, also in what was said before', async () => {
    scriptWhole([]);
    expect((await gateway.post({ model: 'acme/other', ...asked })).status).toBe(200);
    const sent = lastAsked();
    expect(sent.tools).toMatchObject([
      tool('look'),
      { type: 'function', function: { name: 'patch', parameters: { required: ['input'] } } },
    ]);
    expect(JSON.stringify(sent.tools)).toContain(JSON.stringify(grammar.definition).slice(1, -1));
    expect(sent.tool_choice).toEqual(named('patch'));
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

  test('and its calls come back as its own, in every choice', async () => {
    scriptWhole([call(0, '{"input":"a\\nb"}'), look], [call(0, '{"input":"c"}')]);
    const reply = await gateway.post({ model: 'acme/other', ...asked, n: 2 });
    const own = (input: string) => ({ type: 'custom', custom: { name: 'patch', input } });
    expect(reply.json.choices).toMatchObject([
      { message: { tool_calls: [own('a\nb'), look] }, finish_reason: 'tool_calls' },
      { message: { tool_calls: [own('c')] }, finish_reason: 'tool_calls' },
    ]);
    expect(reply.text).not.toContain('"input\\"');
  });

  test('so they do in a stream, in pieces and beside others', async () => {
    scriptStream(
      { calls: [call(0, '')] },
      { calls: [more(0, '{"inp'), { index: 1, ...look }] },
      { choice: 1, calls: [call(0, '{"input":"other"}')] },
      { calls: [more(0, 'ut":"a\\')] },
      { calls: [more(0, 'nb"}')] },
    );
    const heard = await gateway.stream({ model: 'acme/other', ...asked, n: 2 });
    expect(heardCalls(heard.chunks)).toEqual({
      '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a\nb' },
      '0.1': { id: 'call_9', type: 'function', name: 'look', text: '{}' },
      '1.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'other' },
    });
    expect([heard.finishReasons, heard.dones]).toEqual([['tool_calls'], 1]);
  });

  test.each(['stop', 'tool_calls'])('also where each chunk ends with %s', async (end) => {
    scriptStream(
      { calls: [call(0, '')], end },
      { calls: [more(0, '{"inp')], end },
      { calls: [more(0, 'ut":"a\\')], end },
      { calls: [more(0, 'nb"}')], end },
      { calls: [call(1, '{"input":"c"}')], end },
    );
    const heard = await gateway.stream({ model: 'acme/other', ...asked });
    expect(heardCalls(heard.chunks)).toEqual({
      '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a\nb' },
      '0.1': { id: 'call_1', type: 'custom', name: 'patch', text: 'c' },
    });
    expect([heard.finishReasons, heard.dones]).toEqual([['tool_calls'], 1]);
  });

  test('a whole answer where a stream was asked for is told the same', async () => {
    scriptWhole([call(0, '{"input":"a"}'), look]);
    const heard = await gateway.stream({ model: 'acme/other', ...asked });
    expect(heardCalls(heard.chunks)).toEqual({
      '0.0': { id: 'call_0', type: 'custom', name: 'patch', text: 'a' },
      '0.1': { id: 'call_9', type: 'function', name: 'look', text: '{}' },
    });
  });

  test('a text that never ends is not kept', async () => {
    const megabyte = 'x'.repeat(1024 * 1024);
    const pieces = Array.from({ length: 5 }, () => ({ calls: [more(0, megabyte)] }));
    scriptStream({ calls: [call(0, '{"input":"')] }, ...pieces);
    const heard = await gateway.stream({ model: 'acme/other', ...asked });
    expect([heard.finishReasons, heard.dones]).toEqual([['error'], 0]);
  });

  describe('in another dialect', () => {
    const block = { type: 'tool_use', id: 'toolu_1', name: 'patch' };
    const message = { id: 'm', type: 'message', role: 'assistant', model: 'up' };

    test('is asked for and answered alike', async () => {
      const content = [{ ...block, input: { input: 'a\nb' } }];
      const end = { stop_reason: 'tool_use', usage: claudeUsage };
      upstream.script('up', json(200, { ...message, content, ...end }));
      const reply = await gateway.post({ model: 'acme/claude', ...asked });
      expect(lastAsked().tool_choice).toMatchObject({ type: 'tool', name: 'patch' });
      expect(lastAsked().messages).toMatchObject([
        { role: 'user' },
        { content: [{ type: 'tool_use', name: 'patch', input: { input: 'say "hi"\n' } }] },
        { content: [{ type: 'tool_result' }] },
      ]);
      const custom = { name: 'patch', input: 'a\nb' };
      expect(reply.json.choices).toMatchObject([
        { message: { tool_calls: [{ id: 'toolu_1', type: 'custom', custom }] } },
      ]);
    });

    test('keeps its mark for prompt caching, wherever that stands', async () => {
      const end = { stop_reason: 'end_turn', usage: claudeUsage };
      const content = [{ type: 'text', text: 'Hello' }];
      upstream.script('up', json(200, { ...message, content, ...end }));
      const cache_control = { type: 'ephemeral' };
      const beside = { ...patch, cache_control };
      const inside = { type: 'custom', custom: { name: 'draw', cache_control } };
      const flat = { type: 'custom', name: 'write', cache_control };
      const marked = [beside, inside, flat];
      await gateway.post({ model: 'acme/claude', messages: [question], tools: marked });
      expect(lastAsked().tools).toMatchObject(
        ['patch', 'draw', 'write'].map((name) => ({ name, cache_control })),
      );
    });

    test('and streamed', async () => {
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
      const heard = await gateway.stream({ model: 'acme/claude', ...asked });
      expect(heardCalls(heard.chunks)).toEqual({
        '0.0': { id: 'toolu_1', type: 'custom', name: 'patch', text: 'a\nb' },
      });
    });
  });

  test('may be written as on the Responses endpoint, with the conversation, too', async () => {
    scriptWhole([call(0, '{"input":"a"}')]);
    const flat = { type: 'custom', name: 'patch', format: { type: 'grammar', ...grammar } };
    const input = [
      question,
      { type: 'custom_tool_call', call_id: 'call_1', name: 'patch', input: 'x' },
      { type: 'custom_tool_call_output', call_id: 'call_1', output: 'Done.' },
    ];
    const reply = await gateway.post({ model: 'acme/newest', tools: [flat], input });
    const { description: _, ...custom } = patch.custom;
    expect(lastAsked()).toMatchObject({
      tools: [{ type: 'custom', custom }],
      messages: [
        question,
        { tool_calls: [{ ...called, custom: { name: 'patch', input: 'x' } }] },
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
      { messages: [{ role: 'assistant', tool_calls: [{ ...called, custom: { name: 'patch' } }] }] },
      'messages[0].tool_calls[0].custom.input',
    ],
  ])('is refused where it is %j', async (wrong, param) => {
    const reply = await gateway.post({ model: 'acme/other', messages: [question], ...wrong });
    expect([reply.status, reply.error.param]).toEqual([400, param]);
    expect(upstream.requests).toHaveLength(0);
  });
});
