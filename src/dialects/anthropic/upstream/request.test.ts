import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget, userTurn } from '../../../../tests/support/prompts.ts';
import { builtinCatalog } from '../../../config/catalog/index.ts';
import { isObject } from '../../../core/json.ts';
import type { Prompt, Turn } from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { writeMessages } from './request.ts';

function write(fields: Partial<Prompt> = {}, to: Partial<Target> = {}) {
  const { body, dropped, ...rest } = writeMessages(
    makePrompt(fields),
    makeTarget({ thinking: null, ...to }),
  );
  const value: unknown = JSON.parse(String(body));
  if (!isObject(value)) throw new Error("The body isn't an object.");
  return { ...rest, body: value, dropped };
}

const text = (content: string) => ({ kind: 'text' as const, text: content });
const call = (id: string, json = '{}') => ({
  kind: 'tool_call' as const,
  id,
  name: 'look',
  arguments: json,
});
const result = (callId: string, content: string) => ({
  kind: 'tool_result' as const,
  callId,
  parts: [text(content)],
  isError: false,
});
const look = { name: 'look', parameters: { type: 'object', properties: {} } };
const options = (
  effort: NonNullable<Prompt['reasoning']>['effort'],
  budgetTokens: number | null = null,
) => ({
  effort,
  budgetTokens,
  visible: true,
});

