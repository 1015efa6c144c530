/**
 * Requests that name themselves by an `Idempotency-Key`: sent once, charged once, answered as often
 * as they are repeated. One credit a token in, two a token out; the upstream keeps its own book.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  callTools,
  cutMidStream,
  embeddings,
  gated,
  images,
  chatAnswer,
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

let turn = 0;
let balance = 0;
beforeEach(async () => {
  upstream.reset();
  engine.reset();
  turn += 1;
  balance = await gateway.balance();
});

const tokens = (prompt: number, completion: number) => ({ usage: { prompt, completion } });
const messages = [{ role: 'user', content: 'Count to three.' }];
const chat = (fields: object = {}) => ({ model: 'test/chat', messages, ...fields });
const asked = () => upstream.requests.length;

/** Each test has a key of its own. */
function named(options: SendOptions = {}, key = `key-${turn}`): SendOptions {
  return { ...options, headers: { 'idempotency-key': key, ...options.headers } };
}

const replayed = ({ headers }: { headers: Headers }) => headers.get('idempotent-replayed');
/** By the tenant's wallet, since this test began. */
const spent = async () => balance - (await gateway.balance());
const chargeOf = async (requestId: string) => {
  const { charges } = await gateway.record(requestId);
  return charges.modelCharge + charges.managedToolFee;
};

describe('a repetition', () => {
  test('gets the first answer, whole or streamed, and costs nothing', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const first = await gateway.post(chat(), named());
    const second = await gateway.post(chat(), named());
    const streamed = await gateway.stream(
      chat({ stream_options: { include_usage: true } }),
      named(),
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
    expect([asked(), await spent()]).toEqual([1, 50]);
    expect(second.headers.get('x-cache-model')).toBe('test/chat');
  });

  test('says what was left out of the first request', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const body = chat({ service_tier: 'priority' });
    const both = [await gateway.post(body, named()), await gateway.post(body, named())];
    expect(both.map(replayed)).toEqual([null, 'true']);
    const told = both.map(({ headers }) => headers.get('x-tollgate-dropped-params'));
    expect(told).toEqual(['service_tier', 'service_tier']);
  });

  test.each([
    ['/v1/chat/completions', chat({ stream_options: { include_usage: true } })],
    ['/v1/messages', chat({ max_tokens: 100 })],
    ['/v1/responses', { model: 'test/chat', input: 'Count to three.' }],
  ])('of %s has the id, the time and the price of the first, and its receipt', async (...asks) => {
    const [path, body] = asks;
    upstream.script('chat', callTools([{ name: 'add', arguments: { a: 1 } }], tokens(40, 5)));
    const both = [false, true].map((stream) => {
      const options = named({ path }, `key-${turn}-${stream}`);
      return () => gateway.post({ ...body, stream }, options);
    });
    const firsts = await Promise.all(both.map((post) => post()));
    // A second later, which may not show in what is the same answer.
    await Bun.sleep(1_001);
    for (const [at, again] of (await Promise.all(both.map((post) => post()))).entries()) {
      const { text = '', requestId = '' } = firsts[at] ?? {};
      expect(again.text).toBe(text);
      // Anthropic's clients have no such field.
      expect(text.includes('"cost":50')).toBe(path !== '/v1/messages');
      const ids = ['x-request-id', 'request-id'].map((name) => again.headers.get(name));
      expect([replayed(again), ...ids]).toEqual(['true', requestId, requestId]);
      const receipt = await gateway.get(`/v1/generation?id=${again.requestId}`);
      expect(receipt.json.data).toMatchObject({ total_cost: 50 });
    }
    expect([asked(), await spent()]).toEqual([2, 100]);
  });

  test('of a stream gets the stream again, or the whole of it', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const first = await gateway.stream(chat(), named());
    const [again, whole] = [
      await gateway.stream(chat(), named()),
      await gateway.post(chat(), named()),
    ];
    expect([first, again].map(({ content }) => content)).toEqual([
      'One two three',
      'One two three',
    ]);
    expect([again.dones, again.finishReasons]).toEqual([1, ['stop']]);
    expect([contentOf(whole), replayed(again), replayed(whole)]).toEqual([
      'One two three',
      'true',
      'true',
    ]);
    expect([asked(), await spent()]).toEqual([1, 50]);
  });

  test('works the same for Anthropic clients', async () => {
    upstream.script('chat', chatAnswer('One two three', tokens(40, 5)));
    const path = '/v1/messages';
    const body = chat({ max_tokens: 100 });
    const first = await gateway.post(body, named({ path }));
    const whole = await gateway.post(body, named({ path }));
    const stream = await gateway.post({ ...body, stream: true }, named({ path }));
    expect(whole.json.content).toEqual([{ type: 'text', text: 'One two three' }]);
    expect(whole.json.content).toEqual(first.json.content);
    expect(checkAnthropicStream(stream.text)).toMatchObject({
      ended: 'complete',
      text: 'One two three',
    });
    expect([replayed(whole), replayed(stream), asked()]).toEqual(['true', 'true', 1]);
    // The same key for a request in the other dialect is another request.
    const other = await gateway.post(chat({ max_tokens: 100 }), named());
    expect(other.status).toBe(409);
  });

  test('counts as a request and is in the log, which says whose answer it is', async () => {
    const { requestId } = await gateway.post(chat(), named());
    const again = await gateway.post(chat(), named());
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

  test('is a repetition whatever Cache-Control says, and the temperature', async () => {
    await gateway.post(chat({ temperature: 1 }), named());
    const headers = { 'cache-control': 'no-store' };
    expect(replayed(await gateway.post(chat({ temperature: 1 }), named({ headers })))).toBe('true');
  });

  test('of embeddings and images is answered and charged once', async () => {
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
    for (const [at, { path, body, charge }] of cases.entries()) {
      const options = named({ path }, `other-${turn}-${at}`);
      const [first, again] = [await gateway.post(body, options), await gateway.post(body, options)];
      expect([first.status, again.status, replayed(again)]).toEqual([200, 200, 'true']);
      expect(again.text).toBe(first.text);
      expect([again.requestId, await chargeOf(first.requestId)]).toEqual([first.requestId, charge]);
    }
    expect([asked(), await spent()]).toEqual([2, 10_007]);
  });

  test('of a request with searches searches no second time', async () => {
    engine.answer([{ title: 'News', url: 'https://news.example/', snippet: 'Rain.' }]);
    const search = callTools([{ name: 'web_search', arguments: { query: 'q' } }], tokens(10, 1));
    upstream.script('chat', [search, chatAnswer('Rain [1].', tokens(20, 2))]);
    const body = chat({ tools: [{ type: 'web_search' }] });
    const first = await gateway.post(body, named());
    const whole = await gateway.post(body, named());
    const streamed = await gateway.stream(body, named());
    expect(first.json.choices).toEqual(whole.json.choices);
    expect(JSON.stringify(whole.json)).toContain('url_citation');
    expect(streamed.content).toBe('Rain [1].');
    expect(JSON.stringify(streamed.chunks)).toContain('url_citation');
    expect([asked(), engine.searches.length]).toEqual([2, 1]);
    // 10 + 2 × 1, then 20 + 2 × 2, and one search.
    expect(await spent()).toBe(12 + 24 + 5_000);
    expect(whole.text).toBe(first.text);
  });
});

