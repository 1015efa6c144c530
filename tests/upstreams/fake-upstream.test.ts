import { afterAll, beforeEach, expect, test } from 'bun:test';
import {
  type Behavior,
  callTools,
  chatAnswer,
  dataAfterDone,
  doneTwice,
  emptyBody,
  errorInside200,
  htmlWith200,
  json,
  jsonForStream,
  malformedSse,
  manyTinyEvents,
  rawUsage,
  sseForJson,
  sseSyntax,
  startFakeUpstream,
  status,
  status429,
  status500,
  unfinishedCharacter,
  withoutDone,
  withoutUsage,
} from '../support/fake-upstream.ts';

const upstream = startFakeUpstream();
afterAll(() => upstream.stop());
beforeEach(() => upstream.reset());

const question = [
  { role: 'system', content: 'be brief' },
  { role: 'user', content: [{ type: 'text', text: 'how are you' }] },
];

function post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  const text = JSON.stringify(body);
  return fetch(`${upstream.url}${path}`, { method: 'POST', headers, body: text, ...init });
}

interface Ask {
  readonly behavior?: Behavior;
  readonly path?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Asks model "m" and gives back the status, the body and the finished entry of the book. */
async function ask({ behavior, path = '/v1/chat/completions', extra = {} }: Ask) {
  if (behavior !== undefined) upstream.script('m', behavior);
  const reply = await post(path, { model: 'm', messages: question, ...extra });
  const text = await reply.text();
  const last = await upstream.until((requests) => {
    const entry = requests[requests.length - 1];
    return entry?.finishedAt ? entry : undefined;
  });
  return { reply, text, entry: last };
}

/** The payloads of an event stream in its plainest spelling. */
function payloads(text: string): readonly string[] {
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.replace(/^[\s\S]*?data: /, ''));
}

const streamed = { stream: true };
const withUsage = { stream: true, stream_options: { include_usage: true } };

