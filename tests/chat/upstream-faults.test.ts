import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import {
  answerEarly,
  type Behavior,
  chatAnswer,
  compressionBomb,
  cutMidStream,
  emptyBody,
  encoded,
  endlessHeaders,
  htmlWith200,
  hugeEvent,
  interimReplies,
  json,
  manyTinyEvents,
  rawUsage,
  redirect,
  replay,
  resetBeforeHeaders,
  setCookieAndOddHeaders,
  slowDrip,
  splitCharacters,
  sseForJson,
  startFakeUpstream,
  status,
  truncatedJson,
  unfinishedCharacter,
  untilClose,
  wrongContentLength,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';

// Upstream faults, and what the client receives for each of them.

const upstream = startFakeUpstream();
const otherServer = startFakeUpstream();
/** A separate upstream. The gateway stops reusing connections to one that often closes them. */
const steady = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const base = {
    dialect: 'openai',
    base_url: `${upstream.url}/v1`,
    api_key: 'sk-theirs-0123456789',
  };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      vendor: { ...base, headers: { 'x-operator': 'yes' } },
      steady: { ...base, base_url: `${steady.url}/v1` },
    },
    models: [
      chatModel('acme/chat', [{ provider: 'vendor', model: 'vendor-model' }]),
      chatModel('acme/steady', [{ provider: 'steady', model: 'steady-model' }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  otherServer.stop();
  steady.stop();
});
beforeEach(() => {
  upstream.reset();
  otherServer.reset();
  steady.reset();
});

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hello' }] };

function play(behavior: Behavior): void {
  upstream.script('vendor-model', behavior);
}

/** Checks that the gateway still answers a plain request. */
async function expectRecovery(): Promise<void> {
  play(chatAnswer('well again'));
  expect(contentOf(await gateway.post(chat))).toBe('well again');
}

const rss = () => process.memoryUsage.rss();
const megabyte = 1024 * 1024;

describe('an unusable answer', () => {
  const broken: [string, Behavior][] = [
    ['an empty body', emptyBody()],
    ['204 without a body', emptyBody(204)],
    ['an HTML page with status 200', htmlWith200()],
    ['a JSON array', json(200, [1, 2, 3])],
    ['a JSON object that is not an answer', json(200, { hello: 'there' })],
    ['an error with status 200', json(200, { error: { message: 'inside', code: 500 } })],
    ['gzip that was not requested', encoded(['gzip'])],
    [
      'a content encoding in mixed case',
      json(200, completion('no'), { 'content-encoding': 'X-GZip' }),
    ],
    ['zstd compression', json(200, completion('no'), { 'content-encoding': 'zstd' })],
    ['6 layers of compression', encoded(['gzip', 'br', 'gzip', 'deflate', 'br', 'gzip'])],
    ['endless headers', endlessHeaders(4 * megabyte)],
    ['a connection closed inside a chunk', cutMidStream(0, 'mid-chunk')],
    ['a redirect without Location', status(302)],
  ];
  for (const stream of [false, true]) {
    test.each(broken)(
      `is 502 for a ${stream ? 'streaming' : 'non-streaming'} request: %s`,
      async (_, behavior) => {
        play(behavior);
        const reply = await gateway.post({ ...chat, stream });
        expect(reply.status).toBe(502);
        expect(reply.error).toMatchObject({ type: 'upstream_error', code: 502, param: null });
        expect(reply.headers.get('content-type')).toBe('application/json');
        expect(reply.text).not.toMatch(/<html|chatcmpl-fake|vendor-model|sk-theirs/);
        expect(upstream.requests).toHaveLength(1);
        await expectRecovery();
      },
    );
  }

  test('is 502 or an unfinished stream if it is shorter than its Content-Length', async () => {
    play(wrongContentLength(50));
    expect((await gateway.post(chat)).status).toBe(502);
    play(wrongContentLength(50, cutMidStream(4, 'connection')));
    expect((await gateway.stream(chat)).doneCount).toBe(0);
  });

  test('is 502 if it is a stream but the client requested JSON', async () => {
    play(sseForJson());
    expect((await gateway.post(chat)).status).toBe(502);
  });

  test('keeps the error in a JSON body even if the client requested a stream', async () => {
    const error = { message: 'too long', code: 'context_length_exceeded' };
    play(json(200, { error }));
    const reply = await gateway.post({ ...chat, stream: true });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toBe('too long');
  });

  test('is 502 if its JSON is truncated at any byte', async () => {
    const complete = JSON.stringify({
      id: 'x',
      choices: [
        { index: 0, message: { role: 'assistant', content: 'é日' }, finish_reason: 'stop' },
      ],
    });
    for (let index = 0; index < Buffer.byteLength(complete); index++) {
      play(truncatedJson(index, replay(complete)));
      expect((await gateway.post(chat)).status).toBe(502);
    }
    for (const contentType of ['application/json', 'text/event-stream; charset=utf-8']) {
      play(replay(complete, { contentType }));
      expect(contentOf(await gateway.post(chat))).toBe('é日');
    }
  });

  test('never ends with [DONE] if the stream ends before its finish reason', async () => {
    play(chatAnswer('one two'));
    const full = (await gateway.stream(chat)).text;
    const finishAt = full.indexOf('"finish_reason":"stop"');
    const source = replay(full.replaceAll('acme/chat', 'vendor-model'), {
      contentType: 'text/event-stream',
    });
    for (let index = 1; index < full.length; index += 7) {
      play(truncatedJson(index, source));
      const stream = await gateway.stream(chat);
      if (index < finishAt) expect([stream.doneCount, index]).toEqual([0, index]);
      expect(stream.doneCount === 1).toBe(stream.finishReasons.includes('stop'));
    }
  });
});

describe('an unusual but usable answer', () => {
  const usable: [string, Behavior, string][] = [
    ['interim responses before the final one', interimReplies(500), 'ok'],
    ['no Content-Length and no chunked encoding', untilClose(), 'ok'],
    ['characters split across packets', splitCharacters(), 'naïve 日本 😀 café'],
    ['one byte at a time', slowDrip(1, 0), 'ok'],
  ];
  for (const stream of [false, true]) {
    test.each(usable)(
      `is accepted for a ${stream ? 'streaming' : 'non-streaming'} request: %s`,
      async (_, behavior, text) => {
        play(behavior);
        const body = { ...chat, stream };
        const content = stream
          ? (await gateway.stream(body)).content
          : contentOf(await gateway.post(body));
        expect(content).toBe(text);
      },
    );
  }

  test('is accepted with capital letters in content type and encoding', async () => {
    const headers = { 'content-encoding': 'Identity' };
    const chunk = {
      id: 'x',
      choices: [{ index: 0, delta: { content: 'loud' }, finish_reason: 'stop' }],
    };
    const events = `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
    play(replay(events, { contentType: 'Text/Event-Stream; Charset=UTF-8', headers }));
    expect(await gateway.stream(chat)).toMatchObject({ content: 'loud', doneCount: 1 });
    play(replay(JSON.stringify(completion('loud')), { contentType: 'Application/JSON', headers }));
    expect(contentOf(await gateway.post(chat))).toBe('loud');
  });

  test('is accepted with status 201, 202, or 203', async () => {
    for (const code of [201, 202, 203]) {
      play(json(code, completion('made')));
      expect(contentOf(await gateway.post(chat))).toBe('made');
      const choices = [{ index: 0, delta: { content: 'made' }, finish_reason: 'stop' }];
      const events = `data: ${JSON.stringify({ id: 'x', choices })}\n\ndata: [DONE]\n\n`;
      play(replay(events, { status: code, contentType: 'text/event-stream' }));
      expect(await gateway.stream(chat)).toMatchObject({ content: 'made', doneCount: 1 });
    }
  });

  test('is accepted with a content encoding that does not compress', async () => {
    for (const encoding of ['utf-8', 'identity, identity', 'none', '']) {
      play(json(200, completion('unpacked'), { 'content-encoding': encoding }));
      expect(contentOf(await gateway.post(chat))).toBe('unpacked');
    }
  });

  test.each([
    ['as plain text', 'text/plain', ''],
    ['as JSON, after a comment', 'application/json', ': wait\n\n'],
    ['as bytes, after empty lines', 'application/octet-stream', '\n\n\n'],
  ])('is accepted if a stream is labeled %s', async (_, contentType, before) => {
    const choices = [{ index: 0, delta: { content: 'plain' }, finish_reason: 'stop' }];
    const events = `${before}data: ${JSON.stringify({ id: 'x', choices })}\n\ndata: [DONE]\n\n`;
    for (const piece of ['whole', 'byte by byte'] as const) {
      play(replay(events, { contentType, piece }));
      expect(await gateway.stream(chat)).toMatchObject({ content: 'plain', doneCount: 1 });
    }
  });

  test('has a replacement character for an incomplete character in a string', async () => {
    play(unfinishedCharacter(3));
    const stream = await gateway.stream(chat);
    expect(stream.content).toContain('half \ufffd');
    expect(stream.doneCount).toBe(1);
  });

  test('does not break the gateway if it is sent before the request body is read', async () => {
    upstream.script('/v1/chat/completions', answerEarly(json(200, completion('early'))));
    const content = 'x'.repeat(4 * megabyte);
    const reply = await gateway.post({ ...chat, messages: [{ role: 'user', content }] });
    expect([200, 502]).toContain(reply.status);
    upstream.reset();
    await expectRecovery();
  });
});

function completion(content: string): object {
  const message = { role: 'assistant', content };
  return { id: 'x', choices: [{ index: 0, message, finish_reason: 'stop' }] };
}

describe('HTTP headers', () => {
  test('of the upstream are not passed to the client', async () => {
    play(setCookieAndOddHeaders());
    for (const stream of [false, true]) {
      const response = await gateway.fetch({ ...chat, stream });
      expect(response.status).toBe(200);
      await response.text();
      const text = JSON.stringify([...response.headers.entries()]);
      expect(text).not.toMatch(/upstream|secret|x-hop|fake|x-odd|strict-transport|remaining-req/);
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  test('of the client, including its key, are not passed to the upstream', async () => {
    play(chatAnswer('ok'));
    await gateway.post(chat, {
      headers: {
        cookie: 'session=1',
        'x-forwarded-for': '10.0.0.1',
        'x-internal-admin': 'true',
        'x-openai-host': otherServer.url,
        'helicone-target-url': otherServer.url,
        'openai-organization': 'org-1',
        'anthropic-beta': 'x',
        referer: 'https://app.example/secret',
        'x-title': 'My App',
        'accept-encoding': 'gzip, br, zstd',
        'user-agent': 'the-client/1.0',
      },
    });
    const headers = upstream.requests[0]?.headers ?? {};
    expect(Object.keys(headers).sort()).toEqual([
      'accept',
      'accept-encoding',
      'authorization',
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'x-operator',
    ]);
    expect(headers.authorization).toBe('Bearer sk-theirs-0123456789');
    expect(headers['accept-encoding']).toBe('identity');
    expect(headers['user-agent']).toBe('tollgate');
    expect(JSON.stringify(headers)).not.toContain(gateway.keys.routing);
  });
});

describe('the address that a request is sent to', () => {
  const fieldNames = ['api_base', 'base_url', 'baseURL', 'custom_host', 'host', 'url', 'endpoint'];

  test('cannot be changed by fields of the request body', async () => {
    play(chatAnswer('ok'));
    const overrides = Object.fromEntries(fieldNames.map((name) => [name, `${otherServer.url}/v1`]));
    const nested = { extra_body: overrides, metadata: { deep: [{ ...overrides }] }, ...overrides };
    for (const body of [
      { ...chat, ...nested },
      { ...chat, ...nested, api_key: 'sk-mine' },
    ]) {
      expect((await gateway.post(body)).status).toBe(200);
    }
    expect(otherServer.requests).toHaveLength(0);
    expect(upstream.requests).toHaveLength(2);
  });

  test.each([301, 302, 303, 307, 308])('is not changed by a %d redirect', async (code) => {
    play(redirect(`${otherServer.url}/v1/chat/completions`, code));
    for (const stream of [false, true]) {
      const reply = await gateway.post({ ...chat, stream });
      expect(reply.status).toBe(502);
      expect(reply.text).not.toContain(otherServer.url);
    }
    expect(otherServer.requests).toHaveLength(0);
  });
});

test('passes on the param of a provider error if it is a field path', async () => {
  const rejection = (param: unknown) => json(400, { error: { message: 'Too hot.', param } });
  const paramFor = async (param: unknown) => {
    play(rejection(param));
    const { status: code, error } = await gateway.post({ ...chat, stream: true });
    expect([code, error.message]).toEqual([400, 'Too hot.']);
    return error.param;
  };
  expect(await paramFor('temperature')).toBe('temperature');
  expect(await paramFor('messages[0].content')).toBe('messages[0].content');
  expect(await paramFor('what the user said')).toBeNull();
});

describe('the size of an answer', () => {
  test('is limited even if the answer is a compression bomb', async () => {
    play(compressionBomb(300 * megabyte));
    const before = rss();
    expect((await gateway.post(chat)).status).toBe(502);
    expect(rss() - before).toBeLessThan(50 * megabyte);
  });

  test('is limited for an endless event, which aborts the upstream call', async () => {
    play(hugeEvent(200 * megabyte));
    const before = rss();
    expect((await gateway.post({ ...chat, stream: true })).status).toBe(502);
    const entry = await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(entry.bytesSent).toBeLessThan(40 * megabyte);
    expect(rss() - before).toBeLessThan(100 * megabyte);
  });

  test('is limited for endless comments, which abort the upstream call', async () => {
    const comments = Buffer.alloc(40 * megabyte, `: ${'x'.repeat(1_021)}\n`);
    play(replay(comments, { contentType: 'text/event-stream' }));
    expect((await gateway.post({ ...chat, stream: true })).error).toMatchObject({ code: 502 });
    const entry = await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(entry.bytesSent).toBeLessThan(40 * megabyte);
    await expectRecovery();
  });

  test('is limited for a non-streaming answer, which fails with 502', async () => {
    const filler = Buffer.alloc(80 * megabyte, ' ');
    play(replay(filler, { streamed: true }));
    expect((await gateway.post(chat)).status).toBe(502);
  });

  test('does not hide the status of an error page that is too long', async () => {
    const page = Buffer.alloc(2 * megabyte, 'x');
    play(replay(page, { status: 429, contentType: 'text/html', headers: { 'retry-after': '3' } }));
    const reply = await gateway.post(chat);
    expect(reply.status).toBe(429);
    expect(reply.headers.get('retry-after')).toBe('3');
  });

  test('does not hide the status of a compressed error', async () => {
    play(encoded(['gzip'], status(429, 'slow down', { 'retry-after': '4' })));
    const reply = await gateway.post(chat);
    expect(reply.status).toBe(429);
    expect(reply.headers.get('retry-after')).toBe('4');
  });

  test('may consist of 50,000 tiny events', async () => {
    play(manyTinyEvents(50_000));
    const stream = await gateway.stream(chat);
    expect(stream.content).toBe('x '.repeat(50_000));
    expect(stream.doneCount).toBe(1);
  });
});

describe('implausible usage', () => {
  test.each([
    ['negative', { prompt_tokens: -5, completion_tokens: 3, total_tokens: -2 }],
    ['fractional', { prompt_tokens: 1.5, completion_tokens: 3, total_tokens: 4.5 }],
    ['absurdly high', { prompt_tokens: 1e15, completion_tokens: 1, total_tokens: 1e15 }],
    ['strings', { prompt_tokens: '12', completion_tokens: 'many' }],
    ['objects and arrays', { prompt_tokens: {}, completion_tokens: [] }],
    ['all zero', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ['empty', {}],
  ])('is replaced by an estimate: %s', async (_, usage) => {
    play(rawUsage(usage, chatAnswer('abcdefgh')));
    for (const stream of [false, true]) {
      const body = { ...chat, stream, stream_options: { include_usage: true } };
      const answer = stream ? await gateway.stream(body) : await gateway.post(body);
      const reported = 'content' in answer ? answer.usage : answer.json.usage;
      expect(isObject(reported) && reported.completion_tokens).toBe(2);
      const record = await gateway.record(answer.requestId);
      expect(record).toMatchObject({ usageEstimated: true, status: 'success' });
      expect(record.usage.outputTokens).toBe(2);
    }
  });
});

describe('an upstream connection reset during a request', () => {
  test.each([false, true])(
    'returns 502 if a new connection is also reset, stream: %p',
    async (stream) => {
      play(resetBeforeHeaders());
      const reply = await gateway.post({ ...chat, stream });
      expect(reply.status).toBe(502);
      expect(reply.error).toMatchObject({ type: 'upstream_error', code: 502, param: null });
      await expectRecovery();
    },
  );

  test.each([false, true])(
    'sends a request once if the upstream reads it and resets an idle connection, stream: %p',
    async (stream) => {
      steady.script('steady-model', [
        chatAnswer('warm'),
        resetBeforeHeaders(),
        chatAnswer('paid twice'),
      ]);
      const request = { ...chat, model: 'acme/steady' };
      await gateway.post(request);
      // Only connections that were idle for 250 ms may have been closed for idling.
      await Bun.sleep(300);
      const reply = await gateway.post({ ...request, stream });
      expect(reply.status).toBe(502);
      const outcomes = steady.requests.map((entry) => entry.outcome);
      expect(outcomes).toEqual(['complete', 'reset']);
      const record = await gateway.record(reply.headers.get('x-request-id') ?? '');
      expect(record.attempts).toMatchObject([{ outcome: 'unreachable', status: null }]);
    },
  );
});