describe('writeMessages for turns', () => {
  const messagesOf = (turns: readonly Turn[], to: Partial<Target> = {}) =>
    write({ turns }, to).body.messages;

  // Quadratic time would exceed the test's time limit.
  test('merges 40,000 turns of one role in linear time', () => {
    const turns = Array.from({ length: 40_000 }, () => userTurn('Hi'));
    expect(messagesOf(turns)).toEqual([
      { role: 'user', content: turns.map(() => ({ type: 'text', text: 'Hi' })) },
    ]);
  });

  test('moves all instructions into system', () => {
    const { body } = write({
      turns: [
        { role: 'system', parts: [{ ...text('Be brief.'), cacheControl: { type: 'ephemeral' } }] },
        userTurn('Hi'),
        { role: 'system', parts: [text('Now be long.')] },
      ],
    });
    expect(body.system).toEqual([
      { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Now be long.' },
    ]);
    expect(body.messages).toEqual([{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }]);
  });

  test('writes all tool results first in one message, then the text', () => {
    const messages = messagesOf([
      userTurn('Hi'),
      { role: 'assistant', parts: [call('a'), call('b')] },
      { role: 'user', parts: [result('a', 'one')] },
      { role: 'user', parts: [text('and')] },
      { role: 'user', parts: [result('b', 'two')] },
    ]);
    expect(messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ type: 'tool_use' }, { type: 'tool_use' }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a' },
          { type: 'tool_result', tool_use_id: 'b' },
          { type: 'text', text: 'and' },
        ],
      },
    ]);
  });

  test('drops blank texts and empty turns', () => {
    const messages = messagesOf([
      userTurn('Hi'),
      { role: 'assistant', parts: [text(' \n')] },
      { role: 'user', parts: [text(''), text('there')] },
    ]);
    expect(messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'text', text: 'there' },
        ],
      },
    ]);
  });

  test('starts with a user message', () => {
    expect(messagesOf([{ role: 'assistant', parts: [text('Hi')] }, userTurn('Yes')])).toMatchObject(
      [{ role: 'user' }, { role: 'assistant' }, { role: 'user' }],
    );
    expect(messagesOf([{ role: 'system', parts: [text('Go.')] }])).toMatchObject([
      { role: 'user' },
    ]);
  });

  test('ends with a user message if required, and otherwise trims the last answer', () => {
    const turns: Turn[] = [userTurn('Count'), { role: 'assistant', parts: [text('One, ')] }];
    expect(messagesOf(turns, { thinking: 'adaptive' })).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ text: 'One, ' }] },
      { role: 'user', content: [{ text: 'Continue.' }] },
    ]);
    expect(messagesOf(turns)).toMatchObject([
      { role: 'user' },
      { role: 'assistant', content: [{ text: 'One,' }] },
    ]);
  });

  test.each([
    ['', {}],
    ['{"a":1}', { a: 1 }],
    ['[1]', { arguments: [1] }],
    ['{"a":', { arguments: '{"a":' }],
  ])('writes the call arguments %p as an object', (json, input) => {
    const turns: Turn[] = [
      userTurn('Hi'),
      { role: 'assistant', parts: [call('a', json)] },
      userTurn('x'),
    ];
    expect(messagesOf(turns)).toMatchObject([{}, { content: [{ type: 'tool_use', input }] }, {}]);
  });

  test('keeps long numbers in call arguments', () => {
    const parts = [call('a', '{"a":12345678901234567890}')];
    const turns: Turn[] = [userTurn('Hi'), { role: 'assistant', parts }, userTurn('x')];
    const { body } = writeMessages(makePrompt({ turns }), makeTarget());
    expect(String(body)).toContain('"input":{"a":12345678901234567890}');
  });

  test('replaces call IDs that Anthropic rejects, consistently for call and result', () => {
    const turns: Turn[] = [
      userTurn('Hi'),
      { role: 'assistant', parts: [call('functions.look:0'), call('functions_look:0')] },
      { role: 'user', parts: [result('functions.look:0', 'x'), result('functions_look:0', 'y')] },
    ];
    const text = JSON.stringify(messagesOf(turns));
    const ids = [...text.matchAll(/"(?:id|tool_use_id)":"([^"]+)"/g)].map(
      (match) => match[1] ?? '',
    );
    expect(ids).toHaveLength(4);
    for (const id of ids) expect(id).toMatch(/^[\w-]+$/);
    expect([ids[0], ids[1]]).toEqual([ids[2], ids[3]]);
    expect(ids[0]).not.toBe(ids[1]);
  });

  test('writes images and documents of every kind', () => {
    const { headers, body } = write({
      turns: [
        {
          role: 'user',
          parts: [
            { kind: 'image', url: 'data:image/jpg;base64,aGk=' },
            { kind: 'image', url: 'https://a.example/b.png' },
            { kind: 'document', source: { url: 'data:application/pdf;base64,aGk=' }, name: 'A' },
            { kind: 'document', source: { url: 'data:text/plain;base64,aGk=' } },
            { kind: 'document', source: { fileId: 'file_1' } },
            { kind: 'document', source: { text: 'text' } },
          ],
        },
      ],
    });
    expect(headers?.['anthropic-beta']).toBe('files-api-2025-04-14');
    expect(body.messages).toMatchObject([
      {
        content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'aGk=' } },
          { type: 'image', source: { type: 'url', url: 'https://a.example/b.png' } },
          { title: 'A', source: { type: 'base64', media_type: 'application/pdf' } },
          { source: { type: 'text', media_type: 'text/plain', data: 'hi' } },
          { source: { type: 'file', file_id: 'file_1' } },
          { source: { type: 'text', media_type: 'text/plain', data: 'text' } },
        ],
      },
    ]);
  });
});

describe('writeMessages for max_tokens', () => {
  test.each([
    [{}, {}, 8_192],
    [{}, { modelOutputTokensMax: 64_000 }, 64_000],
    [{ outputTokensMax: 100 }, { modelOutputTokensMax: 64_000 }, 100],
    [{ outputTokensMax: 100_000 }, { modelOutputTokensMax: 64_000 }, 64_000],
    [{ outputTokensMax: 100 }, { outputTokensMax: 20, modelOutputTokensMax: 64_000 }, 20],
  ] as const)('sends the lowest limit of %j and %j', (prompt, target, maxTokens) => {
    expect(write(prompt, target).body.max_tokens).toBe(maxTokens);
  });
});

