import { describe, expect, test } from 'bun:test';
import { fc } from '../../../../tests/support/random.ts';
import type { Quirks } from '../../../config/provider-schema.ts';
import { isObject } from '../../../core/json.ts';
import type { Target } from '../../dialect.ts';
import { readChatRequest } from '../client/request.ts';
import { passChat } from './request.ts';

const encoder = new TextEncoder();

function target(quirks: Quirks = {}, outputTokensMax: number | null = null): Target {
  const images: ReadonlyMap<string, string> = new Map();
  const model = { modelOutputTokensMax: null, thinking: null };
  return { upstreamModel: 'vendor/"model"-é', quirks, outputTokensMax, images, ...model };
}

function read(text: string) {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new Error('The sample must be an object.');
  return readChatRequest(value, { text, bytes: encoder.encode(text) });
}

function sent(request: ReturnType<typeof read>, to = target()): Record<string, unknown> {
  const { body } = passChat(request, to);
  const value: unknown = JSON.parse(String(body));
  if (!isObject(value)) throw new Error('The body for the upstream must be an object.');
  return value;
}

const messages = [{ role: 'user', content: 'hi' }];
const chat = { model: 'acme/chat', messages };

/** Trailing whitespace remains if the text is edited in place, but not if it is serialized. */
const mark = ' \n ';

function isSpliced(text: string, quirks: Quirks = {}): boolean {
  return String(passChat(read(text + mark), target(quirks)).body).endsWith(mark);
}

describe('passChat', () => {
  test('edits a body in place if the model comes first and fields are only added', () => {
    expect(isSpliced(JSON.stringify(chat))).toBe(true);
    expect(isSpliced(JSON.stringify({ ...chat, stream: true }))).toBe(true);
    expect(isSpliced(`  \n{ "model" : "acme/chat" , "messages":${JSON.stringify(messages)}}`)).toBe(
      true,
    );
  });

  test.each([
    ['the model comes later', JSON.stringify({ messages, model: 'acme/chat' })],
    ['a field is removed', JSON.stringify({ ...chat, provider: {} })],
    ['a field changes', JSON.stringify({ ...chat, max_tokens: 5, max_completion_tokens: 6 })],
    ['the name is escaped', JSON.stringify(chat).replace('acme/chat', 'acme\\/chat')],
    ['a key is repeated', JSON.stringify(chat).replace(/\}$/, ',"model":"acme/chat"}')],
  ])('serializes a body again if %s', (_, text) => {
    expect(isSpliced(text)).toBe(false);
    expect(sent(read(text)).model).toBe(target().upstreamModel);
  });
});

test('passChat drops lookalikes of known fields and keeps unknown fields', () => {
  const fields = { ...chat, Model: 'dear', MAX_TOKENS: 9, N: 9, modelName: 1 };
  const model = target().upstreamModel;
  expect(sent(read(JSON.stringify(fields)))).toEqual({ messages, model, modelName: 1 });
});

const name = fc.oneof(
  fc.constantFrom('acme/chat', 'a', 'x/y.z:free'),
  fc.constantFrom('brand/mödel', 'x/"quoted"', 'back\\slash', '日本/語', 'a/b\u2028c'),
);
const text = fc.string({ unit: 'grapheme', maxLength: 20 });
/** Has no capital letters, because a name such as `N` is removed: some servers read it as `n`. */
const anything = fc
  .jsonValue({ maxDepth: 3 })
  .map((value): unknown => JSON.parse(JSON.stringify(value).toLowerCase()));

const message = fc.oneof(
  fc.record({ role: fc.constant('user'), content: text }),
  fc.record({ role: fc.constantFrom('system', 'developer'), content: text, name: text }),
  fc.record({
    role: fc.constant('assistant'),
    content: text,
    reasoning: text,
    reasoning_content: text,
    tool_calls: fc.constant([{ id: 'call_1', function: { name: 'f', arguments: '{"model":1}' } }]),
  }),
  fc.record({ role: fc.constant('tool'), tool_call_id: fc.constant('call_1'), content: text }),
);

