import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import { MalformedAnswer } from '../../failure.ts';
import { OpenAiPassThrough } from './stream.ts';

const created = 1_800_000_000;
const identity = { id: 'chatcmpl-ours', model: 'acme/large', provider: 'acme', created };
const newStream = (includeUsage = true) => new OpenAiPassThrough(identity, { includeUsage });

/** Returns a stream that has already sent the role. */
function startedStream(includeUsage = true): OpenAiPassThrough {
  const stream = newStream(includeUsage);
  push(stream, `${head}[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`);
  return stream;
}

const headOf = (id: string, created: number, model: string) =>
  `{"id":"${id}","object":"chat.completion.chunk","created":${created},` +
  `"model":"${model}","choices":`;
const head = headOf('chatcmpl-theirs', 17, 'gpt-up');
const ownHead = headOf('chatcmpl-ours', created, 'acme/large');
const text = (content: string, more = '"finish_reason":null') =>
  `[{"index":0,"delta":{"content":${JSON.stringify(content)}},${more}}]}`;

function push(stream: OpenAiPassThrough, data: string, event: string | null = null): string {
  return stream.push({ event, data });
}
const parse = (event: string) => JSON.parse(event.replace(/^data: /, '')) as object;
const parseAll = (events: string) => events.split('\n\n').filter(Boolean).map(parse);

/** Pushes the last chunk and returns all chunks that a client without usage gets. */
function pushLast(stream: OpenAiPassThrough, data: string): object[] {
  const output = push(stream, data) + stream.close({ usage: noUsage, costCredits: 0 });
  expect(output).toEndWith('data: [DONE]\n\n');
  return parseAll(output.replace('data: [DONE]\n\n', ''));
}

describe('OpenAiPassThrough', () => {
  test('preserves spacing, key order, unknown fields, and long numbers', () => {
    const stream = startedStream();
    const tail =
      '[ {"index": 0, "delta": {"content": "a\u2028\\u00e9"}, "finish_reason": null, ' +
      '"seed": 12345678901234567890} ]';
    for (const more of [', "x": 1.0}', ',"obfuscation":"ab"}  ']) {
      expect(push(stream, head + tail + more)).toBe(`data: ${ownHead}${tail}${more}\n\n`);
    }
  });

  test('replaces id and model only at the top level', () => {
    const delta = '{"content":"a","annotations":[{"id":"n","model":"m"}]}';
    const nested = `{"index":0,"delta":${delta},"finish_reason":null}`;
    const first = '{"meta":{"model":"m","id":"n"},"id":"theirs-1","model": "gpt-up","created":17,';
    const object = '"object":"chat.completion.chunk",';
    const out = push(startedStream(), `${first}${object}"choices":[${nested}]}`);
    expect(parse(out)).toEqual({
      ...{ meta: { model: 'm', id: 'n' }, id: 'chatcmpl-ours', model: 'acme/large' },
      ...{ created: 1_800_000_000, object: 'chat.completion.chunk' },
      choices: [JSON.parse(nested)],
    });
  });

  test('replaces id and model after the choices, and if a value equals a key', () => {
    const stream = startedStream();
    const open = (content: string) => text(content).slice(0, -1);
    const object = '"object":"chat.completion.chunk"';
    const events = [
      `{"choices":${open('a')},"id":"theirs","model":"gpt-up",${object}}`,
      `{"id":"choices","model":"choices",${object},"choices":${text('b')}`,
      `{"id":"theirs",${object},"choices":${open('c')},"model":"gpt-up"}`,
      `{"choices":${text('d')}`,
    ];
    for (const data of events) {
      expect(parse(push(stream, data))).toMatchObject({
        id: 'chatcmpl-ours',
        model: 'acme/large',
        created: 1_800_000_000,
        object: 'chat.completion.chunk',
      });
    }
  });

  test("writes the gateway's identity even if the start of the chunks changes", () => {
    const stream = startedStream();
    push(stream, head + text('a'));
    const other = head.replace('"created":17', '"created":18').replace('gpt-up', 'gpt-other');
    expect(push(stream, other + text('b'))).toBe(`data: ${ownHead}${text('b')}\n\n`);
    expect(push(stream, head + text('c'))).toBe(`data: ${ownHead}${text('c')}\n\n`);
  });

  test("replaces another gateway's provider name", () => {
    const named = head.replace('{', '{"provider":"Upstream Inc",');
    const stream = startedStream();
    expect(parse(push(stream, named + text('a')))).toMatchObject({ provider: 'acme' });
    const providerLast = `${text('a').slice(0, -1)},"provider":"Upstream Inc"}`;
    expect(parse(push(stream, head + providerLast))).toMatchObject({ provider: 'acme' });
  });

  test('forwards text that looks like the end of the stream', () => {
    const injection = '\n\ndata: [DONE]\n\n","model":"x';
    const out = push(startedStream(), head + text(injection));
    expect(out.match(/\n\n/g)?.length).toBe(1);
    expect(parse(out)).toMatchObject({ choices: [{ delta: { content: injection } }] });
  });

  test('writes data with line breaks on a single line', () => {
    const data = (head + text('a')).replace('"choices":', '\n"choices":\n');
    expect(push(startedStream(), data)).toBe(`data: ${ownHead}${text('a')}\n\n`);
  });
});

