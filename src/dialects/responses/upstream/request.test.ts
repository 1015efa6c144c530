import { describe, expect, test } from 'bun:test';
import { makePrompt, makeTarget, userTurn } from '../../../../tests/support/prompts.ts';
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

function write(fields: Partial<Prompt>, target: Partial<Target> = {}) {
  const request = writeRequest(makePrompt(fields), makeTarget(target));
  return { ...request, body: JSON.parse(String(request.body)) as Record<string, unknown> };
}

const reasoningOptions = (
  effort: Effort | null,
  budgetTokens: number | null = null,
  visible = false,
) => ({
  effort,
  budgetTokens,
  visible,
});
const parameters = { type: 'object', properties: { city: { type: 'string' } } };
const tool: Tool = { name: 'weather', description: 'Returns the weather', parameters };

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

test('writeRequest does not request reasoning from a model that does not reason', () => {
  const { body, dropped } = write(
    { reasoning: reasoningOptions('high', null, true) },
    { thinking: null },
  );
  expect(body.include).toBeUndefined();
  expect(body.reasoning).toBeUndefined();
  expect(dropped).toEqual(['reasoning']);
  const off = write({ reasoning: reasoningOptions('none', null, true) }, { thinking: null });
  expect([off.body.reasoning, off.dropped]).toEqual([undefined, []]);
});

