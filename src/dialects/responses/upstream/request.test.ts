import { describe, expect, test } from 'bun:test';
import { question, says, targetOf } from '../../../../tests/support/question.ts';
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
  const request = writeRequest(question(given), targetOf(target));
  return { ...request, body: JSON.parse(String(request.body)) as Record<string, unknown> };
}

const requested = (effort: Effort | null, budgetTokens: number | null = null, visible = false) => ({
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
  const { body, dropped } = write({ reasoning: requested('high', null, true) }, { thinking: null });
  expect(body.include).toBeUndefined();
  expect(body.reasoning).toBeUndefined();
  expect(dropped).toEqual(['reasoning']);
  const quiet = write({ reasoning: requested('none', null, true) }, { thinking: null });
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
  const format = (json: Prompt['json']) => write({ json }).body.text;
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
    const { body } = write({ reasoning: requested(effort) }, { quirks: { efforts } });
    expect(body.reasoning).toEqual(word === undefined ? undefined : { effort: word });
  });

  test('as much as the model sees fit is the middle level, unless one was named', () => {
    const said = (effort: Effort | null) =>
      write({ reasoning: { ...requested(effort), isAdaptive: true } }).body.reasoning;
    expect([said(null), said('high')]).toEqual([{ effort: 'medium' }, { effort: 'high' }]);
  });

  test('tokens are an effort; what nobody translates stays', () => {
    const effort = (tokens: number) => write({ reasoning: requested(null, tokens) }).body.reasoning;
    expect([effort(2048), effort(12_000), effort(12_001)]).toEqual([
      { effort: 'low' },
      { effort: 'medium' },
      { effort: 'high' },
    ]);
    expect(write({ reasoning: requested('xhigh') }).body.reasoning).toEqual({ effort: 'xhigh' });
  });

  test('a summary is asked for where the client wants to see and there is something', () => {
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
  ] as const)('with the effort %p sampling is dropped: %p', (effort, isDropped) => {
    const quirks = { efforts, sampling_while_reasoning: 'drop' as const };
    const { body, dropped } = write(
      { reasoning: effort && requested(effort), sampling: { temperature: 1, topP: 0.5 } },
      { quirks },
    );
    expect([body.temperature, body.top_p]).toEqual(isDropped ? [undefined, undefined] : [1, 0.5]);
    expect(dropped).toEqual(isDropped ? ['temperature', 'top_p'] : []);
  });

  test('a model that reasons only when asked takes sampling until then', () => {
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

describe('what the user says', () => {
  test('system texts stay where they stood', () => {
    const system: Turn = { role: 'system', parts: [text('Be brief.'), text(''), text('Be kind.')] };
    expect(writeItems([says('Hi'), system])).toEqual([
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

  test('an empty message stays one, but none is added beside results', () => {
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

describe('results', () => {
  const result = (parts: ToolResultPart['parts'], isError = false): UserPart => ({
    kind: 'tool_result',
    callId: 'call_1',
    parts,
    isError,
  });
  const picture = { kind: 'image' as const, url: 'data:image/png;base64,AAAA' };
  const shown = { type: 'input_image', image_url: picture.url, detail: 'auto' };
  const head = { type: 'function_call_output', call_id: 'call_1' };

  test('come before what the user says to them', () => {
    expect(user(text('So?'), result([text('rain')]))).toEqual([
      { ...head, output: 'rain' },
      { role: 'user', content: [{ type: 'input_text', text: 'So?' }] },
    ]);
  });

  test('say in words that the tool failed, because there is no mark for it', () => {
    expect(user(result([text('no'), text('way')], true))).toEqual([
      { ...head, output: 'Error: no\n\nway' },
    ]);
    expect(user(result([picture], true))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'Error: ' }, shown] },
    ]);
    expect(user(result([]))).toEqual([{ ...head, output: '' }]);
  });

  test('have the ids of their calls, however long those were elsewhere', () => {
    const ids = ['x'.repeat(65), 'x'.repeat(64)];
    const written = ids.flatMap((id) => [
      ...model({ ...call, id }),
      ...user({ kind: 'tool_result', callId: id, parts: [], isError: false }),
    ]);
    const [first = '', ...rest] = written.map((item) => 'call_id' in item && String(item.call_id));
    expect(rest).toEqual([first, 'x'.repeat(64), 'x'.repeat(64)]);
    expect(first).toMatch(/^call_\w{24}$/);
  });

  test('have their pictures inside', () => {
    expect(user(result([text('see'), picture]))).toEqual([
      { ...head, output: [{ type: 'input_text', text: 'see' }, shown] },
    ]);
  });
});

describe('what the model said', () => {
  const said = (...content: object[]) => ({ role: 'assistant', content });
  const yes = { type: 'output_text', text: 'Yes.' };

  test('texts and refusals are one message, calls are items', () => {
    expect(model(text('Yes.'), { kind: 'refusal', text: 'No.' }, text(''), call)).toEqual([
      said(yes, { type: 'refusal', refusal: 'No.' }),
      called,
    ]);
    expect(model({ ...call, arguments: '' })).toEqual([{ ...called, arguments: '{}' }]);
  });

  test('thoughts with our own proof come back before what followed them', () => {
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

  test('a thought that nothing followed is left out: alone it is refused', () => {
    expect(model(text('Yes.'), thought('Hm.', 'responses:rs_1:x'))).toEqual([said(yes)]);
    expect(model(thought('Hm.', 'responses:rs_1:x'), text(''))).toEqual([]);
  });

  test.each([undefined, '', 'gemini:S1', 'an Anthropic one', 'responses:', 'responses:rs_1'])(
    'a thought with the signature %p stays here',
    (signature) => {
      expect(model(thought('Hm.', signature), call)).toEqual([called]);
    },
  );
});