test('OpenAiPassThrough keeps unknown fields and long numbers of a normalized chunk', () => {
  const choice = '{"index":0,"delta":{"reasoning_content":"hm"},"seed":12345678901234567890}';
  const out = push(startedStream(), `${head}[${choice}],"tier":"x"}`);
  expect(out).toContain('"seed":12345678901234567890');
  expect(out).toContain('"reasoning":"hm"');
  expect(out).toContain('"tier":"x"');
  expect(out).not.toMatch(/theirs|gpt-up/);
});

test('OpenAiPassThrough converts a stream of messages to deltas', () => {
  const stream = startedStream(false);
  const choice = '{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}';
  const chunks = pushLast(stream, `${head}[${choice}]}`);
  expect(chunks).toMatchObject([
    { choices: [{ delta: { content: 'Hi' }, finish_reason: null }] },
    { choices: [{ delta: {}, finish_reason: 'stop' }] },
  ]);
  expect(JSON.stringify(chunks)).not.toContain('message');
  expect(stream.metrics).toMatchObject({ outputCharacters: 2, finishReason: 'stop' });
});

test('OpenAiPassThrough sends a call with its name first', () => {
  const stream = startedStream();
  const emit = (...calls: object[]) => {
    const choices = [{ index: 0, delta: { tool_calls: calls }, finish_reason: null }];
    const [chunk] = parseAll(push(stream, `${head}${JSON.stringify(choices)}}`));
    return (chunk as { choices: [{ delta: unknown }] }).choices[0].delta;
  };
  const nameless = { index: 0, id: 'a', type: 'function', function: { arguments: '' } };
  const named = { name: 'f', arguments: '{"x":1}' };
  expect(emit(nameless)).toEqual({});
  expect(emit({ index: 0, function: named })).toEqual({
    tool_calls: [{ ...nameless, function: named }],
  });
});

test("OpenAiPassThrough forwards moderation results with the gateway's identity", () => {
  const stream = startedStream();
  const moderation = '"moderation":{"input":{"type":"moderation_results","results":[]}}';
  push(stream, head + text('Hi', '"finish_reason":"stop"'));
  const out = push(stream, `${head}[],${moderation},"usage":null,"request_id":"theirs"}`);
  expect(out).toBe(`data: ${ownHead}[],${moderation}}\n\n`);
  expect(stream.finished).toBe(true);
});