describe('writeRequest', () => {
  test("writes parameters in the endpoint's format", () => {
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

  test('writes the lowest output limit, but at least the minimum', () => {
    const cap = (requestedMax: number, outputTokensMax: number | null) =>
      write({ outputTokensMax: requestedMax }, { outputTokensMax }).body.max_output_tokens;
    expect(cap(100, 30)).toBe(30);
    expect(cap(100, null)).toBe(100);
    expect(cap(1, null)).toBe(16);
    expect(cap(100, 5)).toBe(16);
    const capped = write({ outputTokensMax: 100 }, { modelOutputTokensMax: 64 });
    expect(capped.body.max_output_tokens).toBe(64);
  });

  test('truncates a long user field', () => {
    expect(write({ user: 'a'.repeat(65) }).body.user).toBe('a'.repeat(64));
  });

  test('reports parameters that the endpoint does not support', () => {
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

  test('drops parameters named by quirks', () => {
    const { body, dropped } = write(
      { user: 'ann', parallelTools: false, tools: [tool], toolChoice: { name: tool.name } },
      { quirks: { drop_params: ['user', 'parallel_tool_calls', 'tool_choice'] } },
    );
    const { user, parallel_tool_calls: parallel, tool_choice: choice } = body;
    expect([user, parallel, choice]).toEqual([undefined, undefined, undefined]);
    expect(dropped).toEqual(['user', 'parallel_tool_calls', 'tool_choice']);
  });
});

describe('writeRequest', () => {
  test('writes flat tools with strict', () => {
    expect(
      write({ tools: [tool, { name: 'now', parameters: null, strict: true }] }).body.tools,
    ).toEqual([
      {
        type: 'function',
        name: 'weather',
        description: 'Returns the weather',
        parameters,
        strict: false,
      },
      {
        type: 'function',
        name: 'now',
        parameters: { type: 'object', properties: {}, required: [], additionalProperties: false },
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
  ] as const)('writes the tool choice %j as %j', (toolChoice, choice) => {
    expect(write({ tools: [tool], toolChoice }).body.tool_choice).toEqual(choice);
    expect(write({ toolChoice }).body.tool_choice).toBeUndefined();
  });

  test.each([true, false])('writes parallel_tool_calls %p only with tools', (parallelTools) => {
    expect(write({ tools: [tool], parallelTools }).body.parallel_tool_calls).toBe(parallelTools);
    expect(write({ parallelTools }).body.parallel_tool_calls).toBeUndefined();
  });
});

test('writeRequest writes the JSON format into the text field', () => {
  const format = (json: Prompt['json']) => write({ json }).body.text;
  expect(format({ schema: null, name: 'a' })).toEqual({ format: { type: 'json_object' } });
  expect(format({ schema: parameters, name: 'a', strict: true, description: 'b' })).toEqual({
    format: { type: 'json_schema', name: 'a', description: 'b', schema: parameters, strict: true },
  });
});

describe('writeRequest', () => {
  const efforts = { none: 'none', minimal: 'low', high: 'high' };

  test.each([
    ['high', 'high'],
    ['minimal', 'low'],
    ['max', undefined],
  ] as const)("writes the effort %s under the vendor's name %p", (effort, name) => {
    const { body } = write({ reasoning: reasoningOptions(effort) }, { quirks: { efforts } });
    expect(body.reasoning).toEqual(name === undefined ? undefined : { effort: name });
  });

  test('writes medium effort for adaptive reasoning without an effort', () => {
    const written = (effort: Effort | null) =>
      write({ reasoning: { ...reasoningOptions(effort), isAdaptive: true } }).body.reasoning;
    expect([written(null), written('high')]).toEqual([{ effort: 'medium' }, { effort: 'high' }]);
  });

  test('writes token budgets as efforts and forwards unknown efforts', () => {
    const effort = (tokens: number) =>
      write({ reasoning: reasoningOptions(null, tokens) }).body.reasoning;
    expect([effort(2048), effort(12_000), effort(12_001)]).toEqual([
      { effort: 'low' },
      { effort: 'medium' },
      { effort: 'high' },
    ]);
    expect(write({ reasoning: reasoningOptions('xhigh') }).body.reasoning).toEqual({
      effort: 'xhigh',
    });
  });

  test('requests a summary only if reasoning is visible and not off', () => {
    const written = (effort: Effort | null, visible: boolean) =>
      write({ reasoning: reasoningOptions(effort, null, visible) }).body.reasoning;
    expect(written('high', true)).toEqual({ effort: 'high', summary: 'auto' });
    expect(written(null, true)).toEqual({ summary: 'auto' });
    expect(written('none', true)).toEqual({ effort: 'none' });
    expect(written(null, false)).toBeUndefined();
  });

  test.each([
    [null, true],
    ['high', true],
    ['none', false],
  ] as const)('drops sampling parameters with the effort %p: %p', (effort, isDropped) => {
    const quirks = { efforts, sampling_while_reasoning: 'drop' as const };
    const { body, dropped } = write(
      { reasoning: effort && reasoningOptions(effort), sampling: { temperature: 1, topP: 0.5 } },
      { quirks },
    );
    expect([body.temperature, body.top_p]).toEqual(isDropped ? [undefined, undefined] : [1, 0.5]);
    expect(dropped).toEqual(isDropped ? ['temperature', 'top_p'] : []);
  });

  test('drops sampling parameters for a model that reasons on request only if it reasons', () => {
    const quirks = { efforts, sampling_while_reasoning: 'drop_when_requested' as const };
    const sampled = (effort: 'high' | 'none' | null) =>
      write(
        { reasoning: effort && reasoningOptions(effort), sampling: { temperature: 1 } },
        { quirks },
      ).body.temperature;
    expect([sampled(null), sampled('none'), sampled('high')]).toEqual([1, 1, undefined]);
  });
});

const text = (content: string) => ({ kind: 'text' as const, text: content });
const items = (turn: Turn) => writeItems([turn]);
const user = (...parts: UserPart[]) => items({ role: 'user', parts });
const model = (...parts: AssistantPart[]) => items({ role: 'assistant', parts });
const call: AssistantPart = { kind: 'tool_call', id: 'call_1', name: 'now', arguments: '{"a":1}' };
const callItem = { type: 'function_call', call_id: 'call_1', name: 'now', arguments: '{"a":1}' };
const reasoning = (content: string, signature?: string): AssistantPart => ({
  kind: 'reasoning',
  text: content,
  signature,
});

// The round-trip tests cover text, images, audio, and named files.
describe('writeItems', () => {
  test('writes system texts in their positions', () => {
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

  test('writes an empty user message unless there are results', () => {
    const result: UserPart = { kind: 'tool_result', callId: 'a', parts: [], isError: false };
    const output = { type: 'function_call_output', call_id: 'a', output: '' };
    for (const parts of [[], [text('')]]) {
      expect(user(...parts)).toEqual([{ role: 'user', content: '' }]);
      expect(user(result, ...parts)).toEqual([output]);
    }
  });

  test.each<[string, UserPart, object]>([
    [
      'an image without a detail level',
      { kind: 'image', url: 'data:image/png;base64,AAAA' },
      { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' },
    ],
    [
      'a document without a name',
      { kind: 'document', source: { url: 'data:application/pdf;base64,AAAA' } },
      {
        type: 'input_file',
        filename: 'document.pdf',
        file_data: 'data:application/pdf;base64,AAAA',
      },
    ],
    [
      'a document with an upper-case URL scheme',
      { kind: 'document', source: { url: 'DATA:application/pdf;base64,AAAA' }, name: 'a.pdf' },
      { type: 'input_file', filename: 'a.pdf', file_data: 'DATA:application/pdf;base64,AAAA' },
    ],
    [
      'the URL of a document, without its name',
      { kind: 'document', source: { url: 'https://a.example/b.pdf' }, name: 'b.pdf' },
      { type: 'input_file', file_url: 'https://a.example/b.pdf' },
    ],
    [
      'a document stored at OpenAI',
      { kind: 'document', source: { fileId: 'file-1' } },
      { type: 'input_file', file_id: 'file-1' },
    ],
    [
      'a text document',
      { kind: 'document', source: { text: 'Once upon a time' }, name: 'Tale' },
      { type: 'input_text', text: 'Tale\n\nOnce upon a time' },
    ],
  ])('writes %s', (_, part, written) => {
    expect(user(part)).toEqual([{ role: 'user', content: [written] }]);
  });
});

describe('writeItems', () => {
  const result = (parts: ToolResultPart['parts'], isError = false): UserPart => ({
    kind: 'tool_result',
    callId: 'call_1',
    parts,
    isError,
  });
  const image = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const imageItem = { type: 'input_image', image_url: image.url, detail: 'auto' };
  const head = { type: 'function_call_output', call_id: 'call_1' };

  test('writes the result of a failed tool call with a prefix', () => {
    expect(user(result([text('not'), text('found')], true))).toEqual([
      { ...head, output: 'Error: not\n\nfound' },
    ]);
    expect(user(result([image], true))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'Error: ' }, imageItem] },
    ]);
    expect(user(result([]))).toEqual([{ ...head, output: '' }]);
  });

  test('shortens the IDs of calls and their results in the same way', () => {
    const ids = ['x'.repeat(65), 'x'.repeat(64)];
    const written = ids.flatMap((id) => [
      ...model({ ...call, id }),
      ...user({ kind: 'tool_result', callId: id, parts: [], isError: false }),
    ]);
    const [first = '', ...rest] = written.map((item) => 'call_id' in item && String(item.call_id));
    expect(rest).toEqual([first, 'x'.repeat(64), 'x'.repeat(64)]);
    expect(first).toMatch(/^call_\w{24}$/);
  });
});

describe('writeItems', () => {
  const message = (...content: object[]) => ({ role: 'assistant', content });
  const yes = { type: 'output_text', text: 'Yes.' };

  test('writes texts and refusals in one message and calls as items', () => {
    expect(model(text('Yes.'), { kind: 'refusal', text: 'No.' }, text(''), call)).toEqual([
      message(yes, { type: 'refusal', refusal: 'No.' }),
      callItem,
    ]);
    expect(model({ ...call, arguments: '' })).toEqual([{ ...callItem, arguments: '{}' }]);
  });

  test("writes OpenAI's reasoning before the output that followed them", () => {
    const signature = 'responses:rs_1:gAAA:=';
    const item = { type: 'reasoning', id: 'rs_1', encrypted_content: 'gAAA:=' };
    const summary = [{ type: 'summary_text', text: 'Hm.' }];
    expect(model(reasoning('Hm.', signature), call)).toEqual([{ ...item, summary }, callItem]);
    expect(model(reasoning('', signature), text('Yes.'))).toEqual([
      { ...item, summary: [] },
      message(yes),
    ]);
    expect(model(text('Yes.'), reasoning('', signature), call)).toEqual([
      message(yes),
      { ...item, summary: [] },
      callItem,
    ]);
  });

  test('drops final reasoning, which OpenAI rejects alone', () => {
    expect(model(text('Yes.'), reasoning('Hm.', 'responses:rs_1:x'))).toEqual([message(yes)]);
    expect(model(reasoning('Hm.', 'responses:rs_1:x'), text(''))).toEqual([]);
  });

  test.each([undefined, '', 'gemini:S1', 'anthropic-signature', 'responses:', 'responses:rs_1'])(
    'drops reasoning with the signature %p',
    (signature) => {
      expect(model(reasoning('Hm.', signature), call)).toEqual([callItem]);
    },
  );
});
