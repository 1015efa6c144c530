/**
 * Requests with the same `Idempotency-Key` are all answered, but sent and charged only once. An
 * input token costs 1 credit, and an output token costs 2.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  callTools,
  chatAnswer,
  cutMidStream,
  embeddings,
  gated,
  images,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway, type SendOptions } from '../support/in-process.ts';
import { startSearchServer } from '../support/search-server.ts';
import { readSse, SlowReader } from '../support/sse-client.ts';
import { checkAnthropicStream } from '../support/stream-checks.ts';

const upstream = startFakeUpstream();
const engine = startSearchServer();
let gateway: InProcessGateway;

beforeAll(async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const pricing = { prompt: '1', completion: '2' };
  const plain = { context_length: 8_192, output_modalities: ['text'] };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: { first: fake },
    models: [
      chatModel('test/chat', [{ provider: 'first', model: 'chat', pricing }]),
      {
        ...plain,
        id: 'test/embed',
        name: 'test/embed',
        input_modalities: ['text'],
        features: ['embeddings'],
        endpoints: [{ provider: 'first', model: 'embed', pricing: { prompt: '1' } }],
      },
      {
        ...plain,
        id: 'test/image',
        name: 'test/image',
        input_modalities: ['text', 'image'],
        output_modalities: ['image'],
        features: ['image_generation'],
        endpoints: [{ provider: 'first', model: 'image', pricing: { output_image: '0.01' } }],
      },
    ],
    tools: { web_search: { engine: 'searxng', url: engine.url, usd_per_search: '0.005' } },
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
  await engine.stop();
});

let testNumber = 0;
let balance = 0;
beforeEach(async () => {
  upstream.reset();
  engine.reset();
  testNumber += 1;
  balance = await gateway.balance();
});

const tokens = (prompt: number, completion: number) => ({ usage: { prompt, completion } });
const messages = [{ role: 'user', content: 'Count to three.' }];
const chat = (fields: object = {}) => ({ model: 'test/chat', messages, ...fields });
const sentCount = () => upstream.requests.length;

/** Adds an Idempotency-Key, by default one per test. */
function withKey(options: SendOptions = {}, key = `key-${testNumber}`): SendOptions {
  return { ...options, headers: { 'idempotency-key': key, ...options.headers } };
}

const replayed = ({ headers }: { headers: Headers }) => headers.get('idempotent-replayed');
/** Credits spent since the test started. */
const spent = async () => balance - (await gateway.balance());
const chargeOf = async (requestId: string) => {
  const { charges } = await gateway.record(requestId);
  return charges.modelCharge + charges.managedToolFee;
};