const extra = fc.record(
  {
    stream: fc.boolean(),
    stream_options: fc.record({ include_usage: fc.boolean(), other: anything }),
    max_tokens: fc.integer({ min: 1, max: 9000 }),
    max_completion_tokens: fc.integer({ min: 1, max: 9000 }),
    temperature: fc.constantFrom(0, 0.5, 2),
    seed: fc.integer(),
    reasoning_effort: fc.constantFrom('none', 'low', 'high', 'max'),
    reasoning: fc.record({ effort: fc.constantFrom('low', 'xhigh', null) }),
    tool_choice: fc.constantFrom('auto', 'required'),
    models: fc.constant(['acme/other']),
    provider: fc.constant({ order: ['x'] }),
    response_format: fc.constantFrom(
      { type: 'text' },
      { type: 'json_schema', json_schema: { name: 's', schema: { model: 'inner' } } },
    ),
    metadata: fc.record({ model: anything, max_tokens: anything }),
    vendor_field: anything,
  },
  { requiredKeys: [] },
);

const quirks: fc.Arbitrary<Quirks> = fc.record(
  {
    output_limit: fc.constantFrom('max_tokens', 'max_completion_tokens'),
    drop_params: fc.subarray(['seed', 'temperature', 'vendor_field', 'metadata']),
    rename_params: fc.constantFrom({}, { seed: 'random_seed' }),
    developer_role: fc.constantFrom('keep', 'system'),
    system_messages: fc.constantFrom('keep', 'merge'),
    message_names: fc.constantFrom('keep', 'drop'),
    tool_call_ids: fc.constantFrom('keep', 'nine_characters'),
    tool_choice_required: fc.constantFrom('required', 'any'),
    stream_usage: fc.constantFrom('on_request', 'always'),
    efforts: fc.constantFrom({ low: 'little', high: 'much' }, { none: 'none' }),
    sampling_while_reasoning: fc.constantFrom('keep', 'drop', 'drop_when_requested'),
    replay_reasoning: fc.constantFrom('drop', 'reasoning', 'reasoning_content'),
    json_schema: fc.constantFrom('native', 'instruct'),
  },
  { requiredKeys: [] },
);

/** Ways to serialize the same object: order, spaces, escaped keys, repeated keys. */
const serialization = fc.record({
  modelFirst: fc.constantFrom(true, true, false),
  space: fc.constantFrom('', ' ', '\n\t'),
  escapeKeys: fc.constantFrom(false, false, true),
  repeatedKey: fc.constantFrom(null, 'model', 'max_tokens'),
});

type Serialization = typeof serialization extends fc.Arbitrary<infer S> ? S : never;

function serialize(fields: Record<string, unknown>, options: Serialization): string {
  const { model, ...rest } = fields;
  const ordered = options.modelFirst ? { model, ...rest } : { ...rest, model };
  const { space, repeatedKey } = options;
  const pair = ([key, value]: [string, unknown], i: number) => {
    const escaped = options.escapeKeys && i > 0 ? key.replace('e', '\\u0065') : key;
    return `${space}"${escaped}"${space}:${space}${JSON.stringify(value)}`;
  };
  const pairs = Object.entries(ordered).map(pair);
  if (repeatedKey !== null && fields[repeatedKey] !== undefined) {
    pairs.push(`"${repeatedKey}":${JSON.stringify(fields[repeatedKey])}`);
  }
  return `${space}{${pairs.join(',')}${space}}`;
}

/** What most clients send: no field that must be changed or removed. */
const usualExtra = fc.record(
  { stream: fc.boolean(), temperature: fc.constant(1), vendor_field: anything },
  { requiredKeys: [] },
);
const userMessage = fc.record({ role: fc.constant('user'), content: text });

const bodies = fc.oneof(
  fc.record({ model: name, messages: fc.array(userMessage, { minLength: 1 }), extra: usualExtra }),
  fc.record({ model: name, messages: fc.array(message, { minLength: 1 }), extra }),
);
const cap = fc.constantFrom(null, 100);

test('passChat edits a body in place with the same result as serializing it', () => {
  let spliced = 0;
  fc.assert(
    fc.property(
      bodies,
      serialization,
      fc.oneof(fc.constant({}), quirks),
      cap,
      (fields, options, quirks, limit) => {
        const { extra: extraFields, ...plain } = fields;
        const text = serialize({ ...plain, ...extraFields }, options) + mark;
        const request = read(text);
        const to = target(quirks, limit);
        if (String(passChat(request, to).body).endsWith(mark)) spliced += 1;
        const direct = sent(request, to);
        expect(direct).toStrictEqual(sent({ ...request, source: null }, to));
        expect(direct.model).toBe(to.upstreamModel);
        for (const name of ['models', 'provider', 'reasoning'])
          expect(direct).not.toHaveProperty(name);
      },
    ),
    { numRuns: 1000 },
  );
  // Enough bodies must have been edited in place, or the property proves nothing.
  expect(spliced).toBeGreaterThan(10);
});

