import { describe, expect, test } from 'bun:test';
import { GatewayError } from '../../../core/errors.ts';
import { noUsage } from '../../../core/usage.ts';
import { MalformedAnswer } from '../../failure.ts';
import { OpenAiPassThrough } from './stream.ts';

const identity = {
  id: 'chatcmpl-ours',
  model: 'acme/large',
  provider: 'acme',
  created: 1_800_000_000,
};
const freshRelay = (includeUsage = true) => new OpenAiPassThrough(identity, { includeUsage });

/** Of a stream that has begun: who speaks was said. */
function newRelay(includeUsage = true): OpenAiPassThrough {
  const relay = freshRelay(includeUsage);
  push(relay, `${head}[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`);
  return relay;
}

const headOf = (id: string, created: number, model: string) =>
  `{"id":"${id}","object":"chat.completion.chunk","created":${created},` +
  `"model":"${model}","choices":`;
const head = headOf('chatcmpl-theirs', 17, 'gpt-up');
const ownHead = headOf('chatcmpl-ours', 1_800_000_000, 'acme/large');
const text = (content: string, more = '"finish_reason":null') =>
  `[{"index":0,"delta":{"content":${JSON.stringify(content)}},${more}}]}`;

function push(relay: OpenAiPassThrough, data: string, event: string | null = null): string {
  return relay.push({ event, data });
}
const parse = (event: string) => JSON.parse(event.replace(/^data: /, '')) as object;
const parseAll = (events: string) => events.split('\n\n').filter(Boolean).map(parse);

/** What a client that wants no usage hears from this chunk on, which is the last. */
function hearOut(relay: OpenAiPassThrough, data: string): object[] {
  const said = push(relay, data) + relay.close({ usage: noUsage, costCredits: 0 });
  expect(said).toEndWith('data: [DONE]\n\n');
  return parseAll(said.replace('data: [DONE]\n\n', ''));
}

describe('OpenAiPassThrough forwards a clean chunk with our identity', () => {
  test('and preserves spacing, key order, unknown fields and long numbers', () => {
    const relay = newRelay();
    const tail =
      '[ {"index": 0, "delta": {"content": "a\u2028\\u00e9"}, "finish_reason": null, ' +
      '"seed": 12345678901234567890} ]';
    for (const more of [', "x": 1.0}', ',"obfuscation":"ab"}  ']) {
      expect(push(relay, head + tail + more)).toBe(`data: ${ownHead}${tail}${more}\n\n`);
    }
  });

  test('replaced only at the top level', () => {
    const delta = '{"content":"a","annotations":[{"id":"n","model":"m"}]}';
    const nested = `{"index":0,"delta":${delta},"finish_reason":null}`;
    const first = '{"meta":{"model":"m","id":"n"},"id":"theirs-1","model": "gpt-up","created":17,';
    const object = '"object":"chat.completion.chunk",';
    const out = push(newRelay(), `${first}${object}"choices":[${nested}]}`);
    expect(parse(out)).toEqual({
      ...{ meta: { model: 'm', id: 'n' }, id: 'chatcmpl-ours', model: 'acme/large' },
      ...{ created: 1_800_000_000, object: 'chat.completion.chunk' },
      choices: [JSON.parse(nested)],
    });
  });

  test('replaced after the choices or when a value equals a key', () => {
    const relay = newRelay();
    const open = (content: string) => text(content).slice(0, -1);
    const object = '"object":"chat.completion.chunk"';
    const events = [
      `{"choices":${open('a')},"id":"theirs","model":"gpt-up",${object}}`,
      `{"id":"choices","model":"choices",${object},"choices":${text('b')}`,
      `{"id":"theirs",${object},"choices":${open('c')},"model":"gpt-up"}`,
      `{"choices":${text('d')}`,
    ];
    for (const data of events) {
      expect(parse(push(relay, data))).toMatchObject({
        id: 'chatcmpl-ours',
        model: 'acme/large',
        created: 1_800_000_000,
        object: 'chat.completion.chunk',
      });
    }
  });

  test('and notices a changed head', () => {
    const relay = newRelay();
    push(relay, head + text('a'));
    const other = head.replace('"created":17', '"created":18').replace('gpt-up', 'gpt-other');
    expect(push(relay, other + text('b'))).toBe(`data: ${ownHead}${text('b')}\n\n`);
    expect(push(relay, head + text('c'))).toBe(`data: ${ownHead}${text('c')}\n\n`);
  });

  test("replacing another gateway's provider name", () => {
    const named = head.replace('{', '{"provider":"Upstream Inc",');
    const relay = newRelay();
    expect(parse(push(relay, named + text('a')))).toMatchObject({ provider: 'acme' });
    const behind = `${text('a').slice(0, -1)},"provider":"Upstream Inc"}`;
    expect(parse(push(relay, head + behind))).toMatchObject({ provider: 'acme' });
  });

  test('when its text looks like the end of the stream', () => {
    const trick = '\n\ndata: [DONE]\n\n","model":"x';
    const out = push(newRelay(), head + text(trick));
    expect(out.match(/\n\n/g)?.length).toBe(1);
    expect(parse(out)).toMatchObject({ choices: [{ delta: { content: trick } }] });
  });

  test('on a single line when its data has several', () => {
    const data = (head + text('a')).replace('"choices":', '\n"choices":\n');
    expect(push(newRelay(), data)).toBe(`data: ${ownHead}${text('a')}\n\n`);
  });
});

