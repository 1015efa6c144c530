import { describe, expect, test } from 'bun:test';
import { makePrompt, userTurn, makeTarget } from '../../../../tests/support/prompts.ts';
import type {
  AssistantPart,
  Effort,
  Prompt,
  Tool,
  ToolResultPart,
  Turn,
  UserPart,
} from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { writeItems, writeRequest } from './request.ts';

function write(given: Partial<Prompt>, target: Partial<Target> = {}) {
  const request = writeRequest(makePrompt(given), makeTarget(target));
  return { ...request, body: JSON.parse(String(request.body)) as Record<string, unknown> };
}

const requested = (effort: Effort | null, budgetTokens: number | null = null, visible = false) => ({
  effort,
  budgetTokens,
  visible,
});
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tool: Tool = { name: 'weather', description: 'Tells the weather', parameters };

test('writeRequest disables storage and requests encrypted reasoning', () => {
  const { path, body, dropped } = write({});
  expect({ path, dropped }).toEqual({ path: '/responses', dropped: [] });
  expect(body).toEqual({
    model: 'chat-large',
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello!' }] }],
    store: false,
    include: ['reasoning.encrypted_content'],
  });
});

test('writeRequest requests no reasoning from a model that does not reason', () => {
  const { body, dropped } = write({ reasoning: requested('high', null, true) }, { thinking: null });
  expect(body.include).toBeUndefined();
  expect(body.reasoning).toBeUndefined();
  expect(dropped).toEqual(['reasoning']);
  const quiet = write({ reasoning: requested('none', null, true) }, { thinking: null });
  expect([quiet.body.reasoning, quiet.dropped]).toEqual([undefined, []]);
});