test('passChat keeps the values of unchanged fields', () => {
  fc.assert(
    fc.property(anything, anything, fc.boolean(), (one, two, first) => {
      const own = { vendor_field: one, metadata: two };
      const text = JSON.stringify(first ? { ...chat, ...own } : { ...own, ...chat });
      const expected: unknown = JSON.parse(JSON.stringify(own));
      expect(sent(read(text))).toMatchObject(isObject(expected) ? expected : {});
    }),
  );
});

describe('passChat with quirks', () => {
  const write = (fields: object, quirks: Quirks, limit: number | null = null) =>
    sent(read(JSON.stringify({ ...chat, ...fields })), target(quirks, limit));

  test("writes the offer's output limit under the vendor's only name", () => {
    expect(write({ max_tokens: 500 }, {}, 100).max_tokens).toBe(100);
    expect(write({}, {}, 100).max_tokens).toBe(100);
    const renamed = write({ max_tokens: 500 }, { output_limit: 'max_completion_tokens' }, 100);
    expect(renamed.max_completion_tokens).toBe(100);
    expect(renamed).not.toHaveProperty('max_tokens');
  });

  test('drops null fields', () => {
    const unset = { tools: null, stop: null, max_tokens: null, reasoning_effort: null };
    expect(Object.keys(write({ ...unset, stream: null }, {})).sort()).toEqual([
      'messages',
      'model',
    ]);
    const fields = { ...unset, stream: true, stream_options: null, reasoning: { effort: 'low' } };
    const { model: _, messages: __, ...rest } = write(fields, {}, 100);
    expect(rest).toEqual({
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 100,
      reasoning_effort: 'low',
    });
  });

  test("caps the output limit at the model's limit", () => {
    const to = { ...target(), modelOutputTokensMax: 50 };
    const requested = (fields: object) => sent(read(JSON.stringify({ ...chat, ...fields })), to);
    expect(requested({ max_tokens: 51 }).max_tokens).toBe(50);
    expect(requested({ max_tokens: 9, max_completion_tokens: 51 }).max_completion_tokens).toBe(50);
    expect(requested({ max_tokens: 49 }).max_tokens).toBe(49);
    expect(Object.keys(requested({})).sort()).toEqual(['messages', 'model']);
  });

  test("also hashes the tenant's cache key if the vendor has another name for it", () => {
    const value = { ...chat, prompt_cache_key: 'case-4711' };
    const text = JSON.stringify(value);
    const request = readChatRequest(value, { text, bytes: encoder.encode(text) }, false, 'acme');
    const own = sent(request).prompt_cache_key;
    expect(own).toMatch(/^[\w-]{43}$/);
    const renamed = sent(request, target({ rename_params: { prompt_cache_key: 'cache' } }));
    expect(renamed.cache).toBe(own);
    expect(renamed).not.toHaveProperty('prompt_cache_key');
  });

  test('requests usage in streams unless the vendor always sends it', () => {
    const requested = write({ stream: true, stream_options: { x: 1 } }, {});
    expect(requested.stream_options).toEqual({ x: 1, include_usage: true });
    const always = write({ stream: true, stream_options: {} }, { stream_usage: 'always' });
    expect(always).not.toHaveProperty('stream_options');
  });

  test('drops sampling parameters only while the model reasons', () => {
    const quirks: Quirks = {
      sampling_while_reasoning: 'drop',
      efforts: { none: 'none', low: 'low' },
    };
    const all = {
      ...{ temperature: 1, top_p: 0.5, presence_penalty: 1, frequency_penalty: 1 },
      ...{ logit_bias: { 1: 2 }, logprobs: true, top_logprobs: 3 },
    };
    expect(write(all, quirks)).toEqual({ model: target().upstreamModel, messages });
    const dropIfRequested: Quirks = { ...quirks, sampling_while_reasoning: 'drop_when_requested' };
    expect(write(all, dropIfRequested)).toMatchObject(all);
    expect(write({ ...all, reasoning_effort: 'low' }, dropIfRequested)).not.toHaveProperty(
      'temperature',
    );
    const withoutReasoning = write({ temperature: 1, reasoning: { enabled: false } }, quirks);
    expect(withoutReasoning).toMatchObject({ temperature: 1, reasoning_effort: 'none' });
    expect(write({ temperature: 1, reasoning_effort: 'low' }, quirks)).toEqual({
      model: target().upstreamModel,
      messages,
      reasoning_effort: 'low',
    });
  });

  test.each([
    [{ budget_tokens: 2_048 }, 'low'],
    [{ max_tokens: 2_049 }, 'medium'],
    [{ budget_tokens: 12_001 }, 'high'],
    [{ effort: 'low', budget_tokens: 30_000 }, 'low'],
  ])('writes the budget %j as the effort %s', (reasoning, effort) => {
    const written = write({ reasoning }, {});
    expect(written.reasoning_effort).toBe(effort);
    expect(written).not.toHaveProperty('reasoning');
  });

  test('writes a schema as an instruction for vendors that support only plain JSON', () => {
    const schema = { type: 'object', properties: { a: { type: 'number' } } };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema } };
    const written = write({ response_format: format }, { json_schema: 'instruct' });
    expect(written.response_format).toEqual({ type: 'json_object' });
    const [first] = Array.isArray(written.messages) ? written.messages : [];
    expect(first).toMatchObject({ role: 'system' });
    expect(JSON.stringify(first)).toContain('properties');
  });

  test('writes required as any for vendors that use that name', () => {
    const quirks: Quirks = { tool_choice_required: 'any' };
    expect(write({ tool_choice: 'required' }, quirks).tool_choice).toBe('any');
    expect(write({ tool_choice: 'auto' }, quirks).tool_choice).toBe('auto');
  });
});