test('OpenAiPassThrough keeps unknown fields and long numbers of a normalized chunk', () => {
  const choice = '{"index":0,"delta":{"reasoning_content":"hm"},"seed":12345678901234567890}';
  const out = push(newRelay(), `${head}[${choice}],"tier":"x"}`);
  expect(out).toContain('"seed":12345678901234567890');
  expect(out).toContain('"reasoning":"hm"');
  expect(out).toContain('"tier":"x"');
  expect(out).not.toMatch(/theirs|gpt-up/);
});

test('OpenAiPassThrough converts a stream of messages to deltas', () => {
  const relay = newRelay(false);
  const choice = '{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}';
  const chunks = hearOut(relay, `${head}[${choice}]}`);
  expect(chunks).toMatchObject([
    { choices: [{ delta: { content: 'Hi' }, finish_reason: null }] },
    { choices: [{ delta: {}, finish_reason: 'stop' }] },
  ]);
  expect(JSON.stringify(chunks)).not.toContain('message');
  expect(relay.metrics).toMatchObject({ outputCharacters: 2, finishReason: 'stop' });
});

test('OpenAiPassThrough sends a call with its name first', () => {
  const relay = newRelay();
  const emit = (...calls: object[]) => {
    const choices = [{ index: 0, delta: { tool_calls: calls }, finish_reason: null }];
    const [chunk] = parseAll(push(relay, `${head}${JSON.stringify(choices)}}`));
    return (chunk as { choices: [{ delta: unknown }] }).choices[0].delta;
  };
  const nameless = { index: 0, id: 'a', type: 'function', function: { arguments: '' } };
  const named = { name: 'f', arguments: '{"x":1}' };
  expect(emit(nameless)).toEqual({});
  expect(emit({ index: 0, function: named })).toEqual({
    tool_calls: [{ ...nameless, function: named }],
  });
});

test('OpenAiPassThrough forwards moderation results with our identity', () => {
  const relay = newRelay();
  const found = '"moderation":{"input":{"type":"moderation_results","results":[]}}';
  push(relay, head + text('Hi', '"finish_reason":"stop"'));
  const out = push(relay, `${head}[],${found},"usage":null,"request_id":"theirs"}`);
  expect(out).toBe(`data: ${ownHead}[],${found}}\n\n`);
  expect(relay.finished).toBe(true);
});

