/**
 * Response caching in a running gateway. The fake provider's request log shows which requests were
 * sent.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  embeddings,
  gated,
  json,
  replay,
  startFakeUpstream,
  status500,
  withHeaders,
  withoutUsage,
} from '../support/fake-upstream.ts';
import {
  chatModel,
  InProcessGateway,
  type Reply,
  type SendOptions,
} from '../support/in-process.ts';
import { readSse, SlowReader } from '../support/sse-client.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const pricing = { prompt: '1', completion: '2' };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      first: fake,
      claude: { ...fake, dialect: 'anthropic' },
      responses: { ...fake, dialect: 'openai-responses' },
    },
    models: [
      chatModel('test/responses', [{ provider: 'responses', model: 'responses', pricing }]),
      chatModel('test/claude', [{ provider: 'claude', model: 'chat', pricing }]),
      {
        id: 'test/embed',
        name: 'test/embed',
        context_length: 8_192,
        input_modalities: ['text'],
        output_modalities: ['text'],
        features: ['embeddings'],
        endpoints: [{ provider: 'first', model: 'embed', pricing: { prompt: '1' } }],
      },
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      chatModel('test/other', [{ provider: 'first', model: 'chat', pricing }]),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});

let testNumber = 0;
beforeEach(() => {
  upstream.reset();
  testNumber += 1;
});

/** Returns a request body that is unique to the test. */
function requestBody(fields: object = {}): object {
  const messages = [{ role: 'user', content: `Question ${testNumber}` }];
  return { model: 'test/chat', temperature: 0, messages, ...fields };
}

const sentCount = () => upstream.requests.length;

async function send(fields: object = {}, options: SendOptions = {}) {
  const reply = await gateway.post(JSON.stringify(requestBody(fields)), options);
  const record = await gateway.record(reply.requestId);
  return { ...reply, record, cache: reply.headers.get('x-cache') };
}

function textOf(json: Record<string, unknown>): unknown {
  const [choice] = Array.isArray(json.choices) ? json.choices : [];
  return isObject(choice) && isObject(choice.message) ? choice.message.content : undefined;
}

const toResponse = ({ text, headers }: Reply) => new Response(text, { headers });

