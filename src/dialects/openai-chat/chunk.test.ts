import { describe, expect, test } from 'bun:test';
import { isObject } from '../../core/json.ts';
import { ChunkNormalizer } from './chunk.ts';
import { OpenAiPassThrough } from './passthrough/stream.ts';

interface NormalizedChunk {
  readonly changed: boolean;
  readonly chunk: Record<string, unknown>;
}

const opening = { choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }] };

/** Normalizes the chunks of a stream that has already sent the role. */
function normalizeAll(...raw: readonly object[]): NormalizedChunk[] {
  return normalizeFromStart(structuredClone(opening), ...raw).slice(1);
}

/** Normalizes all chunks of a stream. */
function normalizeFromStart(...raw: readonly object[]): NormalizedChunk[] {
  const normalizer = new ChunkNormalizer();
  return raw.map((fields) => {
    const chunk: Record<string, unknown> = { object: 'chat.completion.chunk', ...fields };
    const choices = Array.isArray(chunk.choices) ? chunk.choices.filter(isObject) : [];
    const changed = normalizer.normalize(chunk, choices);
    return { changed, chunk: JSON.parse(JSON.stringify(chunk)) as Record<string, unknown> };
  });
}

/** Normalizes the deltas of one choice, one chunk each. */
function normalizeDeltas(...deltas: readonly object[]): { changed: boolean; delta: unknown }[] {
  const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta, finish_reason: null }] }));
  // Deep copies, because tests pass the same object twice and normalizing modifies it.
  return normalizeAll(...(JSON.parse(JSON.stringify(chunks)) as object[])).map(
    ({ changed, chunk }) => {
      const [choice] = chunk.choices as [{ delta: unknown }];
      return { changed, delta: choice.delta };
    },
  );
}

const call = (fields: object) => ({ tool_calls: [fields] });
const newId = expect.stringMatching(/^call_[0-9a-z]{24}$/);

describe('ChunkNormalizer', () => {
  test.each([
    [{ role: 'assistant', content: '' }],
    [{ role: 'assistant', content: null, refusal: null }],
    [{ content: 'a', tool_calls: null, reasoning_content: null, reasoning: null }],
    [{ content: 'a', reasoning_content: '' }],
    [{ reasoning: 'a', reasoning_content: 'a' }],
    [{ reasoning: 'a', reasoning_details: [{ type: 'reasoning.text', text: 'a' }] }],
    [{ refusal: 'no' }],
    [call({ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } })],
    [call({ index: 0, id: 'a', type: 'custom', custom: { name: 'f', input: '' } })],
    [{}],
  ])('leaves a clean delta unchanged: %j', (delta) => {
    expect(normalizeDeltas(delta)).toEqual([{ changed: false, delta }]);
  });
});

test('ChunkNormalizer removes an error without content', () => {
  const [normalized] = normalizeAll({ ...opening, error: { message: '', code: 0 } });
  expect(normalized?.chunk).toEqual({ object: 'chat.completion.chunk', ...opening });
});

describe('ChunkNormalizer', () => {
  const rolesIn = ({ chunk }: NormalizedChunk) =>
    (chunk.choices as { delta: { role?: unknown } }[]).map(({ delta }) => delta.role);
  const chunkOf = (...deltas: readonly object[]) => ({
    choices: deltas.map((delta, index) => ({ index, delta, finish_reason: null })),
  });

  test.each([[{}], [{ role: null }], [{ role: '' }], [{ role: 'user' }], [{ role: 'assistant' }]])(
    'sets the role in the first delta if the upstream sends %j',
    (roleFields) => {
      const [first, second] = normalizeFromStart(
        chunkOf({ ...roleFields, content: 'a' }),
        chunkOf({ ...roleFields }),
      );
      expect(first && rolesIn(first)).toEqual(['assistant']);
      const isValid = 'role' in roleFields && roleFields.role === 'assistant';
      expect(first?.changed).toBe(!isValid);
      expect(second && rolesIn(second)).toEqual([isValid ? 'assistant' : undefined]);
    },
  );

  test('sets the role in the first delta of each choice', () => {
    const [first, second] = normalizeFromStart(
      chunkOf({ content: 'a' }),
      chunkOf({}, { content: 'b' }),
    );
    expect(first && rolesIn(first)).toEqual(['assistant']);
    expect(second && rolesIn(second)).toEqual([undefined, 'assistant']);
  });
});