describe('a repeated request', () => {
  test('returns the first answer as a complete response or stream and costs nothing', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const first = await gateway.post(chat(), withKey());
    const second = await gateway.post(chat(), withKey());
    const streamed = await gateway.stream(
      chat({ stream_options: { include_usage: true } }),
      withKey(),
    );
    expect([first, second, streamed].map(replayed)).toEqual([null, 'true', 'true']);
    expect([first, second, streamed].map(({ headers }) => headers.get('x-cache'))).toEqual([
      'MISS',
      'HIT',
      'HIT',
    ]);
    expect([contentOf(second), streamed.content]).toEqual(['One two three', 'One two three']);
    expect(streamed.usage).toMatchObject({ prompt_tokens: 40, completion_tokens: 5 });
    // 40 + 2 × 5, once.
    expect([sentCount(), await spent()]).toEqual([1, 50]);
    expect(second.headers.get('x-cache-model')).toBe('test/chat');
  });

  test('returns the header of dropped parameters', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const body = chat({ service_tier: 'priority' });
    const both = [await gateway.post(body, withKey()), await gateway.post(body, withKey())];
    expect(both.map(replayed)).toEqual([null, 'true']);
    const dropped = both.map(({ headers }) => headers.get('x-tollgate-dropped-params'));
    expect(dropped).toEqual(['service_tier', 'service_tier']);
  });

  test.each([
    ['/v1/chat/completions', chat({ stream_options: { include_usage: true } })],
    ['/v1/messages', chat({ max_tokens: 100 })],
    ['/v1/responses', { model: 'test/chat', input: 'Count to three.' }],
  ])('to %s returns the ID, time, cost, and receipt of the first request', async (...row) => {
    const [path, body] = row;
    upstream.script('chat', callTools([{ name: 'add', arguments: { a: 1 } }], tokens(40, 5)));
    const both = [false, true].map((stream) => {
      const options = withKey({ path }, `key-${testNumber}-${stream}`);
      return () => gateway.post({ ...body, stream }, options);
    });
    const firsts = await Promise.all(both.map((post) => post()));
    // Wait a second, because the replay must not have a new timestamp.
    await Bun.sleep(1_001);
    for (const [index, again] of (await Promise.all(both.map((post) => post()))).entries()) {
      const { text = '', requestId = '' } = firsts[index] ?? {};
      expect(again.text).toBe(text);
      // Anthropic's format has no such field.
      expect(text.includes('"cost":50')).toBe(path !== '/v1/messages');
      const ids = ['x-request-id', 'request-id'].map((name) => again.headers.get(name));
      expect([replayed(again), ...ids]).toEqual(['true', requestId, requestId]);
      const receipt = await gateway.get(`/v1/generation?id=${again.requestId}`);
      expect(receipt.json.data).toMatchObject({ total_cost: 50 });
    }
    expect([sentCount(), await spent()]).toEqual([2, 100]);
  });

  test('returns a recorded stream as a stream or a complete response', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const first = await gateway.stream(chat(), withKey());
    const [again, full] = [
      await gateway.stream(chat(), withKey()),
      await gateway.post(chat(), withKey()),
    ];
    expect([first, again].map(({ content }) => content)).toEqual([
      'One two three',
      'One two three',
    ]);
    expect([again.doneCount, again.finishReasons]).toEqual([1, ['stop']]);
    expect([contentOf(full), replayed(again), replayed(full)]).toEqual([
      'One two three',
      'true',
      'true',
    ]);
    expect([sentCount(), await spent()]).toEqual([1, 50]);
  });

  test('replays the answer to Anthropic clients', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const path = '/v1/messages';
    const body = chat({ max_tokens: 100 });
    const first = await gateway.post(body, withKey({ path }));
    const full = await gateway.post(body, withKey({ path }));
    const stream = await gateway.post({ ...body, stream: true }, withKey({ path }));
    expect(full.json.content).toEqual([{ type: 'text', text: 'One two three' }]);
    expect(full.json.content).toEqual(first.json.content);
    expect(checkAnthropicStream(stream.text)).toMatchObject({
      ended: 'complete',
      text: 'One two three',
    });
    expect([replayed(full), replayed(stream), sentCount()]).toEqual(['true', 'true', 1]);
    // In another dialect, the same key belongs to a different request.
    const other = await gateway.post(chat({ max_tokens: 100 }), withKey());
    expect(other.status).toBe(409);
  });

  test('is counted, and logged with a reference to the first request', async () => {
    const { requestId } = await gateway.post(chat(), withKey());
    const again = await gateway.post(chat(), withKey());
    const { json } = await gateway.get('/v1/customer/logs?limit=1');
    const [row] = json.logs as [{ id: string }];
    const receipt = await gateway.get(`/v1/customer/logs/${row.id}`);
    expect(receipt.json.data).toMatchObject({
      request_id: expect.not.stringMatching(requestId),
      cost: 0,
      status: 'success',
      cache_hit: true,
      answered_by: { model: 'test/chat' },
      billing_note: expect.stringContaining(`Served the answer of request ${requestId} again`),
    });
    expect(Number(again.headers.get('x-ratelimit-remaining'))).toBeLessThan(100_000);
  });

  test('replays the answer despite Cache-Control and a high temperature', async () => {
    await gateway.post(chat({ temperature: 1 }), withKey());
    const headers = { 'cache-control': 'no-store' };
    expect(replayed(await gateway.post(chat({ temperature: 1 }), withKey({ headers })))).toBe(
      'true',
    );
  });

  test('is charged once for embeddings and images', async () => {
    upstream.script('embed', embeddings({ dimensions: 2, usage: { prompt: 7 } }));
    upstream.script('image', images());
    const cases = [
      { path: '/v1/embeddings', body: { model: 'test/embed', input: 'x' }, charge: 7 },
      {
        path: '/v1/images/generations',
        body: { model: 'test/image', prompt: 'x' },
        charge: 10_000,
      },
    ];
    for (const [index, { path, body, charge }] of cases.entries()) {
      const options = withKey({ path }, `other-${testNumber}-${index}`);
      const [first, again] = [await gateway.post(body, options), await gateway.post(body, options)];
      expect([first.status, again.status, replayed(again)]).toEqual([200, 200, 'true']);
      expect(again.text).toBe(first.text);
      expect([again.requestId, await chargeOf(first.requestId)]).toEqual([first.requestId, charge]);
    }
    expect([sentCount(), await spent()]).toEqual([2, 10_007]);
  });

  test('does not repeat web searches', async () => {
    engine.answer([{ title: 'News', url: 'https://news.example/', snippet: 'Rain.' }]);
    const search = callTools([{ name: 'web_search', arguments: { query: 'q' } }], tokens(10, 1));
    upstream.script('chat', [search, chatAnswer('Rain [1].', tokens(20, 2))]);
    const body = chat({ tools: [{ type: 'web_search' }] });
    const first = await gateway.post(body, withKey());
    const full = await gateway.post(body, withKey());
    const streamed = await gateway.stream(body, withKey());
    expect(first.json.choices).toEqual(full.json.choices);
    expect(JSON.stringify(full.json)).toContain('url_citation');
    expect(streamed.content).toBe('Rain [1].');
    expect(JSON.stringify(streamed.chunks)).toContain('url_citation');
    expect([sentCount(), engine.searches.length]).toEqual([2, 1]);
    // 10 + 2 × 1, then 20 + 2 × 2, and one search.
    expect(await spent()).toBe(12 + 24 + 5_000);
    expect(full.text).toBe(first.text);
  });
});