describe('OpenAiPassThrough', () => {
  const usage = '"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}';

  test('records usage and removes it from every chunk', () => {
    const stream = newStream();
    expect(push(stream, `${head}[],${usage}}`)).toBe('');
    expect(stream.started).toBe(false);
    const finish = `${text('a', '"finish_reason":"stop"').slice(0, -1)},${usage}}`;
    for (const chunk of parseAll(push(stream, head + finish))) {
      expect(chunk).not.toHaveProperty('usage');
    }
    expect(stream.metrics.usage).toMatchObject({ inputTokens: 9, outputTokens: 4 });
  });

  test.each([true, false])('omits null usage from chunks (requested: %s)', (requested) => {
    const stream = startedStream(requested);
    const tricky = text('a ,"usage":null b');
    const open = tricky.slice(0, -1);
    for (const more of [',"usage":null}', ',"usage":null,"tier":"x"}']) {
      const rest = more.replace(',"usage":null', '');
      expect(push(stream, head + open + more)).toBe(`data: ${ownHead}${open}${rest}\n\n`);
    }
    for (const more of [',"usage": null}', ', "usage" : null}']) {
      expect(parse(push(stream, head + open + more))).toEqual(JSON.parse(ownHead + tricky));
    }
    const before = head.replace('{', '{"usage":null,');
    expect(parse(push(stream, before + tricky))).toEqual(JSON.parse(ownHead + tricky));
  });

  test('uses the last usage report with the details of earlier reports', () => {
    const stream = startedStream();
    const cached = usage.replace('9,', '9,"prompt_tokens_details":{"cached_tokens":6},');
    push(stream, `${head}[],${cached}}`);
    push(stream, `${head}[],${usage.replace('4', '5').replace('13', '14')}}`);
    push(stream, `${head}[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`);
    expect(stream.metrics.usage).toEqual({
      ...noUsage,
      inputTokens: 3,
      cacheReadTokens: 6,
      outputTokens: 5,
    });
  });

  test('writes the settled usage into the closing chunk only if requested', () => {
    const settled = { usage: { ...noUsage, inputTokens: 2, outputTokens: 3 }, costCredits: 11 };
    const stream = startedStream();
    const predicted = { accepted_prediction_tokens: 2, rejected_prediction_tokens: 0 };
    const details = `"completion_tokens_details":${JSON.stringify(predicted)}`;
    push(stream, `${head}[],${usage.replace('}', ',"completion_tokens_details":{"old":1}}')}}`);
    push(stream, `${head}[],${usage.replace('}', `,${details}}`)}}`);
    const [chunk = '', done, rest] = stream.close(settled).split('\n\n');
    expect(parse(chunk)).toMatchObject({
      id: 'chatcmpl-ours',
      object: 'chat.completion.chunk',
      created: 1_800_000_000,
      model: 'acme/large',
      choices: [],
      usage: {
        ...{ prompt_tokens: 2, completion_tokens: 3, total_tokens: 5, cost: 11 },
        completion_tokens_details: { ...predicted, reasoning_tokens: 0 },
      },
    });
    expect([done, rest, chunk.includes('old')]).toEqual(['data: [DONE]', '', false]);
    expect(startedStream(false).close(settled)).toBe('data: [DONE]\n\n');
  });
});