describe('ChunkNormalizer', () => {
  const cases: Record<string, [object, object]> = {
    'copies reasoning_content to reasoning': [
      { reasoning_content: 'hm' },
      { reasoning_content: 'hm', reasoning: 'hm' },
    ],
    'copies reasoning from content parts': [
      {
        content: [
          { type: 'reasoning', summary: [{ type: 'summary_text', text: 'hm', signature: 's' }] },
          { type: 'text', text: 'a' },
        ],
      },
      { content: 'a', reasoning: 'hm' },
    ],
    'copies reasoning from reasoning_details': [
      { reasoning_details: [{ text: 'h' }, { summary: 'm' }, { data: 'x' }] },
      { reasoning_details: [{ text: 'h' }, { summary: 'm' }, { data: 'x' }], reasoning: 'hm' },
    ],
    'splits parts into content and reasoning': [
      {
        content: [
          {
            type: 'thinking',
            thinking: [
              { type: 'text', text: 'h' },
              { type: 'text', text: 'm' },
            ],
          },
          { type: 'thinking', thinking: '!' },
          { type: 'text', text: 'a' },
          { type: 'reference', reference_ids: [1] },
          { type: 'text', text: 'b' },
        ],
      },
      { content: 'ab', reasoning: 'hm!' },
    ],
    'drops a role other than assistant': [{ role: 'user', content: 'a' }, { content: 'a' }],
    'drops a null role': [{ role: null, content: 'a' }, { content: 'a' }],
    'drops an empty role': [{ role: '', content: 'a' }, { content: 'a' }],
    'drops an empty list of tool calls': [{ content: 'a', tool_calls: [] }, { content: 'a' }],
  };
  test.each(Object.entries(cases))('%s', (_, [raw, delta]) => {
    expect(normalizeDeltas(raw)).toEqual([{ changed: true, delta }]);
  });
});