test('an unscripted model says ok and counts words as tokens', async () => {
  const { text, entry } = await ask({});
  expect(JSON.parse(text)).toMatchObject({
    object: 'chat.completion',
    model: 'm',
    choices: [{ message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  });
  expect(entry).toMatchObject({
    method: 'POST',
    path: '/v1/chat/completions',
    json: { model: 'm', messages: question },
    status: 200,
    text: 'ok',
    tokens: { prompt: 5, completion: 1 },
    outcome: 'complete',
  });
  expect(entry.headers['content-type']).toBe('application/json');
});

test('a stream carries its usage only when it was asked to', async () => {
  const behavior = chatAnswer('Hello there you', { cachedTokens: 2, reasoning: 'so I think' });
  const silent = await ask({ behavior, extra: streamed });
  expect(silent.text).not.toContain('usage');
  expect(silent.entry).toMatchObject({ usageSent: undefined, tokens: { completion: 6 } });
  const told = await ask({ behavior, extra: withUsage });
  const chunks = payloads(told.text);
  expect(chunks.at(-1)).toBe('[DONE]');
  expect(JSON.parse(chunks.at(-2) ?? '')).toMatchObject({
    choices: [],
    usage: {
      prompt_tokens: 5,
      completion_tokens: 6,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 3 },
    },
  });
  expect(JSON.parse(chunks.at(-3) ?? '')).toMatchObject({
    usage: null,
    choices: [{ delta: {}, finish_reason: 'stop' }],
  });
  // Role, three thoughts, three words, finish, usage, [DONE].
  expect(told.entry).toMatchObject({ eventsSent: 10, text: 'Hello there you' });
});

test('the text of a stream is complete whatever its number of pieces', async () => {
  const spoken = 'Ünïcode 😀 text, twice  spaced.';
  for (const chunks of [1, 3, 1000]) {
    const { text, entry } = await ask({
      behavior: chatAnswer(spoken, { chunks }),
      extra: streamed,
    });
    const deltas = payloads(text)
      .slice(0, -1)
      .map((data) => JSON.parse(data).choices[0].delta.content ?? '');
    expect(deltas.join('')).toBe(spoken);
    expect(entry).toMatchObject({ text: spoken, tokens: { completion: 5 } });
  }
});

test('a usage can be overridden, absent or nonsense, and the book knows it', async () => {
  const usage = { prompt: 1000, completion: 7 };
  const override = await ask({ behavior: chatAnswer('one', { usage }), extra: withUsage });
  expect(override.entry.tokens).toEqual(usage);
  const none = await ask({ behavior: withoutUsage(chatAnswer('one two')), extra: withUsage });
  expect(none.text).not.toContain('prompt_tokens');
  expect(none.entry).toMatchObject({ usageSent: undefined, tokens: { prompt: 5, completion: 2 } });
  const odd = { prompt_tokens: -3, completion_tokens: 'many' };
  const weird = await ask({ behavior: rawUsage(odd, chatAnswer('one two')) });
  expect(JSON.parse(weird.text).usage).toEqual(odd);
  expect(weird.entry).toMatchObject({ usageSent: odd, tokens: { prompt: -3, completion: 2 } });
});

test('parallel tool calls come in fragments and add up', async () => {
  const tools = [
    { name: 'weather', arguments: { city: 'Zürich "old town"' } },
    { name: 'time', arguments: '{}', id: '' },
  ];
  const { text, entry } = await ask({ behavior: callTools(tools), extra: streamed });
  const calls: { name: string; id: string; args: string }[] = [];
  for (const data of payloads(text).slice(0, -1)) {
    for (const call of JSON.parse(data).choices[0].delta.tool_calls ?? []) {
      calls[call.index] ??= { name: call.function.name, id: call.id, args: '' };
      const known = calls[call.index];
      if (known !== undefined) known.args += call.function.arguments;
    }
  }
  expect(calls).toEqual([
    { name: 'weather', id: 'call_fake_0', args: '{"city":"Zürich \\"old town\\""}' },
    { name: 'time', id: '', args: '{}' },
  ]);
  expect(text).toContain('"finish_reason":"tool_calls"');
  expect(entry.tokens.completion).toBe(6);
});

test('the Anthropic variant sends thinking, text and tools as blocks', async () => {
  const tools = [{ name: 'look', arguments: { a: 1 } }];
  const options = { text: 'I look', reasoning: 'hm well', cachedTokens: 4 };
  const path = '/v1/messages';
  const extra = { stream: true, system: 'speak plainly' };
  const behavior = callTools(tools, options);
  const { text, entry } = await ask({ behavior, path, extra });
  const names = [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
  expect(names.slice(0, 3)).toEqual(['message_start', 'ping', 'content_block_start']);
  expect(names.slice(-2)).toEqual(['message_delta', 'message_stop']);
  const usage = { input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 6 };
  expect(JSON.parse(payloads(text).at(-2) ?? '')).toMatchObject({
    delta: { stop_reason: 'tool_use' },
    usage,
  });
  expect(entry).toMatchObject({ text: 'I look', tokens: { prompt: 7, completion: 6 } });
  const whole = await ask({ behavior, path, extra: { system: 'speak plainly' } });
  expect(JSON.parse(whole.text)).toMatchObject({
    type: 'message',
    content: [
      { type: 'thinking', thinking: 'hm well' },
      { type: 'text', text: 'I look' },
      { type: 'tool_use', name: 'look', input: { a: 1 } },
    ],
    usage,
  });
  expect(whole.entry.tokens).toEqual(entry.tokens);
});

test('the Anthropic variant counts words; its book keeps the number but no tokens', async () => {
  const path = '/v1/messages/count_tokens';
  const counted = await ask({ path, extra: { system: 'speak plainly' } });
  expect(JSON.parse(counted.text)).toEqual({ input_tokens: 7 });
  expect(counted.entry).toMatchObject({ path, text: '7', tokens: { prompt: 0, completion: 0 } });
  const told = await ask({ path, behavior: chatAnswer('unsaid', { usage: { prompt: 99 } }) });
  expect(JSON.parse(told.text)).toEqual({ input_tokens: 99 });
  const refused = await ask({ path, behavior: status(400, 'no') });
  expect(JSON.parse(refused.text)).toMatchObject({ type: 'error', error: { message: 'no' } });
});

test('the end of a stream can be missing, doubled or followed by more', async () => {
  const missing = await ask({ behavior: withoutDone(), extra: streamed });
  expect(missing.text).toContain('"finish_reason":"stop"');
  expect(missing.text).not.toContain('[DONE]');
  const twice = await ask({ behavior: doneTwice(), extra: streamed });
  expect(payloads(twice.text).slice(-2)).toEqual(['[DONE]', '[DONE]']);
  const after = await ask({ behavior: dataAfterDone(), extra: streamed });
  expect(payloads(after.text).at(-2)).toBe('[DONE]');
  expect(payloads(after.text).at(-1)).toContain('too late');
  expect(after.entry.text).toBe('all said');
});

test('errors inside a 200 end the answer in the words of its endpoint', async () => {
  const data = await ask({ behavior: errorInside200(2), extra: streamed });
  expect(payloads(data.text)).toHaveLength(3);
  expect(payloads(data.text)[2]).toStartWith('{"error":{');
  expect(data.text).not.toContain('event: error');
  const named = await ask({ behavior: errorInside200(2, 'event'), extra: streamed });
  expect(named.text).toContain('event: error\ndata: {"error":{');
  const path = '/v1/messages';
  const anthropic = await ask({ behavior: errorInside200(3), path, extra: streamed });
  expect(anthropic.text).toContain('event: error\ndata: {"type":"error","error":{"type":"overl');
  const whole = await ask({ behavior: errorInside200() });
  expect(whole.reply.status).toBe(200);
  expect(JSON.parse(whole.text)).toHaveProperty('error.message');
});

test('one malformed event or half a character does not end the stream', async () => {
  const malformed = await ask({ behavior: malformedSse(2), extra: streamed });
  expect(() => JSON.parse(payloads(malformed.text)[2] ?? '')).toThrow();
  expect(payloads(malformed.text).at(-1)).toBe('[DONE]');
  upstream.script('m', unfinishedCharacter(1));
  const reply = await post('/v1/chat/completions', { model: 'm', stream: true });
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect(bytes.includes(Buffer.from([0xf0, 0x9f, 0x22]))).toBe(true);
});

test('every spelling of server-sent events says the same words', async () => {
  const plain = await ask({ behavior: chatAnswer('a b'), extra: streamed });
  const crlf = await ask({
    behavior: sseSyntax({ lineEnd: '\r\n' }, chatAnswer('a b')),
    extra: streamed,
  });
  const anyId = (text: string) => text.replaceAll(/fake-\d+/g, 'fake');
  expect(anyId(crlf.text.replaceAll('\r\n', '\n'))).toBe(anyId(plain.text));
  const syntax = {
    lineEnd: '\r',
    noSpace: true,
    comments: true,
    manyDataLines: true,
    oddFields: true,
    byteOrderMark: true,
  } as const;
  upstream.script('m', sseSyntax(syntax, chatAnswer('a b')));
  const reply = await post('/v1/chat/completions', { model: 'm', stream: true });
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect([...bytes.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
  expect(bytes.toString()).toContain('\rid:7\rretry:3000\runknown-name:1\rdata:{\rdata:"id"');
  expect(bytes.includes('\n')).toBe(false);
});

test('many tiny events are counted one by one', async () => {
  const { text, entry } = await ask({ behavior: manyTinyEvents(10_000), extra: withUsage });
  expect(payloads(text)).toHaveLength(10_004);
  expect(entry).toMatchObject({ eventsSent: 10_004, tokens: { completion: 10_000 } });
});

test('errors have the status, headers and shape of the endpoint', async () => {
  const limited = await ask({ behavior: status429('7') });
  expect(limited.reply.status).toBe(429);
  expect(limited.reply.headers.get('retry-after')).toBe('7');
  expect(JSON.parse(limited.text).error.type).toBe('rate_limit_error');
  expect((await ask({ behavior: status500() })).reply.status).toBe(500);
  const overloaded = await ask({ behavior: status(529), path: '/v1/messages' });
  expect(JSON.parse(overloaded.text)).toMatchObject({
    type: 'error',
    error: { type: 'overloaded_error' },
  });
  expect((await ask({ behavior: chatAnswer('x'), path: '/v1/nowhere' })).reply.status).toBe(404);
});

test('replies of the wrong kind keep their status 200', async () => {
  const page = await ask({ behavior: htmlWith200(), extra: streamed });
  expect(page.reply.headers.get('content-type')).toStartWith('text/html');
  const whole = await ask({ behavior: jsonForStream(), extra: streamed });
  expect(JSON.parse(whole.text).object).toBe('chat.completion');
  const stream = await ask({ behavior: sseForJson() });
  expect(stream.text).toEndWith('data: [DONE]\n\n');
  const empty = await ask({ behavior: emptyBody() });
  expect([empty.reply.status, empty.text]).toEqual([200, '']);
  const custom = await ask({ behavior: json(418, { a: 1 }, { 'x-a': 'b' }) });
  expect([custom.reply.status, custom.text, custom.reply.headers.get('x-a')]).toEqual([
    418,
    '{"a":1}',
    'b',
  ]);
});
