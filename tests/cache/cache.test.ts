/**
 * Answers that are given again. The upstream's book says how often it was really asked.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { isObject } from '../../src/core/json.ts';
import {
  callTools,
  cutMidStream,
  embeddings,
  gated,
  json,
  withoutUsage,
  replay,
  chatAnswer,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import {
  chatModel,
  InProcessGateway,
  type Reply,
  type SendOptions,
} from '../support/in-process.ts';
import { withinOneMinute } from '../support/clock-boundaries.ts';
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

let turn = 0;
beforeEach(() => {
  upstream.reset();
  turn += 1;
});

/** Another question for each test, so that they do not answer each other's. */
function question(fields: object = {}): object {
  const messages = [{ role: 'user', content: `Question ${turn}` }];
  return { model: 'test/chat', temperature: 0, messages, ...fields };
}

const asked = () => upstream.requests.length;

async function ask(fields: object = {}, options: SendOptions = {}) {
  const reply = await gateway.post(JSON.stringify(question(fields)), options);
  const record = await gateway.record(reply.requestId);
  return { ...reply, record, cache: reply.headers.get('x-cache') };
}

function textOf(json: Record<string, unknown>): unknown {
  const [choice] = Array.isArray(json.choices) ? json.choices : [];
  return isObject(choice) && isObject(choice.message) ? choice.message.content : undefined;
}

const spoken = ({ text, headers }: Reply) => new Response(text, { headers });