describe('ChunkNormalizer', () => {
  const opening = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '' } };
  const later = { index: 0, function: { arguments: '{"x":1}' } };

  test('sends the id and the name only once', () => {
    const emptyName = { ...opening, function: { name: '', arguments: '{"x":' } };
    const repeatedName = { ...opening, function: { name: 'f', arguments: '1' } };
    const otherId = { index: 0, id: 'b', type: 'function', function: { arguments: '}' } };
    const [, ...deltas] = normalizeDeltas(
      call(opening),
      call(emptyName),
      call(repeatedName),
      call(otherId),
    );
    const expected = (json: string) =>
      call({ ...later, type: 'function', function: { arguments: json } });
    expect(deltas).toEqual([
      { changed: true, delta: expected('{"x":') },
      { changed: true, delta: expected('1') },
      { changed: true, delta: expected('}') },
    ]);
  });

  test('drops text after complete arguments, unless they are an empty object', () => {
    const piece = (json: string) => call({ index: 0, function: { arguments: json } });
    const pieces = ['{}', '{"x":', '[1]}', '{"x":[1]}', '\n'].map(piece);
    expect(normalizeDeltas(call(opening), ...pieces).slice(1)).toEqual([
      { changed: true, delta: piece('') },
      { changed: false, delta: piece('{"x":') },
      { changed: false, delta: piece('[1]}') },
      { changed: true, delta: piece('') },
      { changed: true, delta: piece('') },
    ]);
    const content = ['f({1})', ' and {2}'].map(piece);
    expect(normalizeDeltas(call(opening), ...content).slice(1)).toEqual(
      content.map((delta) => ({ changed: false, delta })),
    );
  });

  test('does not hold leading white space forever', () => {
    const piece = (json: string) => call({ index: 0, function: { arguments: json } });
    const blanks = Array.from({ length: 3 }, () => piece(' '.repeat(40)));
    const deltas = normalizeDeltas(call(opening), ...blanks, piece('{"x":1}')).slice(1);
    const expected = ['', ' '.repeat(80), ' '.repeat(40), '{"x":1}'];
    expect(deltas.map(({ delta }) => delta)).toEqual(expected.map(piece));
  });

  test('forwards fragments with an index unchanged', () => {
    expect(normalizeDeltas(call(opening), call(later))[1]).toEqual({
      changed: false,
      delta: call(later),
    });
  });

  test('adds missing indexes and types', () => {
    const f = { id: 'a', function: { name: 'f', arguments: '{"x":' } };
    const g = { id: 'b', function: { name: 'g', arguments: '{"x":1}' } };
    const [first, second, third] = normalizeDeltas(
      call(f),
      call({ function: { arguments: '1}' } }),
      call(g),
    );
    expect(first?.delta).toEqual(call({ ...f, index: 0, type: 'function' }));
    expect(second?.delta).toEqual(call({ index: 0, function: { arguments: '1}' } }));
    expect(third?.delta).toEqual(call({ ...g, index: 1, type: 'function' }));
  });

  test('separates parallel calls by id when all have index 0', () => {
    const g = { ...opening, id: 'b', function: { name: 'f', arguments: '' } };
    const [, second, third] = normalizeDeltas(call(opening), call(g), call(later));
    expect(second).toEqual({ changed: true, delta: call({ ...g, index: 1 }) });
    expect(third).toEqual({ changed: true, delta: call({ ...later, index: 1 }) });
  });

  test('gives calls with the same ID separate IDs and starts a new call at a new name', () => {
    const second = { ...opening, index: 1 };
    const third = { ...opening, function: { name: 'g', arguments: '' } };
    const deltas = normalizeDeltas(call(opening), call(second), call(third), call(later));
    expect(deltas.map(({ delta }) => delta)).toEqual([
      call(opening),
      call({ ...second, id: newId }),
      call({ ...third, index: 2, id: newId }),
      call({ ...later, index: 2 }),
    ]);
  });

  test('assigns interleaved fragments to their calls', () => {
    const g = { ...opening, index: 1, id: 'b' };
    const deltas = normalizeDeltas(
      call(opening),
      call(g),
      call(later),
      call({ ...later, index: 1 }),
    );
    expect(deltas.map(({ changed }) => changed)).toEqual([false, false, false, false]);
  });

  test('assigns interleaved fragments to their calls when the index is a string', () => {
    const [f, g] = ['0', '1'].map((index) => ({ ...opening, index, id: `call-${index}` }));
    const of = (index: string) => call({ ...later, index });
    const deltas = normalizeDeltas(call(f ?? {}), call(g ?? {}), of('0'), of('1'));
    const [, , third, fourth] = deltas.map(({ delta }) => delta);
    expect([third, fourth]).toEqual([call(later), call({ ...later, index: 1 })]);
  });

  test('replaces the empty IDs of several calls', () => {
    const nameless = { ...opening, id: '', function: { name: 'f', arguments: '{"x":1}' } };
    const [first, second] = normalizeDeltas({ tool_calls: [nameless, nameless] }, call(nameless));
    const normalized = (index: number) => ({ ...nameless, index, id: newId });
    expect(first?.delta).toEqual({ tool_calls: [normalized(0), normalized(1)] });
    expect(second?.delta).toEqual(call(normalized(2)));
    const ids = JSON.stringify([first, second]).match(/call_[0-9a-z]{24}/g);
    expect(new Set(ids).size).toBe(3);
  });

  test('reads several calls in one delta without IDs as separate calls', () => {
    const bare = { index: 0, type: 'function', function: { name: 'f', arguments: '{"x":1}' } };
    expect(normalizeDeltas({ tool_calls: [bare, bare] })[0]?.delta).toEqual({
      tool_calls: [
        { ...bare, id: newId },
        { ...bare, id: newId, index: 1 },
      ],
    });
  });

  test('reads several calls in one delta with the same id as separate calls', () => {
    const complete = { ...opening, function: { name: 'f', arguments: '{"x":1}' } };
    expect(normalizeDeltas({ tool_calls: [complete, complete] })[0]?.delta).toEqual({
      tool_calls: [complete, { ...complete, id: newId, index: 1 }],
    });
  });

  test('sends a call with its name first, even if the name comes last', () => {
    const first = { index: 0, id: 'a', type: 'function', extra_content: { x: 1 } };
    const second = { index: 0, function: { name: '', arguments: '{"a"' } };
    const third = { index: 0, function: { name: 'f', arguments: ':1' } };
    const last = { index: 0, function: { arguments: '}' } };
    expect(
      normalizeDeltas({ content: 'x', ...call(first) }, ...[second, third, last].map(call)),
    ).toEqual([
      { changed: true, delta: { content: 'x' } },
      { changed: true, delta: {} },
      { changed: true, delta: call({ ...first, function: { name: 'f', arguments: '{"a":1' } }) },
      { changed: false, delta: call(last) },
    ]);
  });

  test('leaves no gap for calls without a name, and drops calls that never get a name', () => {
    const nameless = { index: 0, id: 'n', type: 'function', function: { arguments: '{"x":1}' } };
    const named = { ...opening, index: 1, function: { name: 'g', arguments: '{"x":1}' } };
    const lastDelta = (finish_reason: string) => {
      const deltas = [call(nameless), call(named)];
      const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta }] }));
      const last = { choices: [{ index: 0, delta: {}, finish_reason }] };
      return normalizeAll(...(JSON.parse(JSON.stringify([...chunks, last])) as object[]))
        .slice(1)
        .map(({ chunk }) => (chunk.choices as [{ delta: unknown }])[0].delta);
    };
    const late = { ...nameless, index: 1, function: { name: '', arguments: '{"x":1}' } };
    expect(lastDelta('tool_calls')).toEqual([call({ ...named, index: 0 }), call(late)]);
    expect(lastDelta('length')).toEqual([call({ ...named, index: 0 }), {}]);
  });

  test('limits the buffered arguments of calls without a name', () => {
    const piece = { index: 0, id: 'a', function: { arguments: 'x'.repeat(1024 * 1024) } };
    const many = Array.from({ length: 5 }, () => call(piece));
    expect(() => normalizeDeltas(...many)).toThrow(/without a tool name/);
  });

  test('serializes arguments that are objects', () => {
    const withObject = { ...opening, function: { name: 'f', arguments: { a: 1 } } };
    const none = { index: 0, function: { arguments: null } };
    const [first, second] = normalizeDeltas(call(withObject), call(none));
    expect(first?.delta).toEqual(
      call({ ...opening, function: { name: 'f', arguments: '{"a":1}' } }),
    );
    expect(second?.delta).toEqual(call({ index: 0, function: { arguments: '' } }));
  });

  test.each([4_000_000_000, 1, -1, null])('replaces the index %j of the first call', (index) => {
    const [first, second] = normalizeDeltas(
      call({ ...opening, index }),
      call({ index, function: { arguments: '{"x":1}' } }),
    );
    expect(first).toEqual({ changed: true, delta: call(opening) });
    expect(second).toEqual({ changed: true, delta: call(later) });
  });

  test('accepts a call that is not in a list', () => {
    const alone = { ...opening, id: '' };
    const fragment = { ...alone, function: { name: null, arguments: '{"x":1}' } };
    const [first, second] = normalizeDeltas({ tool_calls: alone }, { tool_calls: fragment });
    expect(first?.delta).toEqual(call({ ...alone, id: newId }));
    expect(second?.delta).toEqual(call({ index: 0, type: 'function', function: later.function }));
  });

  test('separates calls without an index by their IDs', () => {
    const piece = { index: null, id: 'a', function: { arguments: '{"x":1}' } };
    const [, second] = normalizeDeltas(call({ ...opening, id: 'a', index: null }), call(piece));
    expect(second).toEqual({ changed: true, delta: call(later) });
  });

  test('completes missing arguments with an empty object unless the answer was cut off', () => {
    const other = { ...opening, index: 1, id: 'b' };
    const custom = { index: 2, id: 'c', type: 'custom', custom: { name: 'h', input: '' } };
    const lastDelta = (finish_reason: string) => {
      const deltas = [call(opening), call(other), call(custom), call(later)];
      const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta }] }));
      const last = { choices: [{ index: 0, delta: {}, finish_reason }] };
      return normalizeAll(...(JSON.parse(JSON.stringify([...chunks, last])) as object[])).at(-1)
        ?.chunk;
    };
    const closed = { index: 1, function: { arguments: '{}' } };
    expect(lastDelta('tool_calls')).toMatchObject({ choices: [{ delta: call(closed) }] });
    expect(lastDelta('stop')).toMatchObject({ choices: [{ delta: call(closed) }] });
    expect(lastDelta('length')).toMatchObject({ choices: [{ delta: {} }] });
    expect(JSON.stringify(lastDelta('length'))).not.toContain('tool_calls');
  });

  test.each([
    ['{}', ['{}']],
    ['{}', ['{', '}']],
    ['{ }', [' ', '{ }']],
    ['{"x":1}', ['{}', '{"x":1}']],
    ['{"x":1}', ['{', '}', '{', '"x":1', '}']],
    ['{"x":1}', ['{ }\n', '{"x":1}', '{"x":1}']],
    ['{"x":1}', ['{}{"x":1}']],
    ['{}', ['{}', '{}']],
    ['{"x":{}}', ['{', '"x":{}', '}']],
    ['{}}', ['{}', '}']],
  ])('sends %j for the arguments %j, whether the answer was cut off or not', (expected, pieces) => {
    for (const finish_reason of ['tool_calls', 'length']) {
      const fragments = pieces.map((json) => ({ index: 0, function: { arguments: json } }));
      const deltas = [opening, ...fragments].map(call);
      const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta }] }));
      const last = { choices: [{ index: 0, delta: {}, finish_reason }] };
      const normalized = normalizeAll(
        ...(JSON.parse(JSON.stringify([...chunks, last])) as object[]),
      );
      const matches = JSON.stringify(normalized).matchAll(/"arguments":("(?:[^"\\]|\\.)*")/g);
      const json = [...matches].map(([, text = '']) => JSON.parse(text) as string).join('');
      expect(json.trim()).toBe(expected);
    }
  });
});