describe('the response cache', () => {
  test('replays an answer at temperature 0 with a new ID and free of charge', async () => {
    upstream.script('chat', chatAnswer('Forty-two'));
    const first = await send();
    const second = await send();
    expect([first.cache, second.cache]).toEqual(['MISS', 'HIT']);
    expect(second.headers.get('x-cache-model')).toBe('test/chat');
    expect(sentCount()).toBe(1);
    expect(textOf(second.json)).toBe('Forty-two');
    expect(second.json.id).not.toBe(first.json.id);
    const [before, after] = [first.json.usage, second.json.usage];
    expect(isObject(before) && isObject(after)).toBe(true);
    expect(after).toEqual({ ...(before as object), cost: 0 });
    expect(first.record.charges.modelCharge).toBeGreaterThan(0);
    expect(second.record).toMatchObject({ cacheHit: true, status: 'success', model: 'test/chat' });
    expect(second.record.charges.modelCharge).toBe(0);
    expect(second.record.note).toContain('Nothing is charged');
  });

  test('serves streams and complete responses from one entry, in either order', async () => {
    upstream.script('chat', chatAnswer('Both of them'));
    await send();
    const streamed = await send({ stream: true, stream_options: { include_usage: true } });
    expect(streamed.cache).toBe('HIT');
    const reading = await readSse(toResponse(streamed));
    expect(reading.content).toBe('Both of them');
    expect([reading.doneCount, reading.finishReasons]).toEqual([1, ['stop']]);
    expect(reading.usage).toMatchObject({ cost: 0 });
    expect(sentCount()).toBe(1);

    testNumber += 1000;
    upstream.script('chat', chatAnswer('The other way'));
    const live = await send({ stream: true });
    const full = await send();
    const again = await send({ stream: true });
    expect([live.cache, full.cache, again.cache]).toEqual(['MISS', 'HIT', 'HIT']);
    expect(textOf(full.json)).toBe('The other way');
    expect((await readSse(toResponse(again))).content).toBe('The other way');
    expect(sentCount()).toBe(2);
  });

  test('replays an unknown finish reason in both formats', async () => {
    const message = { role: 'assistant', content: 'Hi' };
    const choices = [{ index: 0, message, finish_reason: 'foo_"bar"' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    const full = await send();
    const streamed = await send({ stream: true });
    expect([full.cache, streamed.cache]).toEqual(['MISS', 'HIT']);
    expect(full.json.choices).toMatchObject([{ finish_reason: 'foo_"bar"' }]);
    expect((await readSse(toResponse(streamed))).finishReasons).toEqual(['foo_"bar"']);
    expect(streamed.record.finishReason).toBe('foo_"bar"');
  });

  test("replays reasoning under the provider's field name in both formats", async () => {
    const reasoning = { reasoning_content: 'Six by nine' };
    const message = { role: 'assistant', content: 'Hi', ...reasoning };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    await send();
    const streamed = await send({ stream: true });
    expect(streamed.cache).toBe('HIT');
    expect(streamed.text).toContain('"reasoning":"Six by nine","reasoning_content":"Six by nine"');

    testNumber += 1000;
    const chunks = [
      { choices: [{ index: 0, delta: { content: 'Hi', reasoning_content: 'Six ' } }] },
      { choices: [{ index: 0, delta: { reasoning_content: 'by nine' }, finish_reason: 'stop' }] },
      '[DONE]',
    ].map((chunk) => `data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`);
    upstream.script('chat', replay(chunks.join(''), { contentType: 'text/event-stream' }));
    await send({ stream: true });
    const full = await send();
    expect(full.cache).toBe('HIT');
    expect(full.json.choices).toMatchObject([
      { message: { reasoning: 'Six by nine', ...reasoning } },
    ]);
  });

  test('replays audio only as a complete response, as it was recorded', async () => {
    const audio = { id: 'audio_1', data: 'UklGRg==', transcript: 'Hi', expires_at: 1 };
    const message = { role: 'assistant', content: null, audio };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    const modalities = ['text', 'audio'];
    await send({ modalities });
    const again = await send({ modalities });
    expect(again.cache).toBe('HIT');
    expect(again.json.choices).toMatchObject([{ message: { audio } }]);
    upstream.script('chat', chatAnswer('Hello'));
    expect((await send({ modalities, stream: true })).cache).toBe('MISS');
  });

  test('replays the header of dropped parameters', async () => {
    const fields = { model: 'test/claude', seed: 7 };
    const droppedIn = (reply: Reply) => reply.headers.get('x-tollgate-dropped-params');
    const answers = [
      await send(fields),
      await send(fields),
      await send({ ...fields, stream: true }),
    ];
    expect(answers.map(({ cache }) => cache)).toEqual(['MISS', 'HIT', 'HIT']);
    expect(answers.map(droppedIn)).toEqual(['seed', 'seed', 'seed']);
    const another = { ...fields, seed: undefined };
    expect([droppedIn(await send(another)), droppedIn(await send(another))]).toEqual([null, null]);
  });

  test('does not cache requests with random output', async () => {
    for (const fields of [{ temperature: undefined }, { temperature: 0.5 }]) {
      await send(fields);
      expect((await send(fields)).cache).toBe('MISS');
    }
    expect(sentCount()).toBe(4);
  });

  test('distinguishes requests by every field, but not by field order', async () => {
    await send();
    const others = [
      { seed: 1 },
      { model: 'test/other' },
      { user: 'u' },
      { provider: { sort: 'price' } },
    ];
    for (const other of others) expect((await send(other)).cache).toBe('MISS');
    const reordered = Object.fromEntries(Object.entries(requestBody()).reverse());
    const same = await gateway.post(JSON.stringify(reordered));
    expect(same.headers.get('x-cache')).toBe('HIT');
    expect(sentCount()).toBe(5);
    // Both are 2^53 as floats, but the provider receives the exact numbers.
    for (const [index, seed] of ['9007199254740992', '9007199254740993'].entries()) {
      const exact = JSON.stringify(requestBody({ seed: 0 })).replace('"seed":0', `"seed":${seed}`);
      for (const path of ['/v1/chat/completions', '/v1/messages']) {
        const body = exact.replace('{', '{"max_tokens":10,');
        const reply = await gateway.post(body, { path });
        expect([index, path, reply.headers.get('x-cache')]).toEqual([index, path, 'MISS']);
      }
    }
  });

  test.each(['/v1/chat/completions', '/v1/messages', '/v1/responses'])(
    'recognizes equal routing options in different spellings: %s',
    async (path) => {
      const rest = { model: 'test/chat', temperature: 0 };
      const spellings = [
        { ...rest },
        { ...rest, models: ['test/chat'] },
        { ...rest, model: null, models: ['test/chat', 'test/chat'] },
        { ...rest, route: 'fallback', provider: { allow_fallbacks: true, order: [] } },
        { ...rest, models: ['test/other'] },
      ];
      const content =
        path === '/v1/responses'
          ? { input: `Question ${testNumber}` }
          : { max_tokens: 10, messages: [{ role: 'user', content: `Question ${testNumber}` }] };
      const found: unknown[] = [];
      for (const options of spellings) {
        const reply = await gateway.post(JSON.stringify({ ...options, ...content }), { path });
        found.push(reply.headers.get('x-cache'));
      }
      expect(found).toEqual(['MISS', 'HIT', 'HIT', 'HIT', 'MISS']);
      expect(sentCount()).toBe(2);
    },
  );

  test('respects Cache-Control', async () => {
    const control = (value: string) => ({ headers: { 'cache-control': value } });
    await send({}, control('no-store'));
    expect((await send()).cache).toBe('MISS');
    expect((await send({}, control('no-store'))).cache).toBe('MISS');
    expect((await send({}, control('max-age=60'))).cache).toBe('HIT');
    await Bun.sleep(5);
    expect((await send({}, control('max-age=0'))).cache).toBe('MISS');
    expect((await send({}, control('no-cache'))).cache).toBe('MISS');
    expect((await send()).cache).toBe('HIT');
    expect(sentCount()).toBe(5);
  });

  test('does not cache answers with Cache-Control: no-store', async () => {
    const noStore = { 'cache-control': 'private, no-store, max-age=0' };
    upstream.script('chat', withHeaders(noStore, chatAnswer('Forty-two')));
    upstream.script('embed', withHeaders(noStore, embeddings()));
    for (const stream of [false, true]) {
      expect((await gateway.post(requestBody({ stream }))).headers.get('x-cache')).toBe('MISS');
    }
    const embed = { model: 'test/embed', input: 'hello' };
    for (let n = 0; n < 2; n += 1) {
      const { headers, status } = await gateway.post(embed, { path: '/v1/embeddings' });
      expect([status, headers.get('x-cache')]).toEqual([200, 'MISS']);
    }
    expect(sentCount()).toBe(4);
    upstream.script('chat', chatAnswer('Forty-three'));
    const again = { 'cache-control': 'no-cache' };
    await gateway.post(requestBody({}), { headers: again });
    expect((await gateway.post(requestBody({}))).headers.get('x-cache')).toBe('HIT');
  });

  test('does not cache failures', async () => {
    upstream.script('chat', [status500(), chatAnswer('Now')]);
    expect((await send()).status).toBe(502);
    const next = await send();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Now']);
  });

  test('sends one of many identical concurrent requests and charges only that one', async () => {
    upstream.script('chat', gated('go', 0, chatAnswer('Once')));
    const many = Array.from({ length: 20 }, (_, i) => send(i % 2 ? { stream: true } : {}));
    await upstream.until((requests) => requests.length > 0);
    upstream.open('go');
    const answers = await Promise.all(many);
    expect(sentCount()).toBe(1);
    expect(answers.filter(({ cache }) => cache === 'MISS')).toHaveLength(1);
    const charged = answers.filter(({ record }) => record.charges.modelCharge > 0);
    expect(charged).toHaveLength(1);
  });

  test('replays the estimated usage if the provider reported none', async () => {
    upstream.script('chat', withoutUsage(chatAnswer('Silent')));
    const first = await send();
    const again = await send();
    const streamed = await send({ stream: true, stream_options: { include_usage: true } });
    expect([again.cache, streamed.cache]).toEqual(['HIT', 'HIT']);
    expect(first.record.usageEstimated).toBe(true);
    expect(first.json.usage).toMatchObject({ completion_tokens: 2 });
    const free = { ...(first.json.usage as object), cost: 0 };
    expect(again.json.usage).toEqual(free);
    expect((await readSse(toResponse(streamed))).usage).toEqual(free);
    expect(again.record.charges.modelCharge).toBe(0);
  });

  test('replays a full answer without a finish reason as a complete stream', async () => {
    const message = { role: 'assistant', content: 'Open end' };
    const choices = [{ index: 0, message, finish_reason: null }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    await send();
    const streamed = await send({ stream: true });
    expect(streamed.cache).toBe('HIT');
    expect(streamed.text).toContain('"content":"Open end"');
    expect(streamed.text).toContain('"finish_reason":"stop"');
    expect(streamed.text).toEndWith('data: [DONE]\n\n');
  });
});

describe('the response cache with several callers', () => {
  test('never serves another tenant', async () => {
    const otherKey = await gateway.makeTenant({ id: `other${testNumber}`, name: 'Other' });
    upstream.script('chat', [chatAnswer('Ours'), chatAnswer('Theirs')]);
    await send();
    const otherReply = await gateway.post(requestBody(), { key: otherKey });
    expect([otherReply.headers.get('x-cache'), textOf(otherReply.json)]).toEqual([
      'MISS',
      'Theirs',
    ]);
    expect(textOf((await send()).json)).toBe('Ours');
    const again = await gateway.post(requestBody(), { key: otherKey });
    expect([again.headers.get('x-cache'), textOf(again.json)]).toEqual(['HIT', 'Theirs']);
  });

  test('is shared by the keys of a tenant with the same allow-list', async () => {
    const [same, wild, only] = [
      await gateway.makeKey({}),
      await gateway.makeKey({ models: ['test/*'] }),
      await gateway.makeKey({ models: ['test/chat'] }),
    ];
    await send();
    const caches: (string | null)[] = [];
    for (const key of [same, wild, only, only]) {
      caches.push((await gateway.post(requestBody(), { key })).headers.get('x-cache'));
    }
    expect(caches).toEqual(['HIT', 'MISS', 'MISS', 'HIT']);
    expect(sentCount()).toBe(3);
  });

  test.each([
    ['/v1/chat/completions', 'test/chat', { messages: [{ role: 'user', content: 'Hi' }] }],
    ['/v1/responses', 'test/responses', { input: 'Hi' }],
  ])(
    "scopes names in the provider's own cache to the tenant on %s",
    async (path, model, content) => {
      const otherKey = await gateway.makeTenant({ id: `other${testNumber}`, name: 'Other' });
      const body = { model, ...content, prompt_cache_key: 'case-4711', cache_salt: 'case-4711' };
      for (const key of [gateway.keys.routing, otherKey, gateway.keys.routing]) {
        await gateway.post(body, { path, key });
      }
      for (const field of ['prompt_cache_key', 'cache_salt']) {
        const [own, other, again] = upstream.requests.map(({ json }) =>
          isObject(json) ? json[field] : undefined,
        );
        expect([own, other, again]).toEqual(Array(3).fill(expect.stringMatching(/^[\w-]{43}$/)));
        expect(other).not.toBe(own);
        expect(again).toBe(own);
      }
    },
  );

  test("follows the key's cache mode", async () => {
    const [always, off] = [
      await gateway.makeKey({ cache: 'always' }),
      await gateway.makeKey({ cache: 'off' }),
    ];
    const random = { temperature: 1 };
    expect((await send(random, { key: always })).cache).toBe('MISS');
    expect((await send(random, { key: always })).cache).toBe('HIT');
    expect((await send({}, { key: off })).cache).toBe('MISS');
    expect((await send({}, { key: off })).cache).toBe('MISS');
    expect((await send()).cache).toBe('MISS');
    expect(sentCount()).toBe(4);
  });

  test('counts a hit against the request limit', async () => {
    await send();
    const [hit, last, rejected] = await withinOneMinute(async () => {
      const key = await gateway.makeKey({ requests_per_minute: 2 });
      return [await send({}, { key }), await send({}, { key }), await send({}, { key })] as const;
    });
    expect([hit.cache, hit.headers.get('x-ratelimit-remaining')]).toEqual(['HIT', '1']);
    expect([last.cache, rejected.status]).toEqual(['HIT', 429]);
  });
});

test('the response cache does not count a hit against the token limit', async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const limited = await InProcessGateway.start({
    limits: { tokens_per_minute: 100 },
    providers: { first: fake },
    models: [chatModel('test/chat', [{ provider: 'first', model: 'chat' }])],
  });
  upstream.script('chat', chatAnswer('Sixty', { usage: { prompt: 50, completion: 10 } }));
  const counted = await withinOneMinute(async () => {
    testNumber += 1;
    const key = await limited.makeKey({});
    const before = sentCount();
    const statuses: number[] = [];
    // 60 tokens, 0, 0, then another 60, then the limit is reached.
    for (const seed of [1, 1, 1, 2, 3]) {
      statuses.push((await limited.post(requestBody({ seed }), { key })).status);
    }
    return { statuses, sent: sentCount() - before };
  });
  expect(counted).toEqual({ statuses: [200, 200, 200, 200, 429], sent: 2 });
  await limited.stop();
});

describe('the response cache after an incomplete answer', () => {
  test('does not store an interrupted stream', async () => {
    upstream.script('chat', [cutMidStream(3), chatAnswer('Complete')]);
    const cut = await send({ stream: true });
    expect(cut.text).toContain('"error"');
    const next = await send();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Complete']);
  });

  test('does not store a stream whose client disconnected', async () => {
    upstream.script('chat', [
      gated('disconnected', 3, chatAnswer('one two three four five')),
      chatAnswer('Complete'),
    ]);
    const client = new AbortController();
    const response = await gateway.fetch(requestBody({ stream: true }), { signal: client.signal });
    await new SlowReader(response).readUntil('two');
    client.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const next = await send();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Complete']);
  });

  test('reports MISS for rejected requests', async () => {
    const unknown = await gateway.post(requestBody({ model: 'test/none' }));
    expect([unknown.status, unknown.headers.get('x-cache')]).toEqual([404, 'MISS']);
    const bad = await gateway.post({ model: 'test/chat' });
    expect([bad.status, bad.headers.get('x-cache')]).toEqual([400, 'MISS']);
    const models = await gateway.get('/v1/models');
    expect(models.headers.get('x-cache')).toBeNull();
  });
});

describe('a replay', () => {
  const tool = { type: 'function', function: { name: 'lookup', parameters: { type: 'object' } } };
  const rich = callTools([{ name: 'lookup', arguments: { place: 'here' }, id: 'call_7' }], {
    text: 'One moment.',
    reasoning: 'Where is it?',
  });

  test.each(['test/chat', 'test/claude'])(
    'contains tool calls and reasoning from %s',
    async (model) => {
      upstream.script('chat', rich);
      const fields = { model, tools: [tool] };
      const first = await send(fields);
      const [full, streamed] = [await send(fields), await send({ ...fields, stream: true })];
      expect([full.cache, streamed.cache, sentCount()]).toEqual(['HIT', 'HIT', 1]);
      expect(full.json.choices).toEqual(first.json.choices);
      const deltas = (await readSse(toResponse(streamed))).chunks.flatMap(({ choices }) =>
        (choices as { delta: Record<string, unknown> }[]).map(({ delta }) => delta),
      );
      const text = JSON.stringify(deltas);
      for (const part of ['Where', 'call_7', 'lookup', 'place']) expect(text).toContain(part);
      expect((await readSse(toResponse(streamed))).finishReasons).toEqual(['tool_calls']);
    },
  );

  test.each(['test/chat', 'test/claude'])('serves Anthropic clients from %s', async (model) => {
    upstream.script('chat', rich);
    const path = '/v1/messages';
    const tools = [{ name: 'lookup', input_schema: { type: 'object' } }];
    const body = requestBody({ model, max_tokens: 100, tools });
    const first = await gateway.post(body, { path });
    const again = await gateway.post(body, { path });
    const streamed = await gateway.post({ ...body, stream: true }, { path });
    const caches = [first, again, streamed].map(({ headers }) => headers.get('x-cache'));
    expect(caches).toEqual(['MISS', 'HIT', 'HIT']);
    expect(again.json.content).toEqual(first.json.content);
    expect(again.json.id).not.toBe(first.json.id);
    const parsed = checkAnthropicStream(streamed.text);
    expect(parsed).toMatchObject({
      ended: 'complete',
      text: 'One moment.',
      stopReason: 'tool_use',
    });
    expect(parsed).toMatchObject({
      thinking: 'Where is it?',
      tools: [{ input: { place: 'here' } }],
    });
    // An OpenAI client sends a different request body, so it isn't served from this entry.
    const other = await send({ model, max_tokens: 100, tools: [tool] });
    expect([other.cache, sentCount()]).toEqual(['MISS', 2]);
  });

  test('serves an Anthropic stream as a full message', async () => {
    upstream.script('chat', rich);
    const path = '/v1/messages';
    const tools = [{ name: 'lookup', input_schema: { type: 'object' } }];
    for (const model of ['test/chat', 'test/claude']) {
      const body = requestBody({ model, max_tokens: 100, tools });
      await gateway.post({ ...body, stream: true }, { path });
      const full = await gateway.post(body, { path });
      expect(full.headers.get('x-cache')).toBe('HIT');
      expect(full.json).toMatchObject({ stop_reason: 'tool_use', model });
      expect(JSON.stringify(full.json.content)).toContain('"place":"here"');
    }
  });

  test('serves embeddings in either encoding', async () => {
    upstream.script('embed', embeddings({ dimensions: 2 }));
    const body = { model: 'test/embed', input: [`text ${testNumber}`] };
    const path = '/v1/embeddings';
    const first = await gateway.post(body, { path });
    const again = await gateway.post({ ...body, encoding_format: 'base64' }, { path });
    expect([first, again].map(({ headers }) => headers.get('x-cache'))).toEqual(['MISS', 'HIT']);
    const vector = (reply: Reply) => (reply.json.data as { embedding: unknown }[])[0]?.embedding;
    const bytes = Buffer.from(String(vector(again)), 'base64');
    const floats = [bytes.readFloatLE(0), bytes.readFloatLE(4)];
    expect(floats.map(Math.fround)).toEqual((vector(first) as number[]).map(Math.fround));
    expect((await gateway.record(again.requestId)).charges.modelCharge).toBe(0);
  });
});

describe.each([
  ['off', ['MISS', 'MISS', 'MISS', 'MISS']],
  ['always', ['MISS', 'HIT', 'MISS', 'HIT']],
] as const)('the response cache with cache.mode %s', (mode, expected) => {
  test('handles temperature 0 and 1 as configured', async () => {
    const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
    const configured = await InProcessGateway.start({
      providers: { first: fake },
      models: [chatModel('test/chat', [{ provider: 'first', model: 'chat' }])],
      cache: { mode },
    });
    const caches: (string | null)[] = [];
    for (const temperature of [0, 0, 1, 1]) {
      caches.push((await configured.post(requestBody({ temperature }))).headers.get('x-cache'));
    }
    expect(caches).toEqual([...expected]);
    await configured.stop();
  });
});
