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

/** Everything an upstream can do wrong, and what the client gets to see of it. */

const upstream = startFakeUpstream();
const stranger = startFakeUpstream();
/** Its connections are kept: those of one that closes them all the time are not, for a while. */
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
  stranger.stop();
  steady.stop();
});
beforeEach(() => {
  upstream.reset();
  stranger.reset();
  steady.reset();
});

const chat = { model: 'acme/chat', messages: [{ role: 'user', content: 'hello' }] };

function play(behavior: Behavior): void {
  upstream.script('vendor-model', behavior);
}

/** The answer to the next plain request: proof that the process goes on as before. */
async function expectWell(): Promise<void> {
  play(chatAnswer('well again'));
  expect(contentOf(await gateway.post(chat))).toBe('well again');
}

const rss = () => process.memoryUsage.rss();
const megabyte = 1024 * 1024;

describe('an answer that cannot be used is 502, whole or streamed', () => {
  const broken: [string, Behavior][] = [
    ['an empty body', emptyBody()],
    ['204 without a body', emptyBody(204)],
    ['a page of HTML with 200', htmlWith200()],
    ['a JSON list', json(200, [1, 2, 3])],
    ['a JSON object that is no answer', json(200, { hello: 'there' })],
    ['an error inside 200', json(200, { error: { message: 'inside', code: 500 } })],
    ['gzip that nobody asked for', encoded(['gzip'])],
    ['an encoding in another case', json(200, whole('no'), { 'content-encoding': 'X-GZip' })],
    ['an encoding of today', json(200, whole('no'), { 'content-encoding': 'zstd' })],
    ['six layers of compression', encoded(['gzip', 'br', 'gzip', 'deflate', 'br', 'gzip'])],
    ['headers without an end', endlessHeaders(4 * megabyte)],
    ['a connection cut in a chunk', cutMidStream(0, 'mid-chunk')],
    ['a redirect without a place', status(302)],
  ];
  for (const stream of [false, true]) {
    test.each(broken)(`${stream ? 'streamed' : 'whole'}: %s`, async (_, behavior) => {
      play(behavior);
      const reply = await gateway.post({ ...chat, stream });
      expect(reply.status).toBe(502);
      expect(reply.error).toMatchObject({ type: 'upstream_error', code: 502, param: null });
      expect(reply.headers.get('content-type')).toBe('application/json');
      expect(reply.text).not.toMatch(/<html|chatcmpl-fake|vendor-model|sk-theirs/);
      expect(upstream.requests).toHaveLength(1);
      await expectWell();
    });
  }

  test('fewer bytes than promised are no answer, and no finished stream', async () => {
    play(wrongContentLength(50));
    expect((await gateway.post(chat)).status).toBe(502);
    play(wrongContentLength(50, cutMidStream(4, 'connection')));
    expect((await gateway.stream(chat)).dones).toBe(0);
  });

  test('a stream where JSON was asked for', async () => {
    play(sseForJson());
    expect((await gateway.post(chat)).status).toBe(502);
  });

  test('an error in JSON where a stream was asked for keeps its meaning', async () => {
    const error = { message: 'too long', code: 'context_length_exceeded' };
    play(json(200, { error }));
    const reply = await gateway.post({ ...chat, stream: true });
    expect(reply.status).toBe(400);
    expect(reply.error.message).toBe('too long');
  });

  test('JSON cut at any byte is never half an answer', async () => {
    const whole = JSON.stringify({
      id: 'x',
      choices: [
        { index: 0, message: { role: 'assistant', content: 'é日' }, finish_reason: 'stop' },
      ],
    });
    for (let at = 0; at < Buffer.byteLength(whole); at++) {
      play(truncatedJson(at, replay(whole)));
      expect((await gateway.post(chat)).status).toBe(502);
    }
    for (const contentType of ['application/json', 'text/event-stream; charset=utf-8']) {
      play(replay(whole, { contentType }));
      expect(contentOf(await gateway.post(chat))).toBe('é日');
    }
  });

  test('a stream cut at any byte is never a finished answer unless it was one', async () => {
    play(chatAnswer('one two'));
    const full = (await gateway.stream(chat)).text;
    const finishAt = full.indexOf('"finish_reason":"stop"');
    const source = replay(full.replaceAll('acme/chat', 'vendor-model'), {
      contentType: 'text/event-stream',
    });
    for (let at = 1; at < full.length; at += 7) {
      play(truncatedJson(at, source));
      const reading = await gateway.stream(chat);
      if (at < finishAt) expect([reading.dones, at]).toEqual([0, at]);
      expect(reading.dones === 1).toBe(reading.finishReasons.includes('stop'));
    }
  });
});