describe('ChunkNormalizer', () => {
  const finish = (reason: unknown, delta: object = {}) =>
    normalizeAll({ choices: [{ index: 0, delta, finish_reason: reason }] }).map(
      ({ changed, chunk }) => {
        const [choice] = chunk.choices as [{ finish_reason: unknown }];
        return { changed, reason: choice.finish_reason };
      },
    )[0];

  test.each([
    ['stop', 'stop'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
    ['something_new', 'something_new'],
    ['eos', 'stop'],
    ['end_turn', 'stop'],
    ['STOP_SEQUENCE', 'stop'],
    ['STOP', 'stop'],
    ['LENGTH', 'length'],
    ['COMPLETE', 'stop'],
    ['normal', 'stop'],
    ['tool_calls', 'stop'],
    ['TOOL_CALL', 'stop'],
    ['model_length', 'length'],
    ['max_tokens', 'length'],
    ['function_call', 'function_call'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['content_filter: RECITATION', 'content_filter'],
    ['', null],
    ['null', null],
  ])('maps the finish reason %j to %j', (raw, mapped) => {
    expect(finish(raw)).toEqual({ changed: raw !== mapped, reason: mapped });
  });

  test('maps stop to tool_calls once the choice has called a tool', () => {
    const tools = call({ index: 0, id: 'a', type: 'function', function: { name: 'f' } });
    expect(finish('stop', tools)?.reason).toBe('tool_calls');
    expect(finish('function_call', tools)?.reason).toBe('tool_calls');
    expect(finish('length', tools)?.reason).toBe('length');
    expect(finish('TOOL_CALL', tools)?.reason).toBe('tool_calls');
    const [, other, own] = normalizeAll(
      { choices: [{ index: 0, delta: tools }] },
      { choices: [{ index: 1, delta: {}, finish_reason: 'stop' }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    );
    expect(other?.chunk).toMatchObject({ choices: [{ finish_reason: 'stop' }] });
    expect(own?.chunk).toMatchObject({ choices: [{ finish_reason: 'tool_calls' }] });
  });
});

test('ChunkNormalizer reads a message as a delta unless deltas came before it', () => {
  const normalized = (...choices: readonly object[]) =>
    normalizeAll(...choices.map((choice) => ({ choices: [{ index: 0, ...choice }] }))).map(
      ({ chunk }) => (chunk.choices as [object])[0],
    );
  const full = { role: 'assistant', content: 'Hi' };
  const end = { index: 0, finish_reason: 'stop' };
  const open = { index: 0, finish_reason: null };
  expect(normalized({ message: full, finish_reason: 'stop' })).toEqual([{ ...end, delta: full }]);
  expect(normalized({ message: full, delta: null }, { message: { content: '!' } })).toEqual([
    { ...open, delta: full },
    { ...open, delta: { content: '!' } },
  ]);
  const opening = { role: 'assistant', content: '' };
  expect(normalized({ delta: opening }, { delta: {}, message: full })).toEqual([
    { ...open, delta: opening },
    { ...open, delta: full },
  ]);
  expect(normalized({ delta: full }, { message: full, finish_reason: 'stop' })).toEqual([
    { ...open, delta: full },
    { ...end, delta: {} },
  ]);
});

test('ChunkNormalizer adds missing fields of a chunk', () => {
  const [normalized] = normalizeAll({
    object: undefined,
    choices: [{ delta: { content: 'a' } }, {}],
  });
  expect(normalized).toEqual({
    changed: true,
    chunk: {
      object: 'chat.completion.chunk',
      choices: [
        { delta: { content: 'a' }, index: 0, finish_reason: null },
        { index: 1, delta: { role: 'assistant' }, finish_reason: null },
      ],
    },
  });
});

test("removeUpstreamFields removes the upstream's request ID, account, prompt, and models", () => {
  const models = [{ model: 'theirs', usage: { prompt_tokens: 1 } }];
  const own = { x_groq: { id: 'req_1' }, request_id: 'r', user_id: 'u', prompt: ['p'] };
  const choices = [{ index: 0, delta: {}, finish_reason: null }];
  for (const secret of [own, { usage_breakdown: { models } }]) {
    const expected = { object: 'chat.completion.chunk', service_tier: 'default', choices };
    expect(normalizeAll({ ...secret, ...expected })).toEqual([{ changed: true, chunk: expected }]);
  }
});

test('removeUpstreamFields removes a fingerprint only if it is the model name', () => {
  const choices = [{ index: 0, delta: {}, finish_reason: null }];
  const named = { model: 'theirs', choices };
  const [normalized, unchanged] = normalizeAll(
    { ...named, system_fingerprint: 'theirs' },
    { ...named, system_fingerprint: 'fp_1' },
  );
  expect(normalized).toEqual({
    changed: true,
    chunk: { object: 'chat.completion.chunk', ...named },
  });
  expect(unchanged).toMatchObject({ changed: false, chunk: { system_fingerprint: 'fp_1' } });
});

interface ClientChunk {
  readonly choices: readonly { readonly delta: object; readonly finish_reason: string | null }[];
}

/** Returns the choices that a client gets for deltas that all have a finish reason. */
function clientChoices(...deltas: object[]) {
  const identity = { id: 'gen-1', model: 'acme/x', provider: 'acme', created: 1_800_000_000 };
  const toolNames = ['get_weather', 'get_wind'];
  const stream = new OpenAiPassThrough(identity, { includeUsage: false, toolNames });
  const chunk = (delta: object, finish_reason: string | null) =>
    JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] });
  const chunks = deltas.map((delta) => chunk(delta, 'tool_calls'));
  const all = [chunk({ role: 'assistant' }, null), ...chunks, '[DONE]'];
  const output = all.map((data) => stream.push({ event: null, data })).join('');
  const lines = output.split('\n').filter((line) => line.startsWith('data: {'));
  return lines.map((line) => (JSON.parse(line.slice(6)) as ClientChunk).choices[0]);
}

const piece = (name: string, json?: string) => ({
  tool_calls: [{ index: 0, id: 'a', type: 'function', function: { name, arguments: json } }],
});

test('OpenAiPassThrough sends a buffered call before the finish chunk', () => {
  const [, ...choices] = clientChoices(piece('get_'), piece('weather', '{"a":1}'));
  expect(choices.map((choice) => choice?.finish_reason)).toEqual([null, 'tool_calls']);
  expect(choices[0]).toMatchObject({ delta: piece('get_weather', '{"a":1}') });
});

test('OpenAiPassThrough sends a call with an incomplete name before the finish chunk', () => {
  const [, ...choices] = clientChoices(piece('get_'));
  expect(choices.map((choice) => choice?.finish_reason)).toEqual([null, 'tool_calls']);
  expect(choices[0]).toMatchObject({ delta: piece('get_', '{}') });
});

test('OpenAiPassThrough completes arguments before a finish reason with an empty delta', () => {
  const nothing = { tool_calls: [{ index: 0 }] };
  const announced = { tool_calls: [{ index: 1, id: 'b', type: 'function' }] };
  for (const empty of [nothing, announced]) {
    const [, ...choices] = clientChoices(piece('get_wind', ''), empty);
    expect(choices.map((choice) => choice?.finish_reason)).toEqual([null, null, 'tool_calls']);
    expect(choices[1]).toMatchObject({
      delta: { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
    });
  }
});