describe('OpenAiPassThrough with a broken stream', () => {
  test('fails as malformed on invalid JSON and forwards nothing after it', () => {
    for (const data of ['{"choices":[', '[1]', 'upstream connect error']) {
      const stream = startedStream();
      push(stream, head + text('a'));
      expect(push(stream, data)).toBe('');
      expect(stream.metrics.failure).toMatchObject({ kind: 'malformed', status: null });
      expect(push(stream, head + text('b'))).toBe('');
    }
  });

  test('fails as malformed on excessive nesting', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const stream = startedStream();
    const choice = `[{"index":0,"delta":{"reasoning_content":"a"},"x":${deep}}]}`;
    expect(push(stream, head + choice)).toBe('');
    expect(stream.metrics.failure?.kind).toBe('malformed');
  });

  test('ignores garbage after the finish reason', () => {
    const stream = startedStream();
    push(stream, head + text('a', '"finish_reason":"stop"'));
    expect(push(stream, `${head}[],"usage":{"prom`)).toBe('');
    expect(stream.metrics.failure).toBeUndefined();
    expect(stream.finished).toBe(true);
  });

  test('keeps the usage that came with an error', () => {
    const stream = newStream();
    const usage = '"usage":{"prompt_tokens":9,"completion_tokens":4}';
    expect(push(stream, `{"error":{"code":502,"message":"Gone."},"choices":[],${usage}}`)).toBe('');
    expect(stream.metrics.failure).toMatchObject({ kind: 'server', status: 502, message: 'Gone.' });
    expect(stream.metrics.usage?.outputTokens).toBe(4);
    expect(push(stream, head + text('b'))).toBe('');
    expect(stream.started).toBe(false);
  });

  test('fails on an event named error, regardless of its data', () => {
    const [groq, plain] = [startedStream(), startedStream()];
    push(groq, '{"error":{"message":"Bad call.","status_code":400}}', 'error');
    expect(groq.metrics.failure).toMatchObject({ kind: 'request', status: 400 });
    push(plain, 'upstream gone', 'error');
    expect(plain.metrics.failure).toMatchObject({ kind: 'server', message: 'upstream gone' });
  });

  test('ends with one error event and no terminator', () => {
    const stream = startedStream();
    const error = new GatewayError('upstream_error', 'The upstream timed out.', { status: 504 });
    const out = stream.fail(error);
    expect(out).toEndWith('\n\n');
    expect(parse(out)).toEqual({
      error: { message: 'The upstream timed out.', type: 'upstream_error', code: 504, param: null },
    });
    expect(push(stream, head + text('b'))).toBe('');
  });
});

describe('OpenAiPassThrough at the end of the stream', () => {
  test('drops the terminator and everything after it', () => {
    for (const done of ['[DONE]', ' [DONE] ']) {
      const stream = startedStream();
      expect(push(stream, done)).toBe('');
      expect(push(stream, head + text('a'))).toBe('');
      expect(push(stream, 'garbage')).toBe('');
      expect(stream.metrics).toMatchObject({ outputCharacters: 0, failure: undefined });
      expect(stream.finished).toBe(false);
    }
  });

  test('reads no usage after the terminator', () => {
    const stream = startedStream();
    push(stream, head + text('a', '"finish_reason":"stop"'));
    push(stream, '[DONE]');
    const usage = '"usage":{"prompt_tokens":4,"completion_tokens":2}';
    expect(push(stream, `${head}[],${usage}}`)).toBe('');
    expect(stream.metrics.usage).toBeUndefined();
  });

  test('reads no usage after a failure', () => {
    for (const failure of ['{"error":{"message":"Boom"}}', '{nope']) {
      const stream = startedStream();
      push(stream, head + text('a'));
      push(stream, failure);
      push(stream, `${head}[],"usage":{"prompt_tokens":4,"completion_tokens":90}}`);
      expect(stream.metrics).toMatchObject({ usage: undefined, outputCharacters: 1 });
    }
  });

  test('finishes once all choices have finished', () => {
    const stream = startedStream();
    const choice = (index: number, reason: string | null) =>
      push(stream, `${head}${JSON.stringify([{ index, delta: {}, finish_reason: reason }])}}`);
    choice(0, null);
    expect(parse(choice(1, null))).toMatchObject({ choices: [{ index: 1 }] });
    choice(1, 'length');
    expect([stream.finished, stream.metrics.finishReason]).toEqual([false, undefined]);
    choice(0, 'stop');
    expect([stream.finished, stream.metrics.finishReason]).toEqual([true, 'stop']);
  });
});

