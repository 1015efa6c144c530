import { describe, expect, test } from 'bun:test';
import { question, targetOf } from '../../../tests/support/question.ts';
import type { Dialogue, Effort, Tool } from '../../core/dialogue.ts';
import type { Target } from '../dialect.ts';
import { writeRequest } from './write.ts';

function write(given: Partial<Dialogue>, target: Partial<Target> = {}) {
  const request = writeRequest(question(given), targetOf(target));
  return { ...request, body: JSON.parse(String(request.body)) as Record<string, unknown> };
}

const asked = (effort: Effort | null, budgetTokens: number | null = null, visible = false) => ({
  effort,
  budgetTokens,
  visible,
});
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tool: Tool = { name: 'weather', description: 'Tells the weather', parameters };

test('the plainest request keeps nothing at the provider and asks for encrypted thoughts', () => {
  const { path, body, dropped } = write({});
  expect({ path, dropped }).toEqual({ path: '/responses', dropped: [] });
  expect(body).toEqual({
    model: 'chat-large',
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello!' }] }],
    store: false,
    include: ['reasoning.encrypted_content'],
  });
});

test('a model that does not think is not asked for thoughts', () => {
  const { body, dropped } = write({ reasoning: asked('high', null, true) }, { thinking: null });
  expect(body.include).toBeUndefined();
  expect(body.reasoning).toBeUndefined();
  expect(dropped).toEqual(['reasoning']);
  const quiet = write({ reasoning: asked('none', null, true) }, { thinking: null });
  expect([quiet.body.reasoning, quiet.dropped]).toEqual([undefined, []]);
});

describe('the parameters', () => {
  test('are in the words of this endpoint', () => {
    const { body, dropped } = write({
      outputTokensMax: 100,
      sampling: { temperature: 0.5, topP: 0.9 },
      user: 'ann',
      stream: true,
    });
    expect(body).toMatchObject({
      max_output_tokens: 100,
      temperature: 0.5,
      top_p: 0.9,
      user: 'ann',
      stream: true,
    });
    expect(dropped).toEqual([]);
  });

  test('the cap is ours before the client’s, and never below what is taken', () => {
    const cap = (own: number, ours: number | null) =>
      write({ outputTokensMax: own }, { outputTokensMax: ours }).body.max_output_tokens;
    expect(cap(100, 30)).toBe(30);
    expect(cap(100, null)).toBe(100);
    expect(cap(1, null)).toBe(16);
    expect(cap(100, 5)).toBe(16);
    const most = write({ outputTokensMax: 100 }, { modelOutputTokensMax: 64 });
    expect(most.body.max_output_tokens).toBe(64);
  });

  test('a long name of the user is cut', () => {
    expect(write({ user: 'a'.repeat(65) }).body.user).toBe('a'.repeat(64));
  });

  test('that do not exist here are told as dropped', () => {
    const { dropped, body } = write({
      stop: ['a'],
      choices: 2,
      sampling: {
        seed: 1,
        topK: 2,
        presencePenalty: 1,
        frequencyPenalty: 1,
        logitBias: { 1: 2 },
        logprobs: true,
        topLogprobs: 3,
      },
      tools: [{ ...tool, cacheControl: { type: 'ephemeral' } }],
    });
    expect(new Set(dropped)).toEqual(
      new Set([
        'stop',
        'n',
        'seed',
        'top_k',
        'presence_penalty',
        'frequency_penalty',
        'logit_bias',
        'logprobs',
        'top_logprobs',
        'cache_control',
      ]),
    );
    expect(Object.keys(body).toSorted()).toEqual(['include', 'input', 'model', 'store', 'tools']);
  });

  test('that the vendor refuses are left out by its quirks', () => {
    const { body, dropped } = write(
      { user: 'ann', parallelTools: false, tools: [tool], toolChoice: { name: tool.name } },
      { quirks: { drop_params: ['user', 'parallel_tool_calls', 'tool_choice'] } },
    );
    const { user, parallel_tool_calls: parallel, tool_choice: choice } = body;
    expect([user, parallel, choice]).toEqual([undefined, undefined, undefined]);
    expect(dropped).toEqual(['user', 'parallel_tool_calls', 'tool_choice']);
  });
});