describe('OpenAiPassThrough with usage', () => {
  const usage = '"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}';

  test('records it and removes it from every chunk', () => {
    const relay = freshRelay();
    expect(push(relay, `${head}[],${usage}}`)).toBe('');
    expect(relay.started).toBe(false);
    const finish = `${text('a', '"finish_reason":"stop"').slice(0, -1)},${usage}}`;
    for (const chunk of parseAll(push(relay, head + finish))) {
      expect(chunk).not.toHaveProperty('usage');
    }
    expect(relay.metrics.usage).toMatchObject({ inputTokens: 9, outputTokens: 4 });
  });

  test.each([true, false])('omits null usage from chunks (requested: %s)', (requested) => {
    const relay = newRelay(requested);
    const trick = text('a ,"usage":null b');
    const open = trick.slice(0, -1);
    for (const more of [',"usage":null}', ',"usage":null,"tier":"x"}']) {
      const rest = more.replace(',"usage":null', '');
      expect(push(relay, head + open + more)).toBe(`data: ${ownHead}${open}${rest}\n\n`);
    }
    for (const more of [',"usage": null}', ', "usage" : null}']) {
      expect(parse(push(relay, head + open + more))).toEqual(JSON.parse(ownHead + trick));
    }
    const before = head.replace('{', '{"usage":null,');
    expect(parse(push(relay, before + trick))).toEqual(JSON.parse(ownHead + trick));
  });

  test('uses the last report with the details of earlier ones', () => {
    const relay = newRelay();
    const cached = usage.replace('9,', '9,"prompt_tokens_details":{"cached_tokens":6},');
    push(relay, `${head}[],${cached}}`);
    push(relay, `${head}[],${usage.replace('4', '5').replace('13', '14')}}`);
    push(relay, `${head}[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`);
    expect(relay.metrics.usage).toEqual({
      ...noUsage,
      inputTokens: 3,
      cacheReadTokens: 6,
      outputTokens: 5,
    });
  });

  test('writes the settled usage into the closing chunk only if requested', () => {
    const settled = { usage: { ...noUsage, inputTokens: 2, outputTokens: 3 }, costCredits: 11 };
    const relay = newRelay();
    const predicted = { accepted_prediction_tokens: 2, rejected_prediction_tokens: 0 };
    const details = `"completion_tokens_details":${JSON.stringify(predicted)}`;
    push(relay, `${head}[],${usage.replace('}', ',"completion_tokens_details":{"old":1}}')}}`);
    push(relay, `${head}[],${usage.replace('}', `,${details}}`)}}`);
    const [chunk = '', done, rest] = relay.close(settled).split('\n\n');
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
    expect(newRelay(false).close(settled)).toBe('data: [DONE]\n\n');
  });
});

describe('OpenAiPassThrough with a broken stream', () => {
  test('fails as malformed at invalid JSON and forwards nothing more', () => {
    for (const data of ['{"choices":[', '[1]', 'upstream connect error']) {
      const relay = newRelay();
      push(relay, head + text('a'));
      expect(push(relay, data)).toBe('');
      expect(relay.metrics.failure).toMatchObject({ kind: 'malformed', status: null });
      expect(push(relay, head + text('b'))).toBe('');
    }
  });

  test('fails as malformed at excessive nesting', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const relay = newRelay();
    const choice = `[{"index":0,"delta":{"reasoning_content":"a"},"x":${deep}}]}`;
    expect(push(relay, head + choice)).toBe('');
    expect(relay.metrics.failure?.kind).toBe('malformed');
  });

  test('ignores garbage after the finish reason', () => {
    const relay = newRelay();
    push(relay, head + text('a', '"finish_reason":"stop"'));
    expect(push(relay, `${head}[],"usage":{"prom`)).toBe('');
    expect(relay.metrics.failure).toBeUndefined();
    expect(relay.finished).toBe(true);
  });

  test('keeps the usage that came with an error', () => {
    const relay = freshRelay();
    const usage = '"usage":{"prompt_tokens":9,"completion_tokens":4}';
    expect(push(relay, `{"error":{"code":502,"message":"Gone."},"choices":[],${usage}}`)).toBe('');
    expect(relay.metrics.failure).toMatchObject({ kind: 'server', status: 502, message: 'Gone.' });
    expect(relay.metrics.usage?.outputTokens).toBe(4);
    expect(push(relay, head + text('b'))).toBe('');
    expect(relay.started).toBe(false);
  });

  test('fails at an event named error, whatever its data', () => {
    const [groq, plain] = [newRelay(), newRelay()];
    push(groq, '{"error":{"message":"Bad call.","status_code":400}}', 'error');
    expect(groq.metrics.failure).toMatchObject({ kind: 'request', status: 400 });
    push(plain, 'upstream gone', 'error');
    expect(plain.metrics.failure).toMatchObject({ kind: 'server', message: 'upstream gone' });
  });

  test('ends with one error chunk and no terminator', () => {
    const relay = newRelay();
    const error = new GatewayError('upstream_error', 'The model broke off.', { status: 504 });
    const out = relay.fail(error);
    expect(out).toEndWith('\n\n');
    expect(parse(out)).toEqual({
      ...{ id: 'chatcmpl-ours', object: 'chat.completion.chunk', created: 1_800_000_000 },
      model: 'acme/large',
      error: { message: 'The model broke off.', type: 'upstream_error', code: 504, param: null },
      choices: [{ index: 0, delta: {}, finish_reason: 'error' }],
    });
    expect(push(relay, head + text('b'))).toBe('');
  });
});