describe('writeRequest writes parameters', () => {
  test("in this endpoint's format", () => {
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

  test('with our output cap, but at least the minimum', () => {
    const cap = (own: number, ours: number | null) =>
      write({ outputTokensMax: own }, { outputTokensMax: ours }).body.max_output_tokens;
    expect(cap(100, 30)).toBe(30);
    expect(cap(100, null)).toBe(100);
    expect(cap(1, null)).toBe(16);
    expect(cap(100, 5)).toBe(16);
    const most = write({ outputTokensMax: 100 }, { modelOutputTokensMax: 64 });
    expect(most.body.max_output_tokens).toBe(64);
  });

  test('and truncates a long user name', () => {
    expect(write({ user: 'a'.repeat(65) }).body.user).toBe('a'.repeat(64));
  });

  test('and reports those that do not exist here', () => {
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

  test('without those the quirks drop', () => {
    const { body, dropped } = write(
      { user: 'ann', parallelTools: false, tools: [tool], toolChoice: { name: tool.name } },
      { quirks: { drop_params: ['user', 'parallel_tool_calls', 'tool_choice'] } },
    );
    const { user, parallel_tool_calls: parallel, tool_choice: choice } = body;
    expect([user, parallel, choice]).toEqual([undefined, undefined, undefined]);
    expect(dropped).toEqual(['user', 'parallel_tool_calls', 'tool_choice']);
  });
});

describe('writeRequest writes tools', () => {
  test('flat, with strict', () => {
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
  ] as const)('with the choice %j as %j', (toolChoice, choice) => {
    expect(write({ tools: [tool], toolChoice }).body.tool_choice).toEqual(choice);
    expect(write({ toolChoice }).body.tool_choice).toBeUndefined();
  });

  test.each([true, false])('with parallel_tool_calls: %p', (parallelTools) => {
    expect(write({ tools: [tool], parallelTools }).body.parallel_tool_calls).toBe(parallelTools);
    expect(write({ parallelTools }).body.parallel_tool_calls).toBeUndefined();
  });
});

test('writeRequest writes the JSON format into text', () => {
  const format = (json: Prompt['json']) => write({ json }).body.text;
  expect(format({ schema: null, name: 'a' })).toEqual({ format: { type: 'json_object' } });
  expect(format({ schema: parameters, name: 'a', strict: true, description: 'b' })).toEqual({
    format: { type: 'json_schema', name: 'a', description: 'b', schema: parameters, strict: true },
  });
});

describe('writeRequest writes reasoning', () => {
  const efforts = { none: 'none', minimal: 'low', high: 'high' };

  test.each([
    ['high', 'high'],
    ['minimal', 'low'],
    ['max', undefined],
  ] as const)("with the vendor's word for the effort %s: %p", (effort, word) => {
    const { body } = write({ reasoning: requested(effort) }, { quirks: { efforts } });
    expect(body.reasoning).toEqual(word === undefined ? undefined : { effort: word });
  });

  test('with the middle level if it is adaptive without an effort', () => {
    const said = (effort: Effort | null) =>
      write({ reasoning: { ...requested(effort), isAdaptive: true } }).body.reasoning;
    expect([said(null), said('high')]).toEqual([{ effort: 'medium' }, { effort: 'high' }]);
  });

  test('with efforts for token budgets, and passes unknown efforts', () => {
    const effort = (tokens: number) => write({ reasoning: requested(null, tokens) }).body.reasoning;
    expect([effort(2048), effort(12_000), effort(12_001)]).toEqual([
      { effort: 'low' },
      { effort: 'medium' },
      { effort: 'high' },
    ]);
    expect(write({ reasoning: requested('xhigh') }).body.reasoning).toEqual({ effort: 'xhigh' });
  });

  test('with a summary only if it is visible and not off', () => {
    const said = (effort: Effort | null, visible: boolean) =>
      write({ reasoning: requested(effort, null, visible) }).body.reasoning;
    expect(said('high', true)).toEqual({ effort: 'high', summary: 'auto' });
    expect(said(null, true)).toEqual({ summary: 'auto' });
    expect(said('none', true)).toEqual({ effort: 'none' });
    expect(said(null, false)).toBeUndefined();
  });

  test.each([
    [null, true],
    ['high', true],
    ['none', false],
  ] as const)('and drops sampling with the effort %p: %p', (effort, isDropped) => {
    const quirks = { efforts, sampling_while_reasoning: 'drop' as const };
    const { body, dropped } = write(
      { reasoning: effort && requested(effort), sampling: { temperature: 1, topP: 0.5 } },
      { quirks },
    );
    expect([body.temperature, body.top_p]).toEqual(isDropped ? [undefined, undefined] : [1, 0.5]);
    expect(dropped).toEqual(isDropped ? ['temperature', 'top_p'] : []);
  });

  test('and drops sampling only while a model that reasons on request does so', () => {
    const quirks = { efforts, sampling_while_reasoning: 'drop_when_requested' as const };
    const sampled = (effort: 'high' | 'none' | null) =>
      write({ reasoning: effort && requested(effort), sampling: { temperature: 1 } }, { quirks })
        .body.temperature;
    expect([sampled(null), sampled('none'), sampled('high')]).toEqual([1, 1, undefined]);
  });
});

const text = (said: string) => ({ kind: 'text' as const, text: said });
const items = (turn: Turn) => writeItems([turn]);
const user = (...parts: UserPart[]) => items({ role: 'user', parts });
const model = (...parts: AssistantPart[]) => items({ role: 'assistant', parts });
const call: AssistantPart = { kind: 'tool_call', id: 'call_1', name: 'now', arguments: '{"a":1}' };
const called = { type: 'function_call', call_id: 'call_1', name: 'now', arguments: '{"a":1}' };
const thought = (said: string, signature?: string): AssistantPart => ({
  kind: 'reasoning',
  text: said,
  signature,
});

describe('writeRequest writes user turns', () => {
  test('with system texts in their positions', () => {
    const system: Turn = { role: 'system', parts: [text('Be brief.'), text(''), text('Be kind.')] };
    expect(writeItems([userTurn('Hi'), system])).toEqual([
      { role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      {
        role: 'system',
        content: [
          { type: 'input_text', text: 'Be brief.' },
          { type: 'input_text', text: 'Be kind.' },
        ],
      },
    ]);
    expect(items({ role: 'system', parts: [] })).toEqual([]);
  });

  test('with an empty message, but adds none next to results', () => {
    const result: UserPart = { kind: 'tool_result', callId: 'a', parts: [], isError: false };
    const output = { type: 'function_call_output', call_id: 'a', output: '' };
    for (const said of [[], [text('')]]) {
      expect(user(...said)).toEqual([{ role: 'user', content: '' }]);
      expect(user(result, ...said)).toEqual([output]);
    }
  });

  test.each<[string, UserPart, object]>([
    ['a text', text('Hi'), { type: 'input_text', text: 'Hi' }],
    [
      'a picture',
      { kind: 'image', url: 'data:image/png;base64,AAAA' },
      { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
    ],
    [
      'a picture somewhere else, in detail',
      { kind: 'image', url: 'https://a.example/b.png', detail: 'high' },
      { type: 'input_image', image_url: 'https://a.example/b.png', detail: 'high' },
    ],
    [
      'a sound',
      { kind: 'audio', data: 'AAAA', format: 'wav' },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
    ],
    [
      'a document',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' } },
      {
        type: 'input_file',
        filename: 'document.pdf',
        file_data: 'data:application/pdf;base64,AAAA',
      },
    ],
    [
      'a document with a name',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
    ],
    [
      'a document whose scheme is in capitals',
      { kind: 'document', source: { url: 'DATA:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'DATA:application/pdf;base64,AAAA' },
    ],
    [
      'a document somewhere else',
      { kind: 'document', source: { url: 'https://a.example/b.pdf' }, name: 'b.pdf' },
      { type: 'input_file', file_url: 'https://a.example/b.pdf' },
    ],
    [
      'a document kept at OpenAI',
      { kind: 'document', source: { fileId: 'file-1' } },
      { type: 'input_file', file_id: 'file-1' },
    ],
    [
      'a document of words',
      { kind: 'document', source: { text: 'Once upon a time' }, name: 'Tale' },
      { type: 'input_text', text: 'Tale\n\nOnce upon a time' },
    ],
  ])('%s', (_, part, written) => {
    expect(user(part)).toEqual([{ role: 'user', content: [written] }]);
  });
});

describe('writeRequest writes results', () => {
  const result = (parts: ToolResultPart['parts'], isError = false): UserPart => ({
    kind: 'tool_result',
    callId: 'call_1',
    parts,
    isError,
  });
  const picture = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const shown = { type: 'input_image', image_url: picture.url, detail: 'auto' };
  const head = { type: 'function_call_output', call_id: 'call_1' };

  test("before the user's content", () => {
    expect(user(text('So?'), result([text('rain')]))).toEqual([
      { ...head, output: 'rain' },
      { role: 'user', content: [{ type: 'input_text', text: 'So?' }] },
    ]);
  });

  test('with a prefix for failed tools', () => {
    expect(user(result([text('no'), text('way')], true))).toEqual([
      { ...head, output: 'Error: no\n\nway' },
    ]);
    expect(user(result([picture], true))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'Error: ' }, shown] },
    ]);
    expect(user(result([]))).toEqual([{ ...head, output: '' }]);
  });

  test('with the shortened ids of their calls', () => {
    const ids = ['x'.repeat(65), 'x'.repeat(64)];
    const written = ids.flatMap((id) => [
      ...model({ ...call, id }),
      ...user({ kind: 'tool_result', callId: id, parts: [], isError: false }),
    ]);
    const [first = '', ...rest] = written.map((item) => 'call_id' in item && String(item.call_id));
    expect(rest).toEqual([first, 'x'.repeat(64), 'x'.repeat(64)]);
    expect(first).toMatch(/^call_\w{24}$/);
  });

  test('with their images inside', () => {
    expect(user(result([text('see'), picture]))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'see' }, shown] },
    ]);
  });
});