describe('writeMessages for parameters', () => {
  test("writes supported parameters under Anthropic's names", () => {
    const { body, dropped, headers } = write({
      stop: ['END', ' '],
      user: 'ann',
      stream: true,
      sampling: { temperature: 1.7, topK: 5 },
    });
    expect(body).toMatchObject({
      stop_sequences: ['END'],
      metadata: { user_id: 'ann' },
      stream: true,
      temperature: 1,
      top_k: 5,
    });
    expect(dropped).toEqual(['stop']);
    expect(headers?.['anthropic-version']).toBe('2023-06-01');
  });

  test("reports dropped parameters by the clients' names", () => {
    const { body, dropped } = write({
      choices: 2,
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        seed: 1,
        presencePenalty: 1,
        frequencyPenalty: 1,
        logprobs: true,
        topLogprobs: 2,
        logitBias: { 1: 1 },
      },
    });
    expect(dropped?.toSorted()).toEqual([
      'frequency_penalty',
      'logit_bias',
      'logprobs',
      'n',
      'presence_penalty',
      'seed',
      'top_logprobs',
      'top_p',
    ]);
    expect(Object.keys(body).toSorted()).toEqual([
      'max_tokens',
      'messages',
      'model',
      'temperature',
    ]);
  });

  test('drops parameters that the model rejects', () => {
    const quirks = { drop_params: ['temperature', 'top_p', 'top_k', 'tool_choice'] };
    const { body, dropped } = write(
      { sampling: { temperature: 0.5, topK: 3 }, tools: [look], toolChoice: 'required' },
      { quirks },
    );
    expect(dropped?.toSorted()).toEqual(['temperature', 'tool_choice', 'top_k']);
    // Without a choice, the model decides whether to call tools.
    expect(body.tool_choice).toBeUndefined();
  });
});

describe('writeMessages for tools', () => {
  test.each([
    ['auto', null, { type: 'auto' }],
    ['required', false, { type: 'any', disable_parallel_tool_use: true }],
    ['none', false, { type: 'none' }],
    [{ name: 'look' }, null, { type: 'tool', name: 'look' }],
    [null, false, { type: 'auto', disable_parallel_tool_use: true }],
    [null, true, undefined],
  ] as const)(
    'writes the tool choice %j with parallel calls %p',
    (toolChoice, parallelTools, choice) => {
      const { body } = write({ tools: [look], toolChoice, parallelTools });
      expect(body.tool_choice).toEqual(choice as unknown);
      expect(write({ toolChoice, parallelTools }).body.tool_choice).toBeUndefined();
    },
  );

  test('writes schemas with an object at the root, and no union', () => {
    const branch = (name: string) => ({
      type: 'object',
      properties: { [name]: { type: 'string' } },
    });
    const tools = [
      { name: 'a', parameters: null },
      { name: 'b', parameters: { properties: { x: {} } } },
      { name: 'c', parameters: { anyOf: [branch('p'), branch('q')], description: 'either' } },
    ];
    expect(write({ tools }).body.tools).toEqual([
      { name: 'a', input_schema: { type: 'object' } },
      { name: 'b', input_schema: { type: 'object', properties: { x: {} } } },
      {
        name: 'c',
        input_schema: {
          type: 'object',
          description: 'either',
          properties: { p: { type: 'string' }, q: { type: 'string' } },
        },
      },
    ]);
  });
});

describe('writeMessages for JSON answers', () => {
  test('writes a schema without the keywords that Anthropic rejects', () => {
    const schema = {
      type: 'object',
      properties: {
        n: { type: 'integer', minimum: 1, maximum: 5 },
        list: { type: 'array', minItems: 1, items: { type: 'string', pattern: 'a' } },
        minimum: { oneOf: [{ const: 1 }, { type: 'object', properties: {} }] },
      },
      $defs: { d: { type: 'string', maxLength: 3 } },
    };
    const { body } = write({ json: { schema, name: 'x' } });
    expect(body.output_config).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: {
            n: { type: 'integer' },
            list: { type: 'array', items: { type: 'string' } },
            minimum: {
              anyOf: [
                { const: 1 },
                { type: 'object', properties: {}, additionalProperties: false },
              ],
            },
          },
          $defs: { d: { type: 'string' } },
          additionalProperties: false,
        },
      },
    });
  });

  test("writes an instruction if there is no schema or the model doesn't support schemas", () => {
    const plain = write({ json: { schema: null, name: 'x' } });
    expect(JSON.stringify(plain.body.system)).toContain('JSON object');
    const instructed = write(
      { json: { schema: { type: 'object' }, name: 'x' } },
      { quirks: { json_schema: 'instruct' } },
    );
    expect(JSON.stringify(instructed.body.system)).toContain('{\\"type\\":\\"object\\"}');
    expect(instructed.body.output_config).toBeUndefined();
  });
});