test.each<[string, object]>([
  ['list of tools', { tools: [], tool_choice: 'required', parallel_tool_calls: true }],
  ['list of functions', { functions: [], function_call: 'auto' }],
  ['list of stop sequences', { stop: [] }],
  ['stop sequence in a list', { stop: [''] }],
  ['stop sequence', { stop: '' }],
])('passChat drops an empty %s with the dependent fields', (_, fields) => {
  const to = target({ tool_choice_required: 'any' });
  expect(sent(read(JSON.stringify({ ...chat, ...fields })), to)).toEqual({
    model: to.upstreamModel,
    messages,
  });
});

test('passChat drops empty stop sequences', () => {
  const stopOf = (stop: unknown) => sent(read(JSON.stringify({ ...chat, stop })), target()).stop;
  expect(stopOf(['', 'END', ' '])).toEqual(['END', ' ']);
  expect(stopOf('END')).toBe('END');
});

describe('passChat', () => {
  const requested = read(JSON.stringify({ ...chat, seed: 1, user: null, temperature: 0 }));
  const dropped = (quirks: Quirks, request = requested) => {
    const { service_tier: _, ...body } = sent(request, target(quirks));
    return [Object.keys(body).sort(), passChat(request, target(quirks)).dropped];
  };

  test('drops parameters that a vendor rejects and reports those that were set', () => {
    const remaining = ['messages', 'model', 'temperature'];
    expect(dropped({ drop_params: ['seed', 'user', 'stop'] })).toEqual([remaining, ['seed']]);
  });

  test('drops the fields that depend on a dropped parameter, in any format', () => {
    const droppedWith = (name: string, options: object) =>
      dropped({ drop_params: [name] }, read(JSON.stringify({ ...chat, ...options })));
    const plain = ['messages', 'model'];
    const tools = [{ type: 'function', function: { name: 'look', parameters: {} } }];
    const toolFields = { tools, tool_choice: 'auto', parallel_tool_calls: false };
    expect(droppedWith('tools', toolFields)).toEqual([plain, ['tools']]);
    const reasoning = { effort: 'high' };
    expect(droppedWith('reasoning_effort', { reasoning })).toEqual([plain, ['reasoning']]);
    expect(droppedWith('reasoning', { reasoning_effort: 'high' })).toEqual([plain, ['reasoning']]);
    expect(droppedWith('reasoning', { reasoning })).toEqual([plain, ['reasoning']]);
  });

  test('drops fields inside reasoning and reports them', () => {
    const reasoning = { effort: 'high', mode: 'pro', context: 'auto' };
    const request = read(JSON.stringify({ ...chat, reasoning }));
    expect(dropped({}, request)).toEqual([
      ['messages', 'model', 'reasoning_effort'],
      ['reasoning.mode'],
    ]);
  });

  test('reports an effort that has no equivalent', () => {
    const requested = (options: object) =>
      dropped({ efforts: {} }, read(JSON.stringify({ ...chat, ...options })));
    const plain = ['messages', 'model'];
    expect(requested({ reasoning_effort: 'high' })).toEqual([plain, ['reasoning']]);
    expect(requested({ reasoning: { effort: 'none' } })).toEqual([plain, []]);
    expect(requested({ reasoning: { exclude: true } })).toEqual([plain, []]);
    expect(requested({ reasoning: { enabled: true } })).toEqual([plain, ['reasoning']]);
    const thinking = { type: 'enabled', budget_tokens: 2_000 };
    expect(requested({ thinking })).toEqual([[...plain, 'thinking'], []]);
  });

  test('reports dropped message names but not the names of tools', () => {
    const bodyWith = (name: unknown) => ({
      ...chat,
      messages: [{ role: 'user', content: 'a', name }],
    });
    const names = (body: object, quirks: Quirks = { message_names: 'drop' }) =>
      dropped(quirks, read(JSON.stringify(body)))[1];
    expect([names(bodyWith('ann')), names(bodyWith(null))]).toEqual([['messages.name'], []]);
    expect(names(bodyWith('ann'), {})).toEqual([]);
    const result = { role: 'tool', tool_call_id: 'a', content: 'b', name: 'look' };
    expect(names({ ...chat, messages: [...messages, result] })).toEqual([]);
  });

  test('reports sampling parameters dropped while the model reasons', () => {
    const quirks = { sampling_while_reasoning: 'drop', efforts: { high: 'high' } } as const;
    const thinking = { ...chat, temperature: 0, top_p: null, reasoning_effort: 'high' };
    expect(dropped(quirks, read(JSON.stringify(thinking)))).toEqual([
      ['messages', 'model', 'reasoning_effort'],
      ['temperature'],
    ]);
  });
});