describe('writeRequest writes assistant turns', () => {
  const said = (...content: object[]) => ({ role: 'assistant', content });
  const yes = { type: 'output_text', text: 'Yes.' };

  test('with texts and refusals in one message and calls as items', () => {
    expect(model(text('Yes.'), { kind: 'refusal', text: 'No.' }, text(''), call)).toEqual([
      said(yes, { type: 'refusal', refusal: 'No.' }),
      called,
    ]);
    expect(model({ ...call, arguments: '' })).toEqual([{ ...called, arguments: '{}' }]);
  });

  test("with OpenAI's thoughts in front of what followed them", () => {
    const signature = 'responses:rs_1:gAAA:=';
    const item = { type: 'reasoning', id: 'rs_1', encrypted_content: 'gAAA:=' };
    const summary = [{ type: 'summary_text', text: 'Hm.' }];
    expect(model(thought('Hm.', signature), call)).toEqual([{ ...item, summary }, called]);
    expect(model(thought('', signature), text('Yes.'))).toEqual([
      { ...item, summary: [] },
      said(yes),
    ]);
    expect(model(text('Yes.'), thought('', signature), call)).toEqual([
      said(yes),
      { ...item, summary: [] },
      called,
    ]);
  });

  test('without a final thought, which is rejected alone', () => {
    expect(model(text('Yes.'), thought('Hm.', 'responses:rs_1:x'))).toEqual([said(yes)]);
    expect(model(thought('Hm.', 'responses:rs_1:x'), text(''))).toEqual([]);
  });

  test.each([undefined, '', 'gemini:S1', 'an Anthropic one', 'responses:', 'responses:rs_1'])(
    'without a thought with the signature %p',
    (signature) => {
      expect(model(thought('Hm.', signature), call)).toEqual([called]);
    },
  );
});