describe('OpenAiPassThrough', () => {
  const finish = (...choices: object[]) => `${head}${JSON.stringify(choices)},"tier":"x"}`;
  const names = { id: 'chatcmpl-ours', object: 'chat.completion.chunk', model: 'acme/large' };
  const chunk = (...choices: object[]) => ({
    ...names,
    created: 1_800_000_000,
    choices,
    tier: 'x',
  });

  test('forwards a finish chunk without content unchanged', () => {
    const data = finish({ index: 0, delta: {}, finish_reason: 'stop' });
    expect(push(startedStream(), data)).toBe(`data: ${ownHead}${data.slice(head.length)}\n\n`);
  });

  test.each<[string, object]>([
    ['an empty text', { content: '' }],
    ['the role once more', { role: 'assistant', content: null, tool_calls: [] }],
  ])('empties the delta of a finish chunk that has %s', (_, delta) => {
    const data = finish({ index: 0, delta, finish_reason: 'stop' });
    expect(parseAll(push(startedStream(), data))).toEqual([
      chunk({ index: 0, delta: {}, finish_reason: 'stop' }),
    ]);
  });

  test.each<[string, object, string]>([
    ['text', { content: '3' }, 'stop'],
    ['reasoning', { reasoning: 'hm' }, 'length'],
    [
      'a complete call',
      {
        tool_calls: [
          { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '[1]' } },
        ],
      },
      'tool_calls',
    ],
  ])('sends %s before the finish chunk', (_, delta, reason) => {
    const stream = startedStream(false);
    const logprobs = { content: [] };
    const data = finish({ index: 0, delta, logprobs, finish_reason: reason });
    const [content, closed, ...rest] = pushLast(stream, data);
    expect(content).toMatchObject({ choices: [{ index: 0, logprobs, finish_reason: null }] });
    expect(content).toMatchObject({ choices: [{ delta }] });
    expect(closed).toEqual(chunk({ index: 0, delta: {}, logprobs: null, finish_reason: reason }));
    expect(rest).toEqual([]);
    expect([stream.finished, stream.metrics.finishReason]).toEqual([true, reason]);
  });

  test('sends the last finish reason once if every chunk has one', () => {
    const stream = startedStream(false);
    const content = (content: string, reason: string) =>
      finish({ index: 0, delta: { content }, finish_reason: reason });
    const contentChunk = (content: string) =>
      chunk({ index: 0, delta: { content }, finish_reason: null });
    expect(parseAll(push(stream, content('a', 'stop')))).toEqual([contentChunk('a')]);
    expect(parseAll(push(stream, content('b', 'stop')))).toEqual([contentChunk('b')]);
    expect(pushLast(stream, content('c', 'length'))).toEqual([
      contentChunk('c'),
      chunk({ index: 0, delta: {}, finish_reason: 'length' }),
    ]);
    expect(stream.metrics).toMatchObject({ outputCharacters: 3, finishReason: 'length' });
  });

  test('holds the finish chunks of at most 16 choices', () => {
    const stream = startedStream(false);
    const outputs = Array.from({ length: 20 }, (_, index) =>
      parseAll(push(stream, finish({ index, delta: { content: 'a' }, finish_reason: 'stop' }))),
    );
    expect(outputs.map((chunks) => chunks.length).join('')).toBe('11111111111111112222');
    const ends = pushLast(stream, finish({ index: 19, delta: {}, finish_reason: 'stop' }));
    expect(ends).toHaveLength(16);
  });

  test('is not finished if more text follows a finish reason', () => {
    const stream = startedStream(false);
    const textOnly = (content: string) =>
      finish({ index: 0, delta: { content }, finish_reason: null });
    for (const content of ['a', 'b', 'c']) push(stream, textOnly(content));
    push(stream, finish({ index: 0, delta: { content: 'd' }, finish_reason: 'stop' }));
    expect(stream.finished).toBe(true);
    push(stream, textOnly('e'));
    expect(stream.finished).toBe(false);
    push(stream, '[DONE]');
    expect(stream.finished).toBe(true);
  });

  test('is finished after a finish reason is repeated without content', () => {
    const stream = startedStream(false);
    const call = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
    for (const delta of [{ tool_calls: [call] }, {}]) {
      push(stream, finish({ index: 0, delta, finish_reason: 'tool_calls' }));
    }
    expect(stream.finished).toBe(true);
  });

  test('sends a finish chunk without content at once, even after one with content', () => {
    const stream = startedStream(false);
    push(stream, finish({ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }));
    const alone = { index: 0, delta: {}, finish_reason: 'length' };
    expect(pushLast(stream, finish(alone))).toEqual([chunk(alone)]);
    expect(push(stream, finish(alone))).toBe('');
  });

  test('does not complete a call if pieces of calls have finish reasons', () => {
    const stream = startedStream(false);
    const data = (call: object) =>
      finish({ index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' });
    const [f, g] = ['f', 'g'].map((name, index) => {
      return { index, id: name, type: 'function', function: { name, arguments: '' } };
    });
    const piece = (index: number, json: string) => ({ index, function: { arguments: json } });
    const all = [f, piece(0, '{"x":'), piece(0, '1}'), g].flatMap((call) =>
      parseAll(push(stream, data(call ?? {}))),
    );
    const callChunk = (call: object | undefined) =>
      chunk({ index: 0, delta: { tool_calls: [call] }, finish_reason: null });
    expect(all).toEqual([f, piece(0, '{"x":'), piece(0, '1}'), g].map(callChunk));
    expect(pushLast(stream, finish({ index: 0, delta: {}, finish_reason: 'tool_calls' }))).toEqual([
      callChunk(piece(1, '{}')),
      chunk({ index: 0, delta: {}, finish_reason: 'tool_calls' }),
    ]);
  });

  test('drops a repeated finish chunk', () => {
    const stream = startedStream();
    const repeated = finish({ index: 0, delta: { content: '' }, finish_reason: 'stop' });
    expect(parseAll(push(stream, repeated))).toHaveLength(1);
    expect(push(stream, repeated)).toBe('');
    const late = finish({ index: 0, delta: { content: 'late' }, finish_reason: 'stop' });
    expect(parseAll(push(stream, late))).toEqual([
      chunk({ index: 0, delta: { content: 'late' }, finish_reason: null }),
    ]);
    // More content may follow, so only the terminator ends the answer.
    expect([stream.finished, stream.metrics.finishReason]).toEqual([false, 'stop']);
    push(stream, '[DONE]');
    expect(stream.finished).toBe(true);
  });

  test("drops late chunks without content, such as Azure's filter results", () => {
    const stream = startedStream();
    const results = { content_filter_results: { hate: { filtered: false } } };
    const late = { index: 0, content_filter_offsets: { check_offset: 3 }, ...results };
    expect(parseAll(push(stream, finish({ ...late, finish_reason: null })))).toHaveLength(1);
    push(stream, finish({ index: 0, delta: {}, finish_reason: 'stop' }));
    expect(push(stream, finish({ ...late, finish_reason: null }))).toBe('');
    expect([stream.finished, stream.metrics.finishReason]).toEqual([true, 'stop']);
  });

  test('sends the text of another choice before the finish chunk', () => {
    const data = finish(
      { index: 0, delta: { content: '' }, finish_reason: 'stop' },
      { index: 1, delta: { content: 'b' }, finish_reason: null },
    );
    expect(parseAll(push(startedStream(), data))).toEqual([
      chunk({ index: 1, delta: { content: 'b', role: 'assistant' }, finish_reason: null }),
      chunk({ index: 0, delta: {}, finish_reason: 'stop' }),
    ]);
  });

  test('sends the role before the finish chunk of an empty answer', () => {
    const stream = newStream(false);
    const data = finish({ index: 0, delta: {}, finish_reason: 'content_filter' });
    expect(pushLast(stream, data)).toEqual([
      chunk({ index: 0, delta: { role: 'assistant' }, finish_reason: null }),
      chunk({ index: 0, delta: {}, finish_reason: 'content_filter' }),
    ]);
    // A repeated finish is dropped.
    expect(push(stream, data)).toBe('');
  });
});

test('OpenAiPassThrough counts text, reasoning, refusals, audio, names, and arguments', () => {
  const stream = startedStream();
  const deltas = [
    { role: 'assistant', content: 'ab' },
    { reasoning_content: 'abc' },
    { refusal: 'abcd' },
    { audio: { id: 'a', transcript: 'abcde' } },
    { audio: { id: 'a', data: 'A'.repeat(1_000) } },
    { images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] },
    { tool_calls: [{ index: 0, id: 'x', type: 'function', function: { name: 'fn' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] },
  ];
  for (const delta of deltas) {
    push(stream, `${head}${JSON.stringify([{ index: 0, delta, finish_reason: null }])}}`);
  }
  expect(stream.metrics.outputCharacters).toBe(2 + 3 + 4 + 5 + 2 + 5_200 + 2 + 7);
});

describe('OpenAiPassThrough for a client with a custom tool', () => {
  const customTools = new Set(['patch']);
  const newStreamWithTool = () =>
    new OpenAiPassThrough(identity, { includeUsage: false, customTools });
  const opening = { index: 0, id: 'x', type: 'function', function: { name: 'patch' } };
  const more = (json: string) => ({ index: 0, function: { arguments: json } });
  const noCall = {};
  function emit(stream: OpenAiPassThrough, call: object, finish_reason: string | null, index = 0) {
    const delta = call === noCall ? {} : { tool_calls: [call] };
    return push(stream, `${head}${JSON.stringify([{ index, delta, finish_reason }])}}`);
  }

  test('counts buffered input once, when it arrives', () => {
    const stream = newStreamWithTool();
    emit(stream, opening, null);
    expect(emit(stream, more('{"input":"ab'), null)).not.toContain('ab');
    expect(stream.metrics.outputCharacters).toBe(5 + 12);
    emit(stream, more('c"}'), 'tool_calls');
    const end = push(stream, '[DONE]');
    expect(end).toMatch(/"custom":\{"input":"abc"\}.*"finish_reason":"tool_calls"/s);
    expect(stream.metrics.outputCharacters).toBe(5 + 12 + 3);
  });

  test('keeps the type of a call that continues after a finish', () => {
    const stream = newStreamWithTool();
    emit(stream, opening, null);
    emit(stream, more('{"input":"a'), null);
    expect(emit(stream, noCall, 'stop')).toContain('"custom":{"input":"{\\"input\\":\\"a"}');
    const late = emit(stream, more('b'), 'stop') + push(stream, '[DONE]');
    expect(late).toContain('"custom":{"input":"b"}');
    expect(late).not.toContain('"function"');
  });

  test('sends all input of a call even after its finish chunk was sent', () => {
    const stream = newStreamWithTool();
    push(stream, head + text('Hi'));
    expect(emit(stream, noCall, 'stop')).toContain('"finish_reason":"stop"');
    emit(stream, opening, null);
    emit(stream, more('{"input":"ab'), null);
    emit(stream, more('c"}'), 'tool_calls');
    const [last] = parseAll(push(stream, '[DONE]'));
    expect(last).toMatchObject({
      ...{ id: 'chatcmpl-ours', object: 'chat.completion.chunk', model: 'acme/large' },
      choices: [{ index: 0, delta: { tool_calls: [{ index: 0, custom: { input: 'abc' } }] } }],
    });
    expect(stream.close({ usage: noUsage, costCredits: 0 })).toBe('data: [DONE]\n\n');
  });

  test('limits the buffered input of all choices together', () => {
    const stream = newStreamWithTool();
    const megabyte = more('x'.repeat(1024 * 1024));
    const fill = (choice: number) => {
      emit(stream, opening, null, choice);
      emit(stream, megabyte, null, choice);
    };
    for (const choice of [0, 1, 2, 3]) fill(choice);
    expect(() => fill(4)).toThrow(MalformedAnswer);
  });

  test('forwards text chunks unchanged', () => {
    const stream = newStreamWithTool();
    push(stream, head + text('a'));
    const spaced = '[ {"index": 0, "delta": {"content": "b"}, "finish_reason": null} ]}';
    expect(push(stream, head + spaced)).toBe(`data: ${ownHead}${spaced}\n\n`);
  });
});

test("OpenAiPassThrough drops a chunk without choices, such as Azure's first one", () => {
  const stream = newStream();
  expect(push(stream, '{"choices":[],"id":"","model":"","prompt_filter_results":[]}')).toBe('');
  expect(push(stream, '{"type":"ping"}')).toBe('');
  expect(stream.started).toBe(false);
  push(stream, head + text('a'));
  expect(stream.started).toBe(true);
});

test('OpenAiPassThrough writes a keep-alive comment before it has started', () => {
  const stream = newStream();
  expect(stream.keepAlive()).toBe(': keep-alive\n\n');
  expect(stream.started).toBe(false);
});