describe('an Idempotency-Key', () => {
  test('returns 409 for a different request and keeps the first answer', async () => {
    upstream.script('chat', chatAnswer('First', tokens(1, 1)));
    await gateway.post(chat(), withKey());
    for (const other of [chat({ seed: 1 }), chat({ messages: [...messages, ...messages] })]) {
      const rejected = await gateway.post(other, withKey());
      expect(rejected.status).toBe(409);
      // SDKs retry after a 409 without this header.
      expect(rejected.headers.get('x-should-retry')).toBe('false');
      expect(rejected.error).toMatchObject({ param: 'Idempotency-Key' });
      expect(await chargeOf(rejected.requestId)).toBe(0);
    }
    const reordered = Object.fromEntries(Object.entries(chat()).reverse());
    expect(replayed(await gateway.post(reordered, withKey()))).toBe('true');
    expect(sentCount()).toBe(1);
  });

  test('returns 403 for an API key that may not use the model, even if the answer is stored', async () => {
    const created = await gateway.post(
      { name: 'embeds only', models: ['test/embed'] },
      { path: '/api/v1/keys', key: gateway.keys.management },
    );
    const key = String(created.json.key);
    expect((await gateway.post(chat(), withKey({ key }))).status).toBe(403);
    upstream.script('chat', chatAnswer('First', tokens(1, 1)));
    await gateway.post(chat(), withKey());
    expect((await gateway.post(chat(), withKey({ key }))).status).toBe(403);
    expect((await gateway.post(chat({ seed: 1 }), withKey({ key }))).status).toBe(403);
    expect(replayed(await gateway.post(chat(), withKey()))).toBe('true');
  });

  test('is scoped to its tenant', async () => {
    const otherKey = await gateway.makeTenant({ id: `other${testNumber}`, name: 'Other' });
    upstream.script('chat', [chatAnswer('Ours'), chatAnswer('Theirs')]);
    await gateway.post(chat(), withKey());
    const otherReply = await gateway.post(chat(), withKey({ key: otherKey }));
    expect([contentOf(otherReply), replayed(otherReply)]).toEqual(['Theirs', null]);
    const other = await gateway.post(chat({ seed: 2 }), withKey({ key: otherKey }));
    expect(other.status).toBe(409);
  });

  test.each(['', 'two words', 'x'.repeat(256)])(
    'returns 400 for the invalid value %j',
    async (key) => {
      const rejected = await gateway.post(chat(), withKey({}, key));
      expect(rejected.status).toBe(400);
      expect(rejected.error).toMatchObject({ param: 'Idempotency-Key' });
      expect(sentCount()).toBe(0);
    },
  );
});