describe('the response cache', () => {
  test('gives an answer at temperature 0 again, under a new name, free of charge', async () => {
    upstream.script('chat', chatAnswer('Forty-two'));
    const first = await ask();
    const second = await ask();
    expect([first.cache, second.cache]).toEqual(['MISS', 'HIT']);
    expect(second.headers.get('x-cache-model')).toBe('test/chat');
    expect(asked()).toBe(1);
    expect(textOf(second.json)).toBe('Forty-two');
    expect(second.json.id).not.toBe(first.json.id);
    const [before, after] = [first.json.usage, second.json.usage];
    expect(isObject(before) && isObject(after)).toBe(true);
    expect(after).toEqual({ ...(before as object), cost: 0 });
    expect(first.record.charges.modelCharge).toBeGreaterThan(0);
    expect(second.record).toMatchObject({ cacheHit: true, status: 'success', model: 'test/chat' });
    expect(second.record.charges.modelCharge).toBe(0);
    expect(second.record.note).toContain('nothing is charged');
  });

  test('serves streams and whole replies from one entry, in either order', async () => {
    upstream.script('chat', chatAnswer('Both of them'));
    await ask();
    const streamed = await ask({ stream: true, stream_options: { include_usage: true } });
    expect(streamed.cache).toBe('HIT');
    const reading = await readSse(spoken(streamed));
    expect(reading.content).toBe('Both of them');
    expect([reading.dones, reading.finishReasons]).toEqual([1, ['stop']]);
    expect(reading.usage).toMatchObject({ cost: 0 });
    expect(asked()).toBe(1);

    turn += 1000;
    upstream.script('chat', chatAnswer('The other way'));
    const live = await ask({ stream: true });
    const whole = await ask();
    const again = await ask({ stream: true });
    expect([live.cache, whole.cache, again.cache]).toEqual(['MISS', 'HIT', 'HIT']);
    expect(textOf(whole.json)).toBe('The other way');
    expect((await readSse(spoken(again))).content).toBe('The other way');
    expect(asked()).toBe(2);
  });

  test('gives an end in words of its own again, in either form', async () => {
    const message = { role: 'assistant', content: 'Hi' };
    const choices = [{ index: 0, message, finish_reason: 'foo_"bar"' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    const whole = await ask();
    const streamed = await ask({ stream: true });
    expect([whole.cache, streamed.cache]).toEqual(['MISS', 'HIT']);
    expect(whole.json.choices).toMatchObject([{ finish_reason: 'foo_"bar"' }]);
    expect((await readSse(spoken(streamed))).finishReasons).toEqual(['foo_"bar"']);
    expect(streamed.record.finishReason).toBe('foo_"bar"');
  });

  test('gives thoughts again under the name the provider gave them, in either form', async () => {
    const thought = { reasoning_content: 'Six by nine' };
    const message = { role: 'assistant', content: 'Hi', ...thought };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    await ask();
    const streamed = await ask({ stream: true });
    expect(streamed.cache).toBe('HIT');
    expect(streamed.text).toContain('"reasoning":"Six by nine","reasoning_content":"Six by nine"');

    turn += 1000;
    const chunks = [
      { choices: [{ index: 0, delta: { content: 'Hi', reasoning_content: 'Six ' } }] },
      { choices: [{ index: 0, delta: { reasoning_content: 'by nine' }, finish_reason: 'stop' }] },
      '[DONE]',
    ].map((chunk) => `data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`);
    upstream.script('chat', replay(chunks.join(''), { contentType: 'text/event-stream' }));
    await ask({ stream: true });
    const whole = await ask();
    expect(whole.cache).toBe('HIT');
    expect(whole.json.choices).toMatchObject([
      { message: { reasoning: 'Six by nine', ...thought } },
    ]);
  });

  test('gives sound again in the form it came in only', async () => {
    const audio = { id: 'audio_1', data: 'UklGRg==', transcript: 'Hi', expires_at: 1 };
    const message = { role: 'assistant', content: null, audio };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    const modalities = ['text', 'audio'];
    await ask({ modalities });
    const again = await ask({ modalities });
    expect(again.cache).toBe('HIT');
    expect(again.json.choices).toMatchObject([{ message: { audio } }]);
    upstream.script('chat', chatAnswer('Heard'));
    expect((await ask({ modalities, stream: true })).cache).toBe('MISS');
  });

  test('says again what its provider was not asked for', async () => {
    const fields = { model: 'test/claude', seed: 7 };
    const told = (reply: Reply) => reply.headers.get('x-tollgate-dropped-params');
    const answers = [await ask(fields), await ask(fields), await ask({ ...fields, stream: true })];
    expect(answers.map(({ cache }) => cache)).toEqual(['MISS', 'HIT', 'HIT']);
    expect(answers.map(told)).toEqual(['seed', 'seed', 'seed']);
    const another = { ...fields, seed: undefined };
    expect([told(await ask(another)), told(await ask(another))]).toEqual([null, null]);
  });

  test('leaves requests alone that may be answered differently each time', async () => {
    for (const fields of [{ temperature: undefined }, { temperature: 0.5 }]) {
      await ask(fields);
      expect((await ask(fields)).cache).toBe('MISS');
    }
    expect(asked()).toBe(4);
  });

  test('does not take a different question for the same', async () => {
    await ask();
    const others = [
      { seed: 1 },
      { model: 'test/other' },
      { user: 'u' },
      { provider: { sort: 'price' } },
    ];
    for (const other of others) expect((await ask(other)).cache).toBe('MISS');
    const reordered = Object.fromEntries(Object.entries(question()).reverse());
    const same = await gateway.post(JSON.stringify(reordered));
    expect(same.headers.get('x-cache')).toBe('HIT');
    expect(asked()).toBe(5);
    // Both are 2^53 to whoever reads numbers as floats; the provider gets them as they are.
    for (const [at, seed] of ['9007199254740992', '9007199254740993'].entries()) {
      const exact = JSON.stringify(question({ seed: 0 })).replace('"seed":0', `"seed":${seed}`);
      for (const path of ['/v1/chat/completions', '/v1/messages']) {
        const body = exact.replace('{', '{"max_tokens":10,');
        const reply = await gateway.post(body, { path });
        expect([at, path, reply.headers.get('x-cache')]).toEqual([at, path, 'MISS']);
      }
    }
  });

  test.each(['/v1/chat/completions', '/v1/messages', '/v1/responses'])(
    'knows a question again however its way is spelt: %s',
    async (path) => {
      const rest = { model: 'test/chat', temperature: 0 };
      const spellings = [
        { ...rest },
        { ...rest, models: ['test/chat'] },
        { ...rest, model: null, models: ['test/chat', 'test/chat'] },
        { ...rest, route: 'fallback', provider: { allow_fallbacks: true, order: [] } },
        { ...rest, models: ['test/other'] },
      ];
      const said =
        path === '/v1/responses'
          ? { input: `Way ${turn}` }
          : { max_tokens: 10, messages: [{ role: 'user', content: `Way ${turn}` }] };
      const found: unknown[] = [];
      for (const way of spellings) {
        const reply = await gateway.post(JSON.stringify({ ...way, ...said }), { path });
        found.push(reply.headers.get('x-cache'));
      }
      expect(found).toEqual(['MISS', 'HIT', 'HIT', 'HIT', 'MISS']);
      expect(asked()).toBe(2);
    },
  );

  test('obeys Cache-Control', async () => {
    const control = (value: string) => ({ headers: { 'cache-control': value } });
    await ask({}, control('no-store'));
    expect((await ask()).cache).toBe('MISS');
    expect((await ask({}, control('no-store'))).cache).toBe('MISS');
    expect((await ask({}, control('max-age=60'))).cache).toBe('HIT');
    await Bun.sleep(5);
    expect((await ask({}, control('max-age=0'))).cache).toBe('MISS');
    expect((await ask({}, control('no-cache'))).cache).toBe('MISS');
    expect((await ask()).cache).toBe('HIT');
    expect(asked()).toBe(5);
  });

  test('keeps nothing that failed', async () => {
    upstream.script('chat', [status500(), chatAnswer('Now')]);
    expect((await ask()).status).toBe(502);
    const next = await ask();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Now']);
  });

  test('sends one of many identical requests at once; the others cost nothing', async () => {
    upstream.script('chat', gated('go', 0, chatAnswer('Once')));
    const many = Array.from({ length: 20 }, (_, i) => ask(i % 2 ? { stream: true } : {}));
    await upstream.until((requests) => requests.length > 0);
    upstream.open('go');
    const answers = await Promise.all(many);
    expect(asked()).toBe(1);
    expect(answers.filter(({ cache }) => cache === 'MISS')).toHaveLength(1);
    const charged = answers.filter(({ record }) => record.charges.modelCharge > 0);
    expect(charged).toHaveLength(1);
  });

  test('tells the estimate of the first time where no provider counted', async () => {
    upstream.script('chat', withoutUsage(chatAnswer('Silent')));
    const first = await ask();
    const again = await ask();
    const streamed = await ask({ stream: true, stream_options: { include_usage: true } });
    expect([again.cache, streamed.cache]).toEqual(['HIT', 'HIT']);
    expect(first.record.usageEstimated).toBe(true);
    expect(first.json.usage).toMatchObject({ completion_tokens: 2 });
    const free = { ...(first.json.usage as object), cost: 0 };
    expect(again.json.usage).toEqual(free);
    expect((await readSse(spoken(streamed))).usage).toEqual(free);
    expect(again.record.charges.modelCharge).toBe(0);
  });

  test('replays an answer without a finish reason without inventing one', async () => {
    const message = { role: 'assistant', content: 'Open end' };
    const choices = [{ index: 0, message, finish_reason: null }];
    upstream.script('chat', json(200, { id: 'x', object: 'chat.completion', choices }));
    await ask();
    const streamed = await ask({ stream: true });
    expect(streamed.cache).toBe('HIT');
    expect(streamed.text).toContain('"content":"Open end"');
    expect(streamed.text).not.toContain('"finish_reason":"stop"');
    expect(streamed.text).toEndWith('data: [DONE]\n\n');
  });
});

describe('whose answer it is', () => {
  test('another tenant never gets it', async () => {
    const stranger = await gateway.makeTenant({ id: `stranger${turn}`, name: 'Stranger' });
    upstream.script('chat', [chatAnswer('Ours'), chatAnswer('Theirs')]);
    await ask();
    const theirs = await gateway.post(question(), { key: stranger });
    expect([theirs.headers.get('x-cache'), textOf(theirs.json)]).toEqual(['MISS', 'Theirs']);
    expect(textOf((await ask()).json)).toBe('Ours');
    const again = await gateway.post(question(), { key: stranger });
    expect([again.headers.get('x-cache'), textOf(again.json)]).toEqual(['HIT', 'Theirs']);
  });

  test('keys of one tenant share it, unless they may use different models', async () => {
    const [same, wild, only] = [
      await gateway.makeKey({}),
      await gateway.makeKey({ models: ['test/*'] }),
      await gateway.makeKey({ models: ['test/chat'] }),
    ];
    await ask();
    const caches: (string | null)[] = [];
    for (const key of [same, wild, only, only]) {
      caches.push((await gateway.post(question(), { key })).headers.get('x-cache'));
    }
    expect(caches).toEqual(['HIT', 'MISS', 'MISS', 'HIT']);
    expect(asked()).toBe(3);
  });

  test.each([
    ['/v1/chat/completions', 'test/chat', { messages: [{ role: 'user', content: 'Hi' }] }],
    ['/v1/responses', 'test/responses', { input: 'Hi' }],
  ])('nor does it share a name in the provider’s own cache, on %s', async (path, model, words) => {
    const stranger = await gateway.makeTenant({ id: `stranger${turn}`, name: 'Stranger' });
    const body = { model, ...words, prompt_cache_key: 'case-4711', cache_salt: 'case-4711' };
    for (const key of [gateway.keys.routing, stranger, gateway.keys.routing]) {
      await gateway.post(body, { path, key });
    }
    for (const field of ['prompt_cache_key', 'cache_salt']) {
      const [ours, theirs, again] = upstream.requests.map(({ json }) =>
        isObject(json) ? json[field] : undefined,
      );
      expect([ours, theirs, again]).toEqual(Array(3).fill(expect.stringMatching(/^[\w-]{43}$/)));
      expect(theirs).not.toBe(ours);
      expect(again).toBe(ours);
    }
  });

  test('a key can have it always or never', async () => {
    const [always, off] = [
      await gateway.makeKey({ cache: 'always' }),
      await gateway.makeKey({ cache: 'off' }),
    ];
    const warm = { temperature: 1 };
    expect((await ask(warm, { key: always })).cache).toBe('MISS');
    expect((await ask(warm, { key: always })).cache).toBe('HIT');
    expect((await ask({}, { key: off })).cache).toBe('MISS');
    expect((await ask({}, { key: off })).cache).toBe('MISS');
    expect((await ask()).cache).toBe('MISS');
    expect(asked()).toBe(4);
  });

  test('a hit counts as a request', async () => {
    await ask();
    const [hit, last, refused] = await withinOneMinute(async () => {
      const key = await gateway.makeKey({ requests_per_minute: 2 });
      return [await ask({}, { key }), await ask({}, { key }), await ask({}, { key })] as const;
    });
    expect([hit.cache, hit.headers.get('x-ratelimit-remaining')]).toEqual(['HIT', '1']);
    expect([last.cache, refused.status]).toEqual(['HIT', 429]);
  });
});

test('a hit counts no tokens', async () => {
  const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
  const limited = await InProcessGateway.start({
    limits: { tokens_per_minute: 100 },
    providers: { first: fake },
    models: [chatModel('test/chat', [{ provider: 'first', model: 'chat' }])],
  });
  upstream.script('chat', chatAnswer('Sixty', { usage: { prompt: 50, completion: 10 } }));
  const counted = await withinOneMinute(async () => {
    turn += 1;
    const key = await limited.makeKey({});
    const before = asked();
    const statuses: number[] = [];
    // Sixty tokens, none, none; so there is room for another sixty, and then no more.
    for (const seed of [1, 1, 1, 2, 3]) {
      statuses.push((await limited.post(question({ seed }), { key })).status);
    }
    return { statuses, asked: asked() - before };
  });
  expect(counted).toEqual({ statuses: [200, 200, 200, 200, 429], asked: 2 });
  await limited.stop();
});

describe('what is not kept', () => {
  test('a stream that breaks off', async () => {
    upstream.script('chat', [cutMidStream(3), chatAnswer('Whole')]);
    const cut = await ask({ stream: true });
    expect(cut.text).toContain('"error"');
    const next = await ask();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Whole']);
  });

  test('a stream whose client leaves', async () => {
    upstream.script('chat', [
      gated('leave', 3, chatAnswer('one two three four five')),
      chatAnswer('Stayed'),
    ]);
    const leaving = new AbortController();
    const response = await gateway.fetch(question({ stream: true }), { signal: leaving.signal });
    await new SlowReader(response).readUntil('two');
    leaving.abort();
    await upstream.until((requests) =>
      requests.find(({ outcome }) => outcome === 'client-disconnected'),
    );
    const next = await ask();
    expect([next.cache, textOf(next.json)]).toEqual(['MISS', 'Stayed']);
  });

  test('a refusal, which says MISS whether it was looked up or not', async () => {
    const unknown = await gateway.post(question({ model: 'test/none' }));
    expect([unknown.status, unknown.headers.get('x-cache')]).toEqual([404, 'MISS']);
    const bad = await gateway.post({ model: 'test/chat' });
    expect([bad.status, bad.headers.get('x-cache')]).toEqual([400, 'MISS']);
    const models = await gateway.get('/v1/models');
    expect(models.headers.get('x-cache')).toBeNull();
  });
});

describe('what is given again', () => {
  const tool = { type: 'function', function: { name: 'lookup', parameters: { type: 'object' } } };
  const rich = callTools([{ name: 'lookup', arguments: { place: 'here' }, id: 'call_7' }], {
    text: 'One moment.',
    reasoning: 'Where is it?',
  });

  test.each(['test/chat', 'test/claude'])('tool calls and thoughts, by %s', async (model) => {
    upstream.script('chat', rich);
    const fields = { model, tools: [tool] };
    const first = await ask(fields);
    const [whole, streamed] = [await ask(fields), await ask({ ...fields, stream: true })];
    expect([whole.cache, streamed.cache, asked()]).toEqual(['HIT', 'HIT', 1]);
    expect(whole.json.choices).toEqual(first.json.choices);
    const deltas = (await readSse(spoken(streamed))).chunks.flatMap(({ choices }) =>
      (choices as { delta: Record<string, unknown> }[]).map(({ delta }) => delta),
    );
    const told = JSON.stringify(deltas);
    for (const word of ['Where', 'call_7', 'lookup', 'place']) expect(told).toContain(word);
    expect((await readSse(spoken(streamed))).finishReasons).toEqual(['tool_calls']);
  });

  test.each(['test/chat', 'test/claude'])('messages to Anthropic clients, by %s', async (model) => {
    upstream.script('chat', rich);
    const path = '/v1/messages';
    const tools = [{ name: 'lookup', input_schema: { type: 'object' } }];
    const body = question({ model, max_tokens: 100, tools });
    const first = await gateway.post(body, { path });
    const again = await gateway.post(body, { path });
    const streamed = await gateway.post({ ...body, stream: true }, { path });
    const caches = [first, again, streamed].map(({ headers }) => headers.get('x-cache'));
    expect(caches).toEqual(['MISS', 'HIT', 'HIT']);
    expect(again.json.content).toEqual(first.json.content);
    expect(again.json.id).not.toBe(first.json.id);
    const seen = checkAnthropicStream(streamed.text);
    expect(seen).toMatchObject({ ended: 'complete', text: 'One moment.', stopReason: 'tool_use' });
    expect(seen).toMatchObject({ thinking: 'Where is it?', tools: [{ input: { place: 'here' } }] });
    // A client of the other kind asks in other words, and is not answered from here.
    const other = await ask({ model, max_tokens: 100, tools: [tool] });
    expect([other.cache, asked()]).toEqual(['MISS', 2]);
  });

  test('an Anthropic stream as a whole message', async () => {
    upstream.script('chat', rich);
    const path = '/v1/messages';
    const tools = [{ name: 'lookup', input_schema: { type: 'object' } }];
    for (const model of ['test/chat', 'test/claude']) {
      const body = question({ model, max_tokens: 100, tools });
      await gateway.post({ ...body, stream: true }, { path });
      const whole = await gateway.post(body, { path });
      expect(whole.headers.get('x-cache')).toBe('HIT');
      expect(whole.json).toMatchObject({ stop_reason: 'tool_use', model });
      expect(JSON.stringify(whole.json.content)).toContain('"place":"here"');
    }
  });

  test('embeddings, always, in either encoding', async () => {
    upstream.script('embed', embeddings({ dimensions: 2 }));
    const body = { model: 'test/embed', input: [`text ${turn}`] };
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
] as const)('with cache.mode %s', (mode, wanted) => {
  test('requests at temperature 0 and others', async () => {
    const fake = { dialect: 'openai', base_url: `${upstream.url}/v1`, api_key: 'sk-theirs-012345' };
    const set = await InProcessGateway.start({
      providers: { first: fake },
      models: [chatModel('test/chat', [{ provider: 'first', model: 'chat' }])],
      cache: { mode },
    });
    const caches: (string | null)[] = [];
    for (const temperature of [0, 0, 1, 1]) {
      caches.push((await set.post(question({ temperature }))).headers.get('x-cache'));
    }
    expect(caches).toEqual([...wanted]);
    await set.stop();
  });
});