describe('OpenAiPassThrough at the end of the stream', () => {
  test('drops the terminator and everything after it', () => {
    for (const done of ['[DONE]', ' [DONE] ']) {
      const relay = newRelay();
      expect(push(relay, done)).toBe('');
      expect(push(relay, head + text('a'))).toBe('');
      expect(push(relay, 'garbage')).toBe('');
      expect(relay.metrics).toMatchObject({ outputCharacters: 0, failure: undefined });
      expect(relay.finished).toBe(false);
    }
  });

  test('reads the first usage after the terminator if there was none before', () => {
    const relay = newRelay();
    const counted = (completion: number) =>
      `${head}[],"usage":{"prompt_tokens":4,"completion_tokens":${completion}}}`;
    push(relay, head + text('a', '"finish_reason":"stop"'));
    push(relay, '[DONE]');
    expect([push(relay, counted(2)), push(relay, counted(90))]).toEqual(['', '']);
    expect(relay.metrics.usage).toMatchObject({ inputTokens: 4, outputTokens: 2 });
  });

  test('reads no usage after a failure', () => {
    for (const failure of ['{"error":{"message":"Boom"}}', '{nope']) {
      const relay = newRelay();
      push(relay, head + text('a'));
      push(relay, failure);
      push(relay, `${head}[],"usage":{"prompt_tokens":4,"completion_tokens":90}}`);
      expect(relay.metrics).toMatchObject({ usage: undefined, outputCharacters: 1 });
    }
  });

  test('finishes once all choices have finished', () => {
    const relay = newRelay();
    const choice = (index: number, reason: string | null) =>
      push(relay, `${head}${JSON.stringify([{ index, delta: {}, finish_reason: reason }])}}`);
    choice(0, null);
    expect(parse(choice(1, null))).toMatchObject({ choices: [{ index: 1 }] });
    choice(1, 'length');
    expect([relay.finished, relay.metrics.finishReason]).toEqual([false, undefined]);
    choice(0, 'stop');
    expect([relay.finished, relay.metrics.finishReason]).toEqual([true, 'stop']);
  });
});