describe('writeMessages for reasoning', () => {
  const optional = { efforts: { minimal: 'low', low: 'low', high: 'high', xhigh: 'max' } };
  const always = { efforts: { none: 'low', ...optional.efforts } };
  const summary = { type: 'adaptive', display: 'summarized' };

  test.each([
    [options('high'), {}, summary, 'high'],
    [options('minimal'), {}, summary, 'low'],
    [options('xhigh'), optional, summary, 'max'],
    [options(null), {}, summary, undefined],
    [options('none'), optional, { type: 'disabled' }, undefined],
    [options('none'), always, summary, 'low'],
    [{ ...options('low'), visible: false }, {}, { type: 'adaptive', display: 'omitted' }, 'low'],
    [options(null, 2_000), {}, summary, 'low'],
    [options(null, 12_000), {}, summary, 'medium'],
    [options(null, 12_001), {}, summary, 'high'],
  ] as const)('writes %j for an adaptive model with %j', (reasoning, quirks, thinking, effort) => {
    const { body } = write({ reasoning }, { thinking: 'adaptive', quirks });
    expect(body.thinking).toEqual(thinking);
    expect(body.output_config).toEqual(effort && { effort });
  });

  test.each([
    ['claude-opus-4-6', options('xhigh'), summary, 'max'],
    ['us.anthropic.claude-sonnet-4-6-v1:0', options('none'), { type: 'disabled' }, undefined],
    ['claude-opus-4-7', options('xhigh'), summary, 'xhigh'],
    ['claude-opus-5@20260724', options('none'), { type: 'disabled' }, undefined],
    ['claude-haiku-5-5', options('none'), { type: 'disabled' }, undefined],
    // These models always think, and unknown models are treated the same.
    ['claude-opus-5-5', options('none'), summary, 'low'],
    ['claude-sonnet-5.5', options('none'), summary, 'low'],
    ['claude-epic-9', options('none'), summary, 'low'],
  ] as const)(
    'writes the reasoning for %s by its name: %j',
    (upstreamModel, reasoning, thinking, effort) => {
      const { body } = write({ reasoning }, { thinking: 'adaptive', upstreamModel });
      expect(body.thinking).toEqual(thinking);
      expect(body.output_config).toEqual(effort && { effort });
    },
  );

  test.each([
    [options('minimal'), 50_000, 1_024],
    [options('low'), 50_000, 2_048],
    [options(null), 50_000, 10_000],
    [options('high'), 50_000, 16_000],
    [options('xhigh'), 50_000, 32_000],
    [options('max'), 50_000, 48_976],
    [options('high'), 4_096, 3_072],
    [options('high'), 2_000, 1_024],
    [options(null, 1_500), 1_025, 1_024],
    [options(null, 5_000), 50_000, 5_000],
    [options(null, 5), 50_000, 1_024],
  ])(
    'writes %j for a model with a budget and max_tokens %i',
    (reasoning, outputTokensMax, budget) => {
      const { body } = write({ reasoning, outputTokensMax }, { thinking: 'budget' });
      expect(body.thinking).toEqual({ type: 'enabled', budget_tokens: budget });
      expect(body.max_tokens).toBe(outputTokensMax);
    },
  );

  test('drops and reports reasoning that exceeds the output limit or is not supported', () => {
    const reasoning = options('high');
    const droppedFor = (fields: Partial<Prompt>, to: Partial<Target>) => {
      const { body, dropped } = write({ reasoning, ...fields }, to);
      expect(body.thinking).toBeUndefined();
      return dropped;
    };
    expect(droppedFor({ outputTokensMax: 1_024 }, { thinking: 'budget' })).toEqual(['reasoning']);
    expect(droppedFor({}, { thinking: null })).toEqual(['reasoning']);
    const forced = { tools: [look], toolChoice: 'required' as const };
    expect(droppedFor(forced, { thinking: 'budget' })).toEqual(['reasoning']);
    expect(droppedFor({ reasoning: options('none') }, { thinking: 'budget' })).toEqual([]);
  });

  test('drops sampling parameters', () => {
    const { body, dropped } = write(
      { reasoning: options('high'), sampling: { temperature: 0.5, topK: 3 } },
      { thinking: 'adaptive' },
    );
    expect(dropped).toEqual(['temperature', 'top_k']);
    expect(body.temperature).toBeUndefined();
  });

  const turnsWithCall = (thinking: object[]): Turn[] => [
    userTurn('Hi'),
    { role: 'assistant', parts: [...thinking, call('a')] as never },
    { role: 'user', parts: [result('a', 'x')] },
  ];

  test('drops reasoning if the thinking that led to the latest call is missing', () => {
    for (const thinking of ['adaptive', 'budget'] as const) {
      const lost = write({ reasoning: options('high'), turns: turnsWithCall([]) }, { thinking });
      expect(lost.dropped).toEqual(['reasoning']);
      expect(lost.body.output_config).toBeUndefined();
      const unsupported = [{ kind: 'reasoning', text: 'hm', signature: 'gemini:x' }];
      const other = write(
        { reasoning: options('high'), turns: turnsWithCall(unsupported) },
        { thinking },
      );
      expect(other.dropped).toEqual(['reasoning']);
      const own = [{ kind: 'reasoning', text: 'hm', signature: 'x' }];
      const signed = write({ reasoning: options('high'), turns: turnsWithCall(own) }, { thinking });
      expect(signed.dropped).toEqual([]);
      expect(JSON.stringify(signed.body.messages)).toContain('"signature":"x"');
    }
    const alwaysThinking = write(
      { reasoning: options('high'), turns: turnsWithCall([]) },
      { thinking: 'adaptive', quirks: always },
    );
    expect([alwaysThinking.dropped, alwaysThinking.body.thinking]).toEqual([[], summary]);
  });
});