describe('passChat with reasoning enabled and no level', () => {
  const request = read(JSON.stringify({ ...chat, temperature: 0, reasoning: { enabled: true } }));
  const efforts = { medium: 'normal' };

  test("sends the vendor's name for medium effort", () => {
    expect(sent(request)).toMatchObject({ reasoning_effort: 'medium', temperature: 0 });
    const requested = target({ efforts, sampling_while_reasoning: 'drop_when_requested' });
    expect(sent(request, requested).reasoning_effort).toBe('normal');
    expect(passChat(request, requested).dropped).toEqual(['temperature']);
  });

  test('drops and reports it if the catalog does not list the model as a reasoning model', () => {
    const to = { ...target({ efforts }), isReasoningModel: false };
    expect(sent(request, to)).not.toHaveProperty('reasoning_effort');
    expect(passChat(request, to).dropped).toEqual(['reasoning']);
  });
});

describe('passChat with a surcharged service tier', () => {
  const options = (service_tier: unknown) => read(JSON.stringify({ ...chat, service_tier }));

  test.each(['priority', 'fast', 'performance', 'ultrafast'])(
    'drops and reports it: %p',
    (tier) => {
      const { body, dropped } = passChat(options(tier), target());
      expect([JSON.parse(String(body)).service_tier, dropped]).toEqual([
        undefined,
        ['service_tier'],
      ]);
    },
  );

  test("sends it with the tenant's own account", () => {
    const { body, dropped } = passChat(options('priority'), { ...target(), isOwnAccount: true });
    expect([JSON.parse(String(body)).service_tier, dropped]).toEqual(['priority', []]);
  });

  test.each(['auto', 'default', 'flex', null, 1])('forwards %p unchanged', (tier) => {
    expect(passChat(options(tier), target()).dropped).toEqual([]);
    expect(sent(options(tier)).service_tier).toEqual(tier);
  });

  test('drops other spellings and duplicate keys', () => {
    expect(sent(read(JSON.stringify({ ...chat, Service_Tier: 'priority' })))).not.toHaveProperty(
      'Service_Tier',
    );
    const repeated = JSON.stringify(chat).replace(
      /\}$/,
      ',"service_tier":"priority","service_tier":"auto"}',
    );
    expect(String(passChat(read(repeated), target()).body)).not.toContain('priority');
  });
});