describe('OpenAiPassThrough with a finish reason', () => {
  const finish = (...choices: object[]) => `${head}${JSON.stringify(choices)},"tier":"x"}`;
  const names = { id: 'chatcmpl-ours', object: 'chat.completion.chunk', model: 'acme/large' };
  const chunk = (...choices: object[]) => ({
    ...names,
    created: 1_800_000_000,
    choices,
    tier: 'x',
  });

  test('forwards it unchanged if it has no content', () => {
    const data = finish({ index: 0, delta: {}, finish_reason: 'stop' });
    expect(push(newRelay(), data)).toBe(`data: ${ownHead}${data.slice(head.length)}\n\n`);
  });

  test.each<[string, object]>([
    ['an empty text', { content: '' }],
    ['the role once more', { role: 'assistant', content: null, tool_calls: [] }],
  ])('empties the delta next to it that has %s', (_, delta) => {
    const data = finish({ index: 0, delta, finish_reason: 'stop' });
    expect(parseAll(push(newRelay(), data))).toEqual([
      chunk({ index: 0, delta: {}, finish_reason: 'stop' }),
    ]);
  });

  test.each<[string, object, string]>([
    ['the last words', { content: '3' }, 'stop'],
    ['the last thought', { reasoning: 'hm' }, 'length'],
    [
      'a whole call',
      {
        tool_calls: [
          { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '[1]' } },
        ],
      },
      'tool_calls',
    ],
  ])('sends %s before it', (_, delta, reason) => {
    const relay = newRelay(false);
    const logprobs = { content: [] };
    const data = finish({ index: 0, delta, logprobs, finish_reason: reason });
    const [said, closed, ...rest] = hearOut(relay, data);
    expect(said).toMatchObject({ choices: [{ index: 0, logprobs, finish_reason: null }] });
    expect(said).toMatchObject({ choices: [{ delta }] });
    expect(closed).toEqual(chunk({ index: 0, delta: {}, logprobs: null, finish_reason: reason }));
    expect(rest).toEqual([]);
    expect([relay.finished, relay.metrics.finishReason]).toEqual([true, reason]);
  });

  test('sends it once, with the last value, if every chunk has one', () => {
    const relay = newRelay(false);
    const content = (content: string, reason: string) =>
      finish({ index: 0, delta: { content }, finish_reason: reason });
    const said = (content: string) => chunk({ index: 0, delta: { content }, finish_reason: null });
    expect(parseAll(push(relay, content('a', 'stop')))).toEqual([said('a')]);
    expect(parseAll(push(relay, content('b', 'stop')))).toEqual([said('b')]);
    expect(hearOut(relay, content('c', 'length'))).toEqual([
      said('c'),
      chunk({ index: 0, delta: {}, finish_reason: 'length' }),
    ]);
    expect(relay.metrics).toMatchObject({ outputCharacters: 3, finishReason: 'length' });
  });

  test('holds it for at most 16 choices and sends the others at once', () => {
    const relay = newRelay(false);
    const told = Array.from({ length: 20 }, (_, index) =>
      parseAll(push(relay, finish({ index, delta: { content: 'a' }, finish_reason: 'stop' }))),
    );
    expect(told.map((chunks) => chunks.length).join('')).toBe('11111111111111112222');
    const ends = hearOut(relay, finish({ index: 19, delta: {}, finish_reason: 'stop' }));
    expect(ends).toHaveLength(16);
  });

  test('is not finished when repeated chunks follow it', () => {
    const relay = newRelay(false);
    const said = (content: string) => finish({ index: 0, delta: { content }, finish_reason: null });
    for (const content of ['a', 'b', 'c']) push(relay, said(content));
    push(relay, finish({ index: 0, delta: { content: 'd' }, finish_reason: 'stop' }));
    expect(relay.finished).toBe(true);
    push(relay, said('e'));
    expect(relay.finished).toBe(false);
    push(relay, '[DONE]');
    expect(relay.finished).toBe(true);
  });

  test('is finished after a second finish reason, whatever the calls lacked', () => {
    const relay = newRelay(false);
    const call = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
    for (const delta of [{ tool_calls: [call] }, {}]) {
      push(relay, finish({ index: 0, delta, finish_reason: 'tool_calls' }));
    }
    expect(relay.finished).toBe(true);
  });

  test('sends a bare one after such chunks at once', () => {
    const relay = newRelay(false);
    push(relay, finish({ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }));
    const alone = { index: 0, delta: {}, finish_reason: 'length' };
    expect(hearOut(relay, finish(alone))).toEqual([chunk(alone)]);
    expect(push(relay, finish(alone))).toBe('');
  });

  test('completes no call when it comes next to pieces of calls', () => {
    const relay = newRelay(false);
    const data = (call: object) =>
      finish({ index: 0, delta: { tool_calls: [call] }, finish_reason: 'tool_calls' });
    const [f, g] = ['f', 'g'].map((name, index) => {
      return { index, id: name, type: 'function', function: { name, arguments: '' } };
    });
    const piece = (index: number, json: string) => ({ index, function: { arguments: json } });
    const all = [f, piece(0, '{"x":'), piece(0, '1}'), g].flatMap((call) =>
      parseAll(push(relay, data(call ?? {}))),
    );
    const said = (call: object | undefined) =>
      chunk({ index: 0, delta: { tool_calls: [call] }, finish_reason: null });
    expect(all).toEqual([f, piece(0, '{"x":'), piece(0, '1}'), g].map(said));
    expect(hearOut(relay, finish({ index: 0, delta: {}, finish_reason: 'tool_calls' }))).toEqual([
      said(piece(1, '{}')),
      chunk({ index: 0, delta: {}, finish_reason: 'tool_calls' }),
    ]);
  });

  test('sends it once even if the upstream repeats it', () => {
    const relay = newRelay();
    const again = finish({ index: 0, delta: { content: '' }, finish_reason: 'stop' });
    expect(parseAll(push(relay, again))).toHaveLength(1);
    expect(push(relay, again)).toBe('');
    const late = finish({ index: 0, delta: { content: 'late' }, finish_reason: 'stop' });
    expect(parseAll(push(relay, late))).toEqual([
      chunk({ index: 0, delta: { content: 'late' }, finish_reason: null }),
    ]);
    // Words may follow these, too: a line that breaks here is no end.
    expect([relay.finished, relay.metrics.finishReason]).toEqual([false, 'stop']);
    push(relay, '[DONE]');
    expect(relay.finished).toBe(true);
  });

  test("drops late chunks without content, such as Azure's filter results", () => {
    const relay = newRelay();
    const results = { content_filter_results: { hate: { filtered: false } } };
    const late = { index: 0, content_filter_offsets: { check_offset: 3 }, ...results };
    expect(parseAll(push(relay, finish({ ...late, finish_reason: null })))).toHaveLength(1);
    push(relay, finish({ index: 0, delta: {}, finish_reason: 'stop' }));
    expect(push(relay, finish({ ...late, finish_reason: null }))).toBe('');
    expect([relay.finished, relay.metrics.finishReason]).toEqual([true, 'stop']);
  });

  test('sends the text of another choice before it', () => {
    const data = finish(
      { index: 0, delta: { content: '' }, finish_reason: 'stop' },
      { index: 1, delta: { content: 'b' }, finish_reason: null },
    );
    expect(parseAll(push(newRelay(), data))).toEqual([
      chunk({ index: 1, delta: { content: 'b', role: 'assistant' }, finish_reason: null }),
      chunk({ index: 0, delta: {}, finish_reason: 'stop' }),
    ]);
  });

  test('sends the role first if the answer has no content', () => {
    const relay = freshRelay(false);
    const data = finish({ index: 0, delta: {}, finish_reason: 'content_filter' });
    expect(hearOut(relay, data)).toEqual([
      chunk({ index: 0, delta: { role: 'assistant' }, finish_reason: null }),
      chunk({ index: 0, delta: {}, finish_reason: 'content_filter' }),
    ]);
    // Once more it says nothing.
    expect(push(relay, data)).toBe('');
  });
});