test("writeMessages sends only values that each catalog model's generation accepts", () => {
  const models = builtinCatalog.models.filter(({ id }) => id.startsWith('anthropic/'));
  expect(models.length).toBeGreaterThan(5);
  const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
  for (const { id, thinking = null, endpoints } of models) {
    const quirks = endpoints[0]?.quirks ?? {};
    for (const effort of efforts) {
      const { body } = write(
        { reasoning: options(effort), sampling: { temperature: 0.5 }, outputTokensMax: 40_000 },
        { thinking, quirks },
      );
      const written = isObject(body.output_config) ? body.output_config.effort : undefined;
      // The 4.6 generation has no xhigh, and a model with a budget gets no effort.
      const known = /4\.6$/.test(id)
        ? ['low', 'medium', 'high', 'max']
        : ['low', 'medium', 'high', 'xhigh', 'max'];
      expect(written === undefined || known.includes(String(written))).toBe(true);
      expect({ id, effort, hasThinking: body.thinking !== undefined }).toEqual({
        id,
        effort,
        hasThinking: thinking === 'adaptive' || effort !== 'none',
      });
      if (/5|4\.[78]$/.test(id) && !/4\.5/.test(id)) expect(body.temperature).toBeUndefined();
    }
  }
});

test("writeMessages writes the prompt's top-level cache_control", () => {
  const cacheControl = { type: 'ephemeral', ttl: '1h' };
  expect(write({ cacheControl }).body.cache_control).toEqual(cacheControl);
  expect(write().body).not.toHaveProperty('cache_control');
  const refused = write({ cacheControl }, { quirks: { drop_params: ['cache_control'] } });
  expect(refused.body).not.toHaveProperty('cache_control');
  expect(refused.dropped).toEqual(['cache_control']);
});