describe('the same key', () => {
  test('with another request is 409, charged nothing, and the first stays', async () => {
    upstream.script('chat', chatAnswer('First', tokens(1, 1)));
    await gateway.post(chat(), named());
    for (const other of [chat({ seed: 1 }), chat({ messages: [...messages, ...messages] })]) {
      const refused = await gateway.post(other, named());
      expect(refused.status).toBe(409);
      // SDKs send a request again after a 409 that does not say this.
      expect(refused.headers.get('x-should-retry')).toBe('false');
      expect(refused.error).toMatchObject({ param: 'Idempotency-Key' });
      expect(await chargeOf(refused.requestId)).toBe(0);
    }
    const reordered = Object.fromEntries(Object.entries(chat()).reverse());
    expect(replayed(await gateway.post(reordered, named()))).toBe('true');
    expect(asked()).toBe(1);
  });

  test('sent with an API key that may not use the model is 403, used before or not', async () => {
    const made = await gateway.post(
      { name: 'embeds only', models: ['test/embed'] },
      { path: '/api/v1/keys', key: gateway.keys.management },
    );
    const key = String(made.json.key);
    expect((await gateway.post(chat(), named({ key }))).status).toBe(403);
    upstream.script('chat', chatAnswer('First', tokens(1, 1)));
    await gateway.post(chat(), named());
    expect((await gateway.post(chat(), named({ key }))).status).toBe(403);
    expect((await gateway.post(chat({ seed: 1 }), named({ key }))).status).toBe(403);
    expect(replayed(await gateway.post(chat(), named()))).toBe('true');
  });

  test('of another tenant is another key', async () => {
    const stranger = await gateway.makeTenant({ id: `stranger${turn}`, name: 'Stranger' });
    upstream.script('chat', [chatAnswer('Ours'), chatAnswer('Theirs')]);
    await gateway.post(chat(), named());
    const theirs = await gateway.post(chat(), named({ key: stranger }));
    expect([contentOf(theirs), replayed(theirs)]).toEqual(['Theirs', null]);
    const other = await gateway.post(chat({ seed: 2 }), named({ key: stranger }));
    expect(other.status).toBe(409);
  });

  test.each(['', 'two words', 'x'.repeat(256)])('that is no key (%j) is 400', async (key) => {
    const refused = await gateway.post(chat(), named({}, key));
    expect(refused.status).toBe(400);
    expect(refused.error).toMatchObject({ param: 'Idempotency-Key' });
    expect(asked()).toBe(0);
  });
});