test('OpenAiPassThrough counts text, reasoning, refusals, audio, names and arguments', () => {
  const relay = newRelay();
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
    push(relay, `${head}${JSON.stringify([{ index: 0, delta, finish_reason: null }])}}`);
  }
  expect(relay.metrics.outputCharacters).toBe(2 + 3 + 4 + 5 + 2 + 5_200 + 2 + 7);
});

describe('OpenAiPassThrough for a client with a free-form tool', () => {
  const customTools = new Set(['patch']);
  const sink = () => new OpenAiPassThrough(identity, { includeUsage: false, customTools });
  const opening = { index: 0, id: 'x', type: 'function', function: { name: 'patch' } };
  const more = (json: string) => ({ index: 0, function: { arguments: json } });
  const nothing = {};
  function emit(relay: OpenAiPassThrough, call: object, finish_reason: string | null, index = 0) {
    const delta = call === nothing ? {} : { tool_calls: [call] };
    return push(relay, `${head}${JSON.stringify([{ index, delta, finish_reason }])}}`);
  }

  test('counts buffered input once, when it comes', () => {
    const relay = sink();
    emit(relay, opening, null);
    expect(emit(relay, more('{"input":"ab'), null)).not.toContain('ab');
    expect(relay.metrics.outputCharacters).toBe(5 + 12);
    emit(relay, more('c"}'), 'tool_calls');
    const end = push(relay, '[DONE]');
    expect(end).toMatch(/"custom":\{"input":"abc"\}.*"finish_reason":"tool_calls"/s);
    expect(relay.metrics.outputCharacters).toBe(5 + 12 + 3);
  });

  test('keeps the type of a call that continues after a finish', () => {
    const relay = sink();
    emit(relay, opening, null);
    emit(relay, more('{"input":"a'), null);
    expect(emit(relay, nothing, 'stop')).toContain('"custom":{"input":"{\\"input\\":\\"a"}');
    const late = emit(relay, more('b'), 'stop') + push(relay, '[DONE]');
    expect(late).toContain('"custom":{"input":"b"}');
    expect(late).not.toContain('"function"');
  });

  test('sends all input of a call after a finish that was sent', () => {
    const relay = sink();
    push(relay, head + text('Hi'));
    expect(emit(relay, nothing, 'stop')).toContain('"finish_reason":"stop"');
    emit(relay, opening, null);
    emit(relay, more('{"input":"ab'), null);
    emit(relay, more('c"}'), 'tool_calls');
    const [last] = parseAll(push(relay, '[DONE]'));
    expect(last).toMatchObject({
      ...{ id: 'chatcmpl-ours', object: 'chat.completion.chunk', model: 'acme/large' },
      choices: [{ index: 0, delta: { tool_calls: [{ index: 0, custom: { input: 'abc' } }] } }],
    });
    expect(relay.close({ usage: noUsage, costCredits: 0 })).toBe('data: [DONE]\n\n');
  });

  test('limits the buffered input of all choices together', () => {
    const relay = sink();
    const megabyte = more('x'.repeat(1024 * 1024));
    const sayIn = (choice: number) => {
      emit(relay, opening, null, choice);
      emit(relay, megabyte, null, choice);
    };
    for (const choice of [0, 1, 2, 3]) sayIn(choice);
    expect(() => sayIn(4)).toThrow(MalformedAnswer);
  });

  test('forwards text chunks unchanged', () => {
    const relay = sink();
    push(relay, head + text('a'));
    const spaced = '[ {"index": 0, "delta": {"content": "b"}, "finish_reason": null} ]}';
    expect(push(relay, head + spaced)).toBe(`data: ${ownHead}${spaced}\n\n`);
  });
});

test("OpenAiPassThrough drops a chunk without choices, such as Azure's first one", () => {
  const relay = freshRelay();
  expect(push(relay, '{"choices":[],"id":"","model":"","prompt_filter_results":[]}')).toBe('');
  expect(push(relay, '{"type":"ping"}')).toBe('');
  expect(relay.started).toBe(false);
  push(relay, head + text('a'));
  expect(relay.started).toBe(true);
});

test('OpenAiPassThrough writes a comment to keep the connection alive before it has started', () => {
  const relay = freshRelay();
  expect(relay.keepAlive()).toBe(': keep-alive\n\n');
  expect(relay.started).toBe(false);
});