describe('passChat for a vendor that reasons unless thinking is disabled', () => {
  const quirks = { reasoning_off: 'thinking', efforts: { high: 'high' } } as const;
  const look = { type: 'function', function: { name: 'look' } };
  const tool = { type: 'function', function: { name: 'look', parameters: {} } };
  const pass = (options: object, to: Quirks = quirks) => {
    const request = read(JSON.stringify({ ...chat, tools: [tool], ...options }));
    return [sent(request, target(to)), passChat(request, target(to)).dropped] as const;
  };

  test.each([['required'], [look]])('disables it when a tool call is forced: %j', (tool_choice) => {
    const [body, dropped] = pass({ tool_choice, reasoning_effort: 'high' });
    expect(body).toMatchObject({ tool_choice, thinking: { type: 'disabled' } });
    expect([body.reasoning_effort, dropped]).toEqual([undefined, ['reasoning']]);
    expect(pass({ tool_choice })[1]).toEqual([]);
  });

  test('disables it when the client turns reasoning off', () => {
    const [body, dropped] = pass({ reasoning_effort: 'none' });
    expect([body.thinking, body.reasoning_effort]).toEqual([{ type: 'disabled' }, undefined]);
    expect(dropped).toEqual([]);
  });

  test('does not set thinking otherwise', () => {
    expect(pass({ tool_choice: 'auto', reasoning_effort: 'high' })[0]).toMatchObject({
      reasoning_effort: 'high',
      tool_choice: 'auto',
    });
    for (const tool_choice of ['auto', 'none', undefined]) {
      expect(pass({ tool_choice })[0].thinking).toBeUndefined();
    }
    expect(pass({ tool_choice: 'required' }, {})[0].thinking).toBeUndefined();
    expect(pass({ tool_choice: 'required', tools: [] })[0].thinking).toBeUndefined();
  });
});

describe('passChat with a JSON format and tools', () => {
  const tools = [{ type: 'function', function: { name: 'look', parameters: {} } }];
  const schema = { type: 'object', properties: { tide: { type: 'string' } } };
  const formats = [
    [{ type: 'json_object' }, 'JSON object'],
    [{ type: 'json_schema', json_schema: { name: 'tides', schema } }, JSON.stringify(schema)],
  ] as const;
  const pass = (options: object, quirks: Quirks = { json_with_tools: 'instruct' }) =>
    sent(read(JSON.stringify({ ...chat, ...options })), target(quirks));

  test.each(formats)(
    'writes %j as an instruction if the vendor rejects it with tools',
    (response_format, content) => {
      const body = pass({ tools, response_format });
      expect([body.response_format, body.tools]).toEqual([undefined, tools]);
      const [instruction, ...others] = body.messages as { role: string; content: string }[];
      expect([instruction?.role, others]).toEqual(['system', messages]);
      expect(instruction?.content).toContain(content);
    },
  );

  test.each(formats)(
    'writes %j as a single instruction if schemas are rejected too',
    (response_format) => {
      const quirks = { json_with_tools: 'instruct', json_schema: 'instruct' } as const;
      const body = pass({ tools, response_format }, quirks);
      expect(body).not.toHaveProperty('response_format');
      expect(body.messages).toMatchObject([{ role: 'system' }, ...messages]);
    },
  );

  test.each(formats)(
    'leaves %j unchanged for other vendors and without tools',
    (response_format) => {
      for (const body of [pass({ response_format }), pass({ tools, response_format }, {})]) {
        expect([body.response_format, body.messages]).toEqual([response_format, messages]);
      }
    },
  );
});

describe('passChat for LM Studio', () => {
  const quirks = { json_object: 'schema', tool_choice_named: 'only_tool' } as const;
  const tool = (name: string) => ({ type: 'function', function: { name, parameters: {} } });
  const pass = (options: object, to: Quirks = quirks) =>
    sent(read(JSON.stringify({ ...chat, ...options })), target(to));

  test('writes a schema that any JSON object satisfies', () => {
    const response_format = { type: 'json_object' };
    const { json_schema: requested, type } = pass({ response_format }).response_format as {
      type: string;
      json_schema: { schema: object };
    };
    expect([type, requested.schema]).toEqual(['json_schema', { type: 'object' }]);
    expect(pass({ response_format }, {}).response_format).toEqual(response_format);
    expect(pass({ response_format: { type: 'text' } }).response_format).toEqual({ type: 'text' });
  });

  test('sends only the named tool and forces a call', () => {
    const tools = [tool('look'), tool('listen')];
    const named = { type: 'function', function: { name: 'listen' } };
    const options = { tools, tool_choice: named };
    expect(pass(options)).toMatchObject({ tools: [tool('listen')], tool_choice: 'required' });
    expect(pass(options, {})).toMatchObject(options);
    const absent = { type: 'function', function: { name: 'smell' } };
    expect(pass({ tools, tool_choice: absent })).toMatchObject({ tools, tool_choice: absent });
    for (const tool_choice of ['auto', 'none', 'required']) {
      expect(pass({ tools, tool_choice })).toMatchObject({ tools, tool_choice });
    }
  });
});