describe('tools', () => {
  test('are flat and say whether they are strict', () => {
    expect(
      write({ tools: [tool, { name: 'now', parameters: null, strict: true }] }).body.tools,
    ).toEqual([
      {
        type: 'function',
        name: 'weather',
        description: 'Tells the weather',
        parameters,
        strict: false,
      },
      {
        type: 'function',
        name: 'now',
        parameters: { type: 'object', properties: {} },
        strict: true,
      },
    ]);
  });

  test.each([
    [null, undefined],
    ['auto', 'auto'],
    ['none', 'none'],
    ['required', 'required'],
    [{ name: 'weather' }, { type: 'function', name: 'weather' }],
  ] as const)('are chosen as %j', (toolChoice, choice) => {
    expect(write({ tools: [tool], toolChoice }).body.tool_choice).toEqual(choice);
    expect(write({ toolChoice }).body.tool_choice).toBeUndefined();
  });

  test.each([true, false])('parallel: %p', (parallelTools) => {
    expect(write({ tools: [tool], parallelTools }).body.parallel_tool_calls).toBe(parallelTools);
    expect(write({ parallelTools }).body.parallel_tool_calls).toBeUndefined();
  });
});

test('JSON output is a format of the text', () => {
  const format = (json: Dialogue['json']) => write({ json }).body.text;
  expect(format({ schema: null, name: 'a' })).toEqual({ format: { type: 'json_object' } });
  expect(format({ schema: parameters, name: 'a', strict: true, description: 'b' })).toEqual({
    format: { type: 'json_schema', name: 'a', description: 'b', schema: parameters, strict: true },
  });
});

describe('reasoning', () => {
  const efforts = { none: 'none', minimal: 'low', high: 'high' };

  test.each([
    ['high', 'high'],
    ['minimal', 'low'],
    ['max', undefined],
  ] as const)('the effort %s is in the vendor’s words: %p', (effort, word) => {
    const { body } = write({ reasoning: asked(effort) }, { quirks: { efforts } });
    expect(body.reasoning).toEqual(word === undefined ? undefined : { effort: word });
  });

  test('as much as the model sees fit is the middle level, unless one was named', () => {
    const said = (effort: Effort | null) =>
      write({ reasoning: { ...asked(effort), isAdaptive: true } }).body.reasoning;
    expect([said(null), said('high')]).toEqual([{ effort: 'medium' }, { effort: 'high' }]);
  });

  test('tokens are an effort; what nobody translates stays', () => {
    const effort = (tokens: number) => write({ reasoning: asked(null, tokens) }).body.reasoning;
    expect([effort(2048), effort(12_000), effort(12_001)]).toEqual([
      { effort: 'low' },
      { effort: 'medium' },
      { effort: 'high' },
    ]);
    expect(write({ reasoning: asked('xhigh') }).body.reasoning).toEqual({ effort: 'xhigh' });
  });

  test('a summary is asked for where the client wants to see and there is something', () => {
    const said = (effort: Effort | null, visible: boolean) =>
      write({ reasoning: asked(effort, null, visible) }).body.reasoning;
    expect(said('high', true)).toEqual({ effort: 'high', summary: 'auto' });
    expect(said(null, true)).toEqual({ summary: 'auto' });
    expect(said('none', true)).toEqual({ effort: 'none' });
    expect(said(null, false)).toBeUndefined();
  });

  test.each([
    [null, true],
    ['high', true],
    ['none', false],
  ] as const)('with the effort %p sampling is dropped: %p', (effort, isDropped) => {
    const quirks = { efforts, sampling_while_reasoning: 'drop' as const };
    const { body, dropped } = write(
      { reasoning: effort && asked(effort), sampling: { temperature: 1, topP: 0.5 } },
      { quirks },
    );
    expect([body.temperature, body.top_p]).toEqual(isDropped ? [undefined, undefined] : [1, 0.5]);
    expect(dropped).toEqual(isDropped ? ['temperature', 'top_p'] : []);
  });

  test('a model that reasons only when asked takes sampling until then', () => {
    const quirks = { efforts, sampling_while_reasoning: 'drop_when_asked' as const };
    const sampled = (effort: 'high' | 'none' | null) =>
      write({ reasoning: effort && asked(effort), sampling: { temperature: 1 } }, { quirks }).body
        .temperature;
    expect([sampled(null), sampled('none'), sampled('high')]).toEqual([1, 1, undefined]);
  });
});
