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

interface SendOptions {
  readonly behavior?: Behavior;
  readonly path?: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Sends a request to model "m" and returns the response, its body, and the recorded entry. */
async function send({ behavior, path = '/v1/chat/completions', extra = {} }: SendOptions) {
  if (behavior !== undefined) upstream.script('m', behavior);
  const reply = await post(path, { model: 'm', messages: question, ...extra });
  const text = await reply.text();
  const last = await upstream.until((requests) => {
    const entry = requests[requests.length - 1];
    return entry?.finishedAt ? entry : undefined;
  });
  return { reply, text, entry: last };
}

/** Returns the data of the events in a stream that uses only the simplest syntax. */
function payloads(text: string): readonly string[] {
  return text
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.replace(/^[\s\S]*?data: /, ''));
}

const streaming = { stream: true };
const withUsage = { stream: true, stream_options: { include_usage: true } };

test('FakeUpstream answers "ok" for a model without a script, and counts words as tokens', async () => {
  const { text, entry } = await send({});
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

test('FakeUpstream streams usage only on request', async () => {
  const behavior = chatAnswer('Hello there you', { cachedTokens: 2, reasoning: 'so I think' });
  const without = await send({ behavior, extra: streaming });
  expect(without.text).not.toContain('usage');
  expect(without.entry).toMatchObject({ usageSent: undefined, tokens: { completion: 6 } });
  const reported = await send({ behavior, extra: withUsage });
  const chunks = payloads(reported.text);
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
  // Role, 3 reasoning deltas, 3 text deltas, finish, usage, [DONE].
  expect(reported.entry).toMatchObject({ eventsSent: 10, text: 'Hello there you' });
});

test('FakeUpstream streams the full text in any number of chunks', async () => {
  const content = 'Ünïcode 😀 text, twice  spaced.';
  for (const chunks of [1, 3, 1000]) {
    const { text, entry } = await send({
      behavior: chatAnswer(content, { chunks }),
      extra: streaming,
    });
    const deltas = payloads(text)
      .slice(0, -1)
      .map((data) => JSON.parse(data).choices[0].delta.content ?? '');
    expect(deltas.join('')).toBe(content);
    expect(entry).toMatchObject({ text: content, tokens: { completion: 5 } });
  }
});

test('FakeUpstream records usage that is overridden, missing, or invalid', async () => {
  const usage = { prompt: 1000, completion: 7 };
  const override = await send({ behavior: chatAnswer('one', { usage }), extra: withUsage });
  expect(override.entry.tokens).toEqual(usage);
  const none = await send({ behavior: withoutUsage(chatAnswer('one two')), extra: withUsage });
  expect(none.text).not.toContain('prompt_tokens');
  expect(none.entry).toMatchObject({ usageSent: undefined, tokens: { prompt: 5, completion: 2 } });
  const invalidUsage = { prompt_tokens: -3, completion_tokens: 'many' };
  const invalid = await send({ behavior: rawUsage(invalidUsage, chatAnswer('one two')) });
  expect(JSON.parse(invalid.text).usage).toEqual(invalidUsage);
  expect(invalid.entry).toMatchObject({
    usageSent: invalidUsage,
    tokens: { prompt: -3, completion: 2 },
  });
});

test('FakeUpstream streams parallel tool calls in fragments', async () => {
  const tools = [
    { name: 'weather', arguments: { city: 'Zürich "old town"' } },
    { name: 'time', arguments: '{}', id: '' },
  ];
  const { text, entry } = await send({ behavior: callTools(tools), extra: streaming });
  const calls: { name: string; id: string; args: string }[] = [];
  for (const data of payloads(text).slice(0, -1)) {
    for (const call of JSON.parse(data).choices[0].delta.tool_calls ?? []) {
      calls[call.index] ??= { name: call.function.name, id: call.id, args: '' };
      const current = calls[call.index];
      if (current !== undefined) current.args += call.function.arguments;
    }
  }
  expect(calls).toEqual([
    { name: 'weather', id: 'call_fake_0', args: '{"city":"Zürich \\"old town\\""}' },
    { name: 'time', id: '', args: '{}' },
  ]);
  expect(text).toContain('"finish_reason":"tool_calls"');
  expect(entry.tokens.completion).toBe(6);
});

test('FakeUpstream answers Anthropic requests with thinking, text, and tool blocks', async () => {
  const tools = [{ name: 'look', arguments: { a: 1 } }];
  const options = { text: 'I look', reasoning: 'hm well', cachedTokens: 4 };
  const path = '/v1/messages';
  const extra = { stream: true, system: 'speak plainly' };
  const behavior = callTools(tools, options);
  const { text, entry } = await send({ behavior, path, extra });
  const names = [...text.matchAll(/^event: (.*)$/gm)].map((match) => match[1]);
  expect(names.slice(0, 3)).toEqual(['message_start', 'ping', 'content_block_start']);
  expect(names.slice(-2)).toEqual(['message_delta', 'message_stop']);
  const usage = { input_tokens: 3, cache_read_input_tokens: 4, output_tokens: 6 };
  expect(JSON.parse(payloads(text).at(-2) ?? '')).toMatchObject({
    delta: { stop_reason: 'tool_use' },
    usage,
  });
  expect(entry).toMatchObject({ text: 'I look', tokens: { prompt: 7, completion: 6 } });
  const reply = await send({ behavior, path, extra: { system: 'speak plainly' } });
  expect(JSON.parse(reply.text)).toMatchObject({
    type: 'message',
    content: [
      { type: 'thinking', thinking: 'hm well' },
      { type: 'text', text: 'I look' },
      { type: 'tool_use', name: 'look', input: { a: 1 } },
    ],
    usage,
  });
  expect(reply.entry.tokens).toEqual(entry.tokens);
});

test('FakeUpstream counts tokens for Anthropic requests, without recording usage', async () => {
  const path = '/v1/messages/count_tokens';
  const counted = await send({ path, extra: { system: 'speak plainly' } });
  expect(JSON.parse(counted.text)).toEqual({ input_tokens: 7 });
  expect(counted.entry).toMatchObject({ path, text: '7', tokens: { prompt: 0, completion: 0 } });
  const overridden = await send({
    path,
    behavior: chatAnswer('unused', { usage: { prompt: 99 } }),
  });
  expect(JSON.parse(overridden.text)).toEqual({ input_tokens: 99 });
  const refused = await send({ path, behavior: status(400, 'no') });
  expect(JSON.parse(refused.text)).toMatchObject({ type: 'error', error: { message: 'no' } });
});

test('FakeUpstream can omit or repeat [DONE], or send data after it', async () => {
  const missing = await send({ behavior: withoutDone(), extra: streaming });
  expect(missing.text).toContain('"finish_reason":"stop"');
  expect(missing.text).not.toContain('[DONE]');
  const twice = await send({ behavior: doneTwice(), extra: streaming });
  expect(payloads(twice.text).slice(-2)).toEqual(['[DONE]', '[DONE]']);
  const after = await send({ behavior: dataAfterDone(), extra: streaming });
  expect(payloads(after.text).at(-2)).toBe('[DONE]');
  expect(payloads(after.text).at(-1)).toContain('too late');
  expect(after.entry.text).toBe('complete');
});

test("FakeUpstream can end a 200 stream with an error in the endpoint's format", async () => {
  const data = await send({ behavior: errorInside200(2), extra: streaming });
  expect(payloads(data.text)).toHaveLength(3);
  expect(payloads(data.text)[2]).toStartWith('{"error":{');
  expect(data.text).not.toContain('event: error');
  const named = await send({ behavior: errorInside200(2, 'event'), extra: streaming });
  expect(named.text).toContain('event: error\ndata: {"error":{');
  const path = '/v1/messages';
  const anthropic = await send({ behavior: errorInside200(3), path, extra: streaming });
  expect(anthropic.text).toContain('event: error\ndata: {"type":"error","error":{"type":"overl');
  const reply = await send({ behavior: errorInside200() });
  expect(reply.reply.status).toBe(200);
  expect(JSON.parse(reply.text)).toHaveProperty('error.message');
});

test('FakeUpstream continues a stream after a malformed event or half a character', async () => {
  const malformed = await send({ behavior: malformedSse(2), extra: streaming });
  expect(() => JSON.parse(payloads(malformed.text)[2] ?? '')).toThrow();
  expect(payloads(malformed.text).at(-1)).toBe('[DONE]');
  upstream.script('m', unfinishedCharacter(1));
  const reply = await post('/v1/chat/completions', { model: 'm', stream: true });
  const bytes = Buffer.from(await reply.arrayBuffer());
  expect(bytes.includes(Buffer.from([0xf0, 0x9f, 0x22]))).toBe(true);
});

test('FakeUpstream streams the same content in every event syntax', async () => {
  const plain = await send({ behavior: chatAnswer('a b'), extra: streaming });
  const crlf = await send({
    behavior: sseSyntax({ lineEnd: '\r\n' }, chatAnswer('a b')),
    extra: streaming,
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

test('FakeUpstream counts many tiny events', async () => {
  const { text, entry } = await send({ behavior: manyTinyEvents(10_000), extra: withUsage });
  expect(payloads(text)).toHaveLength(10_004);
  expect(entry).toMatchObject({ eventsSent: 10_004, tokens: { completion: 10_000 } });
});

test('FakeUpstream sends errors with the status, headers, and format of the endpoint', async () => {
  const limited = await send({ behavior: status429('7') });
  expect(limited.reply.status).toBe(429);
  expect(limited.reply.headers.get('retry-after')).toBe('7');
  expect(JSON.parse(limited.text).error.type).toBe('rate_limit_error');
  expect((await send({ behavior: status500() })).reply.status).toBe(500);
  const overloaded = await send({ behavior: status(529), path: '/v1/messages' });
  expect(JSON.parse(overloaded.text)).toMatchObject({
    type: 'error',
    error: { type: 'overloaded_error' },
  });
  expect((await send({ behavior: chatAnswer('x'), path: '/v1/nowhere' })).reply.status).toBe(404);
});

test('FakeUpstream sends answers of the wrong type with status 200', async () => {
  const page = await send({ behavior: htmlWith200(), extra: streaming });
  expect(page.reply.headers.get('content-type')).toStartWith('text/html');
  const reply = await send({ behavior: jsonForStream(), extra: streaming });
  expect(JSON.parse(reply.text).object).toBe('chat.completion');
  const stream = await send({ behavior: sseForJson() });
  expect(stream.text).toEndWith('data: [DONE]\n\n');
  const empty = await send({ behavior: emptyBody() });
  expect([empty.reply.status, empty.text]).toEqual([200, '']);
  const custom = await send({ behavior: json(418, { a: 1 }, { 'x-a': 'b' }) });
  expect([custom.reply.status, custom.text, custom.reply.headers.get('x-a')]).toEqual([
    418,
    '{"a":1}',
    'b',
  ]);
});