describe('a first request that', () => {
  test('fails can be repeated, and is made again', async () => {
    upstream.script('chat', [status500(), chatAnswer('Now', tokens(3, 1))]);
    const first = await gateway.post(chat(), named());
    const second = await gateway.post(chat(), named());
    expect([first.status, second.status, replayed(second)]).toEqual([502, 200, null]);
    expect(await chargeOf(second.requestId)).toBe(5);
    expect(replayed(await gateway.post(chat(), named()))).toBe('true');
  });

  test('is refused before it is sent can be repeated', async () => {
    const unknown = await gateway.post(chat({ model: 'test/none' }), named());
    const good = await gateway.post(chat(), named());
    expect([unknown.status, good.status]).toEqual([404, 200]);
  });

  test('breaks off in the middle can be repeated', async () => {
    upstream.script('chat', [cutMidStream(3), chatAnswer('Whole')]);
    const cut = await gateway.stream(chat(), named());
    expect(cut.error?.message).toBe("The provider's answer was interrupted.");
    const again = await gateway.stream(chat(), named());
    expect([again.content, replayed(again)]).toEqual(['Whole', null]);
  });

  test('is left by its client can be repeated', async () => {
    upstream.script('chat', [
      gated('never', 3, chatAnswer('one two three four')),
      chatAnswer('Whole'),
    ]);
    const leaving = new AbortController();
    const options = { ...named(), signal: leaving.signal };
    const response = await gateway.fetch(chat({ stream: true }), options);
    await new SlowReader(response).readUntil('two');
    leaving.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const again = await gateway.post(chat(), named());
    expect([contentOf(again), replayed(again)]).toEqual(['Whole', null]);
  });

  test('is still running makes its repetitions wait; they cost nothing', async () => {
    upstream.script('chat', gated('go', 0, chatAnswer('For all', tokens(30, 10))));
    const first = gateway.post(chat(), named());
    await upstream.until((requests) => requests.length > 0);
    const others = [
      gateway.post(chat(), named()),
      gateway.fetch(chat({ stream: true }), named()).then(readSse),
      gateway.post(chat(), named()),
    ];
    const different = await gateway.post(chat({ seed: 9 }), named());
    expect(different.status).toBe(409);
    upstream.open('go');
    const ended = await Promise.all([first, ...others]);
    expect(ended.map(replayed)).toEqual([null, 'true', 'true', 'true']);
    expect(new Set(ended.map(({ requestId }) => requestId)).size).toBe(1);
    expect([asked(), await spent()]).toEqual([1, 50]);
  });

  test('fails makes one of those who wait the first', async () => {
    upstream.script('chat', [
      gated('fail', 0, status500()),
      chatAnswer('Second try', tokens(3, 1)),
    ]);
    const first = gateway.post(chat(), named());
    await upstream.until((requests) => requests.length > 0);
    const others = [gateway.post(chat(), named()), gateway.post(chat(), named())];
    await Bun.sleep(20);
    upstream.open('fail');
    expect((await first).status).toBe(502);
    const ended = await Promise.all(others);
    expect(ended.map(contentOf)).toEqual(['Second try', 'Second try']);
    expect(ended.map(replayed).sort()).toEqual(['true', null].sort());
    expect([asked(), await spent()]).toEqual([2, 5]);
  });
});