describe('an odd answer that can still be used', () => {
  const usable: [string, Behavior, string][] = [
    ['interim replies before the real one', interimReplies(500), 'ok'],
    ['no length and no chunks', untilClose(), 'ok'],
    ['characters split between two packets', splitCharacters(), 'naïve 日本 😀 café'],
    ['one byte at a time', slowDrip(1, 0), 'ok'],
  ];
  for (const stream of [false, true]) {
    test.each(usable)(`${stream ? 'streamed' : 'whole'}: %s`, async (_, behavior, text) => {
      play(behavior);
      const body = { ...chat, stream };
      const content = stream
        ? (await gateway.stream(body)).content
        : contentOf(await gateway.post(body));
      expect(content).toBe(text);
    });
  }

  test('types and encodings in capital letters', async () => {
    const headers = { 'content-encoding': 'Identity' };
    const chunk = {
      id: 'x',
      choices: [{ index: 0, delta: { content: 'loud' }, finish_reason: 'stop' }],
    };
    const events = `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
    play(replay(events, { contentType: 'Text/Event-Stream; Charset=UTF-8', headers }));
    expect(await gateway.stream(chat)).toMatchObject({ content: 'loud', dones: 1 });
    play(replay(JSON.stringify(whole('loud')), { contentType: 'Application/JSON', headers }));
    expect(contentOf(await gateway.post(chat))).toBe('loud');
  });

  test('another status of success', async () => {
    for (const code of [201, 202, 203]) {
      play(json(code, whole('made')));
      expect(contentOf(await gateway.post(chat))).toBe('made');
      const choices = [{ index: 0, delta: { content: 'made' }, finish_reason: 'stop' }];
      const events = `data: ${JSON.stringify({ id: 'x', choices })}\n\ndata: [DONE]\n\n`;
      play(replay(events, { status: code, contentType: 'text/event-stream' }));
      expect(await gateway.stream(chat)).toMatchObject({ content: 'made', dones: 1 });
    }
  });

  test('an encoding that packs nothing', async () => {
    for (const encoding of ['utf-8', 'identity, identity', 'none', '']) {
      play(json(200, whole('unpacked'), { 'content-encoding': encoding }));
      expect(contentOf(await gateway.post(chat))).toBe('unpacked');
    }
  });

  test.each([
    ['as plain text', 'text/plain', ''],
    ['as JSON, behind a comment', 'application/json', ': wait\n\n'],
    ['as bytes, behind empty lines', 'application/octet-stream', '\n\n\n'],
  ])('a stream that is sent %s', async (_, contentType, before) => {
    const choices = [{ index: 0, delta: { content: 'plain' }, finish_reason: 'stop' }];
    const events = `${before}data: ${JSON.stringify({ id: 'x', choices })}\n\ndata: [DONE]\n\n`;
    for (const piece of ['whole', 'byte by byte'] as const) {
      play(replay(events, { contentType, piece }));
      expect(await gateway.stream(chat)).toMatchObject({ content: 'plain', dones: 1 });
    }
  });

  test('half a character inside a string becomes a replacement mark, not an error', async () => {
    play(unfinishedCharacter(3));
    const reading = await gateway.stream(chat);
    expect(reading.content).toContain('half \ufffd');
    expect(reading.dones).toBe(1);
  });

  test('an answer that comes before the request was read', async () => {
    upstream.script('/v1/chat/completions', answerEarly(json(200, whole('early'))));
    const content = 'x'.repeat(4 * megabyte);
    const reply = await gateway.post({ ...chat, messages: [{ role: 'user', content }] });
    expect([200, 502]).toContain(reply.status);
    upstream.reset();
    await expectWell();
  });
});

function whole(content: string): object {
  const message = { role: 'assistant', content };
  return { id: 'x', choices: [{ index: 0, message, finish_reason: 'stop' }] };
}

describe('headers', () => {
  test('of the upstream do not reach the client', async () => {
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

  test('of the client do not reach the upstream, nor does its key', async () => {
    play(chatAnswer('ok'));
    await gateway.post(chat, {
      headers: {
        cookie: 'session=1',
        'x-forwarded-for': '10.0.0.1',
        'x-internal-admin': 'true',
        'x-openai-host': stranger.url,
        'helicone-target-url': stranger.url,
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

describe('the address of the upstream', () => {
  const overrides = ['api_base', 'base_url', 'baseURL', 'custom_host', 'host', 'url', 'endpoint'];

  test('cannot be changed by anything in the body', async () => {
    play(chatAnswer('ok'));
    const lures = Object.fromEntries(overrides.map((name) => [name, `${stranger.url}/v1`]));
    const nested = { extra_body: lures, metadata: { deep: [{ ...lures }] }, ...lures };
    for (const body of [
      { ...chat, ...nested },
      { ...chat, ...nested, api_key: 'sk-mine' },
    ]) {
      expect((await gateway.post(body)).status).toBe(200);
    }
    expect(stranger.requests).toHaveLength(0);
    expect(upstream.requests).toHaveLength(2);
  });

  test.each([301, 302, 303, 307, 308])('%d is not followed', async (code) => {
    play(redirect(`${stranger.url}/v1/chat/completions`, code));
    for (const stream of [false, true]) {
      const reply = await gateway.post({ ...chat, stream });
      expect(reply.status).toBe(502);
      expect(reply.text).not.toContain(stranger.url);
    }
    expect(stranger.requests).toHaveLength(0);
  });
});

test('the field that a provider refuses is named, if that is the name of one', async () => {
  const refusal = (param: unknown) => json(400, { error: { message: 'Too hot.', param } });
  const told = async (param: unknown) => {
    play(refusal(param));
    const { status: code, error } = await gateway.post({ ...chat, stream: true });
    expect([code, error.message]).toEqual([400, 'Too hot.']);
    return error.param;
  };
  expect(await told('temperature')).toBe('temperature');
  expect(await told('messages[0].content')).toBe('messages[0].content');
  expect(await told('what the user said')).toBeNull();
});

describe('size', () => {
  test('a compression bomb is not unpacked', async () => {
    play(compressionBomb(300 * megabyte));
    const before = rss();
    expect((await gateway.post(chat)).status).toBe(502);
    expect(rss() - before).toBeLessThan(50 * megabyte);
  });

  test('an event without an end is cut at the bound, and the upstream with it', async () => {
    play(hugeEvent(200 * megabyte));
    const before = rss();
    expect((await gateway.post({ ...chat, stream: true })).status).toBe(502);
    const entry = await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(entry.bytesSent).toBeLessThan(40 * megabyte);
    expect(rss() - before).toBeLessThan(100 * megabyte);
  });

  test('comments without an end are cut at a bound, and the upstream with them', async () => {
    const comments = Buffer.alloc(40 * megabyte, `: ${'x'.repeat(1_021)}\n`);
    play(replay(comments, { contentType: 'text/event-stream' }));
    expect((await gateway.post({ ...chat, stream: true })).error).toMatchObject({ code: 502 });
    const entry = await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    expect(entry.bytesSent).toBeLessThan(40 * megabyte);
    await expectWell();
  });

  test('a whole answer beyond the bound is 502, and is not read to its end', async () => {
    const filler = Buffer.alloc(80 * megabyte, ' ');
    play(replay(filler, { streamed: true }));
    expect((await gateway.post(chat)).status).toBe(502);
  });

  test('an error page of any length still has its status', async () => {
    const page = Buffer.alloc(2 * megabyte, 'x');
    play(replay(page, { status: 429, contentType: 'text/html', headers: { 'retry-after': '3' } }));
    const reply = await gateway.post(chat);
    expect(reply.status).toBe(503);
    expect(reply.headers.get('retry-after')).toBe('3');
  });

  test('a compressed error still has its status', async () => {
    play(encoded(['gzip'], status(429, 'slow down', { 'retry-after': '4' })));
    const reply = await gateway.post(chat);
    expect(reply.status).toBe(503);
    expect(reply.headers.get('retry-after')).toBe('4');
  });

  test('very many tiny events pass one by one', async () => {
    play(manyTinyEvents(50_000));
    const reading = await gateway.stream(chat);
    expect(reading.content).toBe('x '.repeat(50_000));
    expect(reading.dones).toBe(1);
  });
});

describe('usage that cannot be true is not billed', () => {
  test.each([
    ['negative', { prompt_tokens: -5, completion_tokens: 3, total_tokens: -2 }],
    ['fractions', { prompt_tokens: 1.5, completion_tokens: 3, total_tokens: 4.5 }],
    ['absurd', { prompt_tokens: 1e15, completion_tokens: 1, total_tokens: 1e15 }],
    ['words', { prompt_tokens: '12', completion_tokens: 'many' }],
    ['an object', { prompt_tokens: {}, completion_tokens: [] }],
    ['all zero', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }],
    ['empty', {}],
  ])('%s', async (_, usage) => {
    play(rawUsage(usage, chatAnswer('abcdefgh')));
    for (const stream of [false, true]) {
      const body = { ...chat, stream, stream_options: { include_usage: true } };
      const answer = stream ? await gateway.stream(body) : await gateway.post(body);
      const told = 'content' in answer ? answer.usage : answer.json.usage;
      expect(isObject(told) && told.completion_tokens).toBe(2);
      const record = await gateway.record(answer.requestId);
      expect(record).toMatchObject({ usageEstimated: true, status: 'success' });
      expect(record.usage.outputTokens).toBe(2);
    }
  });
});

describe('a connection that dies under a request', () => {
  test.each([false, true])('fails it, if the new one dies, too, stream: %p', async (stream) => {
    play(resetBeforeHeaders());
    const reply = await gateway.post({ ...chat, stream });
    expect(reply.status).toBe(502);
    expect(reply.error).toMatchObject({ type: 'upstream_error', code: 502, param: null });
    await expectWell();
  });

  test.each([false, true])(
    'that was idle: it is tried on a new one, stream: %p',
    async (stream) => {
      steady.script('steady-model', [
        chatAnswer('warm'),
        resetBeforeHeaders(),
        chatAnswer('well again'),
      ]);
      const ask = { ...chat, model: 'acme/steady' };
      await gateway.post(ask);
      await Bun.sleep(600);
      const reply = await gateway.post({ ...ask, stream });
      expect([reply.status, reply.text.includes('well')]).toEqual([200, true]);
      const outcomes = steady.requests.map((entry) => entry.outcome);
      expect(outcomes).toEqual(['complete', 'reset', 'complete']);
      const record = await gateway.record(reply.headers.get('x-request-id') ?? '');
      expect(record.attempts).toMatchObject([{ outcome: 'answered', status: 200 }]);
    },
  );
});