describe('the first request with an Idempotency-Key', () => {
  test('can be repeated after a failure', async () => {
    upstream.script('chat', [status500(), chatAnswer('Now', tokens(3, 1))]);
    const first = await gateway.post(chat(), withKey());
    const second = await gateway.post(chat(), withKey());
    expect([first.status, second.status, replayed(second)]).toEqual([502, 200, null]);
    expect(await chargeOf(second.requestId)).toBe(5);
    expect(replayed(await gateway.post(chat(), withKey()))).toBe('true');
  });

  test('can be repeated after it was rejected', async () => {
    const unknown = await gateway.post(chat({ model: 'test/none' }), withKey());
    const good = await gateway.post(chat(), withKey());
    expect([unknown.status, good.status]).toEqual([404, 200]);
  });

  test('can be repeated after an interruption', async () => {
    upstream.script('chat', [cutMidStream(3), chatAnswer('Complete')]);
    const cut = await gateway.stream(chat(), withKey());
    expect(cut.error?.message).toBe("The provider's response was interrupted.");
    const again = await gateway.stream(chat(), withKey());
    expect([again.content, replayed(again)]).toEqual(['Complete', null]);
  });

  test('can be repeated after its client disconnected', async () => {
    upstream.script('chat', [
      gated('never', 3, chatAnswer('one two three four')),
      chatAnswer('Complete'),
    ]);
    const client = new AbortController();
    const options = { ...withKey(), signal: client.signal };
    const response = await gateway.fetch(chat({ stream: true }), options);
    await new SlowReader(response).readUntil('two');
    client.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const again = await gateway.post(chat(), withKey());
    expect([contentOf(again), replayed(again)]).toEqual(['Complete', null]);
  });

  test('makes repeated requests wait for its answer, which they get free of charge', async () => {
    upstream.script('chat', gated('go', 0, chatAnswer('For all', tokens(30, 10))));
    const first = gateway.post(chat(), withKey());
    await upstream.until((requests) => requests.length > 0);
    const others = [
      gateway.post(chat(), withKey()),
      gateway.fetch(chat({ stream: true }), withKey()).then(readSse),
      gateway.post(chat(), withKey()),
    ];
    const different = await gateway.post(chat({ seed: 9 }), withKey());
    expect(different.status).toBe(409);
    upstream.open('go');
    const ended = await Promise.all([first, ...others]);
    expect(ended.map(replayed)).toEqual([null, 'true', 'true', 'true']);
    expect(new Set(ended.map(({ requestId }) => requestId)).size).toBe(1);
    expect([sentCount(), await spent()]).toEqual([1, 50]);
  });

  test('is replaced by one of the waiting requests when it fails', async () => {
    upstream.script('chat', [
      gated('fail', 0, status500()),
      chatAnswer('Second try', tokens(3, 1)),
    ]);
    const first = gateway.post(chat(), withKey());
    await upstream.until((requests) => requests.length > 0);
    const others = [gateway.post(chat(), withKey()), gateway.post(chat(), withKey())];
    await Bun.sleep(20);
    upstream.open('fail');
    expect((await first).status).toBe(502);
    const ended = await Promise.all(others);
    expect(ended.map(contentOf)).toEqual(['Second try', 'Second try']);
    expect(ended.map(replayed).sort()).toEqual(['true', null].sort());
    expect([sentCount(), await spent()]).toEqual([2, 5]);
  });
});
