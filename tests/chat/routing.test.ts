import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { ActiveClock } from '../support/active-clock.ts';
import {
  type Behavior,
  chatAnswer,
  errorInside200,
  gated,
  hangBeforeHeaders,
  hangMidStream,
  json,
  refusingUrl,
  replay,
  resetBeforeHeaders,
  resetMidStream,
  slowDrip,
  startFakeUpstream,
  status,
  status429,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, contentOf, InProcessGateway } from '../support/in-process.ts';

/** Where a request goes, and where it goes next: section «Routing» over real sockets. */

const upstreamKey = 'sk-upstream-0123456789abcdef';
const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Every test that breaks an offer gets models of its own, so that no circuit carries over. */
const brokenModels = Array.from({ length: 80 }, (_, i) => `case-${i}`);
let nextCase = 0;

interface Case {
  readonly model: string;
  /** The upstream names of its endpoints, by priority: first at `alpha`, then at `beta`. */
  readonly first: string;
  readonly second: string;
}

function freshCase(): Case {
  const name = brokenModels[nextCase++];
  if (name === undefined) throw new Error('Add more models to brokenModels.');
  return { model: `acme/${name}`, first: `${name}-first`, second: `${name}-second` };
}

beforeAll(async () => {
  const base = { dialect: 'openai', base_url: `${upstream.url}/v1` };
  const impatient = { timeout_ms: 600, idle_timeout_ms: 600 };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      alpha: { ...base, ...impatient, api_key: upstreamKey },
      beta: base,
      calm: { ...base, idle_timeout_ms: 1_500 },
      gamma: base,
      absent: { ...base, base_url: `${refusingUrl()}/v1` },
      picky: { ...base, quirks: { drop_params: ['seed'] } },
      gemini: { ...base, dialect: 'gemini' },
    },
    models: [
      ...brokenModels.map((name) =>
        chatModel(`acme/${name}`, [
          { provider: 'alpha', model: `${name}-first`, priority: 0 },
          { provider: 'beta', model: `${name}-second`, priority: 1 },
        ]),
      ),
      // Written in another order than their priorities say.
      chatModel('acme/three', [
        { provider: 'gamma', model: 'three-c', priority: 2, pricing: price('0.1', '0.1') },
        { provider: 'alpha', model: 'three-a', priority: 0, pricing: price('3', '9') },
        { provider: 'beta', model: 'three-b', priority: 1, pricing: price('1', '2') },
      ]),
      chatModel('acme/other', [{ provider: 'beta', model: 'other-b', pricing: price('0.5', '1') }]),
      chatModel('acme/long', [{ provider: 'calm', model: 'long-a' }]),
      chatModel('acme/lost', [{ provider: 'absent', model: 'lost-a' }]),
      // Gemini has no word for who asks.
      chatModel('acme/nameless', [
        { provider: 'gemini', model: 'nameless-g', priority: 0 },
        { provider: 'beta', model: 'nameless-b', priority: 1 },
      ]),
      chatModel('acme/picky', [
        { provider: 'picky', model: 'picky-p', priority: 0 },
        { provider: 'beta', model: 'picky-b', priority: 1 },
      ]),
      chatModel('acme/many', [
        ...Array.from({ length: 20 }, (_, i) => ({ provider: 'beta', model: `many-${i}` })),
      ]),
      ...Array.from({ length: 16 }, (_, i) =>
        chatModel(`acme/link-${i}`, [{ provider: 'beta', model: `link-${i}` }]),
      ),
      chatModel('acme/plain', [{ provider: 'beta', model: 'plain-b' }], { features: [] }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

function price(prompt: string, completion: string) {
  return { prompt, completion };
}

function ask(model: string, more: object = {}): Record<string, unknown> {
  return { model, messages: [{ role: 'user', content: 'hi' }], ...more };
}

const asked = () => upstream.requests.map((entry) => entry.model);

async function trailOf(requestId: string): Promise<string[]> {
  const { attempts } = await gateway.record(requestId);
  return attempts.map(({ provider, outcome }) => `${provider} ${outcome}`);
}

/** Asks for a model and says which upstream model was tried first. */
async function firstTried(model: string, more: object = {}): Promise<string | undefined> {
  upstream.reset();
  const reply = await gateway.post(ask(model, more));
  expect(reply.status).toBe(200);
  return upstream.requests[0]?.model;
}

describe('the order of candidates', () => {
  test('endpoints are tried by priority, whatever order the operator wrote them in', async () => {
    upstream.script('three-a', status500());
    upstream.script('three-b', status500());
    const reply = await gateway.post(ask('acme/three'));
    expect(reply.status).toBe(200);
    expect(asked()).toEqual(['three-a', 'three-b', 'three-c']);
    expect(reply.json.provider).toBe('gamma');
  });

  test('provider.order puts the listed first and the rest behind them', async () => {
    upstream.script('three-c', status500());
    upstream.script('three-b', status500());
    await gateway.post(ask('acme/three', { provider: { order: ['gamma', 'beta'] } }));
    expect(asked()).toEqual(['three-c', 'three-b', 'three-a']);
  });

  test('provider.only leaves nobody else', async () => {
    upstream.script('three-b', status500());
    const reply = await gateway.post(ask('acme/three', { provider: { only: ['beta'] } }));
    expect(reply.status).toBe(502);
    expect(asked()).toEqual(['three-b']);
  });

  test('provider.ignore takes providers out', async () => {
    const ignore = { provider: { ignore: ['alpha', 'beta'] } };
    expect(await firstTried('acme/three', ignore)).toBe('three-c');
  });

  test.each([
    ['only an unknown one', { only: ['nobody'] }],
    ['none of those wanted', { only: ['beta'], ignore: ['beta'] }],
    ['all ignored', { ignore: ['alpha', 'beta', 'gamma'] }],
    ['none cheap enough', { max_price: { prompt: 0.01 } }],
    ['nobody listed', { order: ['nobody'], allow_fallbacks: false }],
  ])('nothing left (%s) is 404 with the param provider', async (_, provider) => {
    const reply = await gateway.post(ask('acme/three', { provider }));
    expect(reply.status).toBe(404);
    for (const wish of ['only', 'ignore', 'max_price', 'order']) {
      expect(String(reply.error.message).includes(`provider.${wish}`)).toBe(wish in provider);
    }
    expect(reply.error).toMatchObject({ type: 'invalid_request_error', param: 'provider' });
    expect(upstream.requests).toHaveLength(0);
  });

  test('provider.sort price asks the cheapest first', async () => {
    expect(await firstTried('acme/three', { provider: { sort: 'price' } })).toBe('three-c');
  });

  test('provider.max_price rules out whoever asks more, for either kind of token', async () => {
    const most = (max_price: object) => ({ provider: { max_price } });
    expect(await firstTried('acme/three', most({ prompt: 1 }))).toBe('three-b');
    expect(await firstTried('acme/three', most({ completion: '1.99' }))).toBe('three-c');
    expect(await firstTried('acme/three', most({ prompt: 3, completion: 9 }))).toBe('three-a');
    expect(await firstTried('acme/three', most({ prompt: 5_000_000_000 }))).toBe('three-a');
  });

  test('provider.sort latency asks whoever answered fastest', async () => {
    upstream.script('picky-p', gated('slow', 0, chatAnswer('at last')));
    const slow = gateway.post(ask('acme/picky'));
    await upstream.until((requests) => requests.find(({ model }) => model === 'picky-p'));
    // All of this call lies within the slow one, and so does whatever delays it.
    await gateway.post(ask('acme/picky', { provider: { only: ['beta'] } }));
    await Bun.sleep(80);
    upstream.open('slow');
    expect((await slow).status).toBe(200);
    expect(await firstTried('acme/picky', { provider: { sort: 'latency' } })).toBe('picky-b');
    expect(await firstTried('acme/picky')).toBe('picky-p');
  });

  test('route fallback keeps the chain’s order, route sort mixes all by price', async () => {
    const chain = { models: ['acme/other'] };
    expect(await firstTried('acme/three', chain)).toBe('three-a');
    expect(await firstTried('acme/three', { ...chain, route: 'sort' })).toBe('three-c');
    upstream.reset();
    for (const name of ['three-a', 'three-b', 'three-c']) upstream.script(name, status500());
    const reply = await gateway.post(ask('acme/three', { ...chain, route: 'sort' }));
    expect(asked()).toEqual(['three-c', 'other-b']);
    expect(reply.json.model).toBe('acme/other');
  });

  test('require_parameters skips endpoints that would drop one', async () => {
    const strict = { provider: { require_parameters: true } };
    expect(await firstTried('acme/picky', { seed: 7 })).toBe('picky-p');
    expect(upstream.requests[0]?.json).not.toHaveProperty('seed');
    expect(await firstTried('acme/picky', { seed: 7, ...strict })).toBe('picky-b');
    expect(upstream.requests[0]?.json).toHaveProperty('seed', 7);
    expect(await firstTried('acme/picky', { top_p: 1, ...strict })).toBe('picky-p');
    expect(await firstTried('acme/nameless', { user: 'ann', ...strict })).toBe('nameless-b');
    expect(upstream.requests[0]?.json).toHaveProperty('user', 'ann');
  });

  test('a model that cannot serve the request is passed over for one that can', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    const chain = ask('acme/plain', { models: ['acme/other'], tools });
    const reply = await gateway.post(chain);
    expect(reply.json.model).toBe('acme/other');
    expect(asked()).toEqual(['other-b']);
    const alone = await gateway.post(ask('acme/plain', { tools }));
    expect(alone.status).toBe(400);
    expect(alone.error).toMatchObject({ type: 'model_capability_mismatch' });
  });

  test('models that nobody knows are passed over as long as one is known', async () => {
    const reply = await gateway.post(ask('acme/unheard-of', { models: ['acme/other'] }));
    expect(reply.json.model).toBe('acme/other');
    const alone = await gateway.post(ask('acme/othr'));
    expect(alone.status).toBe(404);
    expect(alone.error).toMatchObject({ type: 'invalid_request_error', param: 'model' });
    expect(alone.error.message).toContain('acme/other');
  });
});

describe('moving on before the first byte', () => {
  const movesOn: [string, Behavior, string][] = [
    ['401', status(401), 'credential'],
    ['403', status(403), 'credential'],
    ['408', status(408), 'timeout'],
    ['409', status(409), 'server'],
    ['425', status(425), 'server'],
    ['429', status429(), 'rate_limited'],
    ['500', status500(), 'server'],
    ['502', status(502), 'server'],
    ['503', status(503), 'overloaded'],
    ['504', status(504), 'timeout'],
    ['529', status(529), 'overloaded'],
    ['a reset connection', resetBeforeHeaders(), 'unreachable'],
    ['silence before the headers', hangBeforeHeaders(), 'timeout'],
    ['silence behind the headers', hangMidStream(0), 'timeout'],
    ['an error in the first event', errorInside200(0), 'server'],
    ['an error behind the opening chunk', errorInside200(1), 'server'],
    ['a reset behind the opening chunk', resetMidStream(1), 'unreachable'],
  ];
  for (const stream of [false, true]) {
    const form = stream ? 'a stream' : 'a whole answer';
    test.each(movesOn)(`${form}: %s leads to the next provider`, async (_, failure, outcome) => {
      const { model, first, second } = freshCase();
      upstream.script(first, failure);
      upstream.script(second, chatAnswer('from the second'));
      const body = ask(model);
      const reply = stream ? await gateway.stream(body) : await gateway.post(body);
      expect(reply.status).toBe(200);
      expect('content' in reply ? reply.content : contentOf(reply)).toBe('from the second');
      // What is reset on a connection that lay idle is asked once more on a new one.
      expect([...new Set(asked())]).toEqual([first, second]);
      expect(await trailOf(reply.requestId)).toEqual([`alpha ${outcome}`, 'beta answered']);
    });
  }

  test.each([
    ['400', status(400)],
    ['404', status(404)],
    ['413', status(413)],
    ['422', status(422)],
    ['400 for a model', json(400, { error: { message: 'No', code: 'model_not_found' } })],
    ['400 for a seed', json(400, { error: { message: 'No', code: 'unsupported_parameter' } })],
  ])(
    '%s skips the other providers of the same model and asks the next model',
    async (_, refusal) => {
      const [bad, good] = [freshCase(), freshCase()];
      upstream.script(bad.first, refusal);
      upstream.script(good.first, chatAnswer('another model'));
      const reply = await gateway.post(ask(bad.model, { models: [good.model] }));
      expect(asked()).toEqual([bad.first, good.first]);
      expect(reply.json.model).toBe(good.model);
      expect(await trailOf(reply.requestId)).toEqual(['alpha request', 'alpha answered']);
    },
  );

  test('with route sort a model that refused is not asked again at another provider', async () => {
    const [one, two] = [freshCase(), freshCase()];
    upstream.script(one.first, status(400, 'no'));
    upstream.script(two.first, status(400, 'no'));
    // The order asks alpha for both models before it asks beta for either.
    const provider = { order: ['alpha'] };
    const body = ask(one.model, { models: [two.model], route: 'sort', provider });
    const reply = await gateway.post(body);
    expect(reply.status).toBe(400);
    expect(asked()).toEqual([one.first, two.first]);
  });

  test('an unreachable provider leads to the next model, and the log says so', async () => {
    const reply = await gateway.post(ask('acme/lost', { models: ['acme/other'] }));
    expect(reply.status).toBe(200);
    expect(reply.json).toMatchObject({ model: 'acme/other', provider: 'beta' });
    expect(await trailOf(reply.requestId)).toEqual(['absent unreachable', 'beta answered']);
    const record = await gateway.record(reply.requestId);
    expect(record).toMatchObject({
      requestedModel: 'acme/lost',
      model: 'acme/other',
      provider: 'beta',
      status: 'success',
    });
    const generation = await gateway.get(`/v1/generation?id=${reply.requestId}`);
    expect(generation.json.data).toMatchObject({ model: 'acme/other', provider_name: 'beta' });
  });

  test('allow_fallbacks false tries one candidate and no more', async () => {
    const { model, first } = freshCase();
    upstream.script(first, status500());
    const provider = { allow_fallbacks: false };
    const reply = await gateway.post(ask(model, { models: ['acme/other'], provider }));
    expect(reply.status).toBe(502);
    expect(asked()).toEqual([first]);
  });

  test('allow_fallbacks false with an order takes only those listed', async () => {
    const { model, second } = freshCase();
    const provider = { order: ['beta'], allow_fallbacks: false };
    expect(await firstTried(model, { provider })).toBe(second);
    const none = await gateway.post(
      ask(model, { provider: { order: ['gamma'], allow_fallbacks: false } }),
    );
    expect(none.status).toBe(404);
    expect(none.error.param).toBe('provider');
  });

  test('a request makes at most sixteen attempts, however many endpoints there are', async () => {
    upstream.script('*', status500());
    const reply = await gateway.post(ask('acme/many'));
    expect(reply.status).toBe(502);
    expect(upstream.requests).toHaveLength(16);
    expect((await gateway.record(reply.requestId)).attempts).toHaveLength(16);
  });

  test('the longest chain that is allowed is tried to its end', async () => {
    upstream.script('*', status(400));
    upstream.script('link-15', chatAnswer('at last'));
    const chain = Array.from({ length: 16 }, (_, i) => `acme/link-${i}`);
    const reply = await gateway.post({ ...ask(''), model: undefined, models: chain });
    expect(reply.status).toBe(200);
    expect(asked()).toEqual(chain.map((alias) => alias.slice('acme/'.length)));
  });

  test('a model named again in the chain is tried once and counted once', async () => {
    upstream.script('*', status500());
    for (const again of [2, 17]) {
      const models = Array.from({ length: again }, () => 'acme/other');
      expect((await gateway.post(ask('acme/other', { models }))).status).toBe(502);
    }
    expect(upstream.requests).toHaveLength(2);
  });
});

describe('after the first byte', () => {
  test.each([
    ['a reset', resetMidStream(3)],
    ['an error inside', errorInside200(3)],
    ['silence', hangMidStream(3)],
  ])('%s ends the answer and no second provider is asked', async (_, failure) => {
    const { model, first } = freshCase();
    upstream.script(first, failure);
    const reading = await gateway.stream(ask(model, { models: ['acme/other'] }));
    expect(reading.status).toBe(200);
    expect(reading.content).toBe('w1 w2');
    expect(reading.error).toMatchObject({ type: 'upstream_error' });
    expect(asked()).toEqual([first]);
    expect(await trailOf(reading.requestId)).toEqual(['alpha answered']);
  });

  test.each([
    ['long', 300_000, 100_000],
    ['short', 100, 50],
  ])('each piece of a %s answer has its time, not all of it together', async (_, count, bytes) => {
    const words = 'word '.repeat(count);
    upstream.script('long-a', slowDrip(bytes, 150, chatAnswer(words)));
    const reply = await gateway.post(ask('acme/long'));
    expect(reply.status).toBe(200);
    expect(contentOf(reply)).toBe(words);
  });
});

describe('what the client hears when everybody failed', () => {
  test('all rate limited is 503 with the shortest wait', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status429('30'));
    upstream.script(second, status429('7'));
    const reply = await gateway.post(ask(model));
    expect(reply.status).toBe(503);
    expect(reply.error).toMatchObject({ type: 'upstream_error', code: 503, param: null });
    expect(reply.headers.get('retry-after')).toBe('7');
    expect(reply.headers.get('retry-after-ms')).toBe('7000');
  });

  test('one rate limited and one broken is 502, and worth another try', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status429('30'));
    upstream.script(second, status500());
    const reply = await gateway.post(ask(model));
    expect(reply.status).toBe(502);
    expect(reply.headers.has('x-should-retry')).toBe(false);
    expect(reply.headers.has('retry-after')).toBe(false);
  });

  test('silence to the end is 504', async () => {
    const { model, first } = freshCase();
    upstream.script(first, hangBeforeHeaders());
    using activeClock = new ActiveClock();
    const reply = await gateway.post(ask(model, { provider: { only: ['alpha'] } }));
    expect(reply.status).toBe(504);
    expect(activeClock.ms).toBeLessThan(1_500);
  });

  test.each([401, 403])(
    'an upstream %d is never shown as ours, nor are its words',
    async (code) => {
      const { model, first, second } = freshCase();
      upstream.script(first, status(code, `Bad key ${upstreamKey}`));
      upstream.script(second, status(code, `Bad key ${upstreamKey}`));
      const reply = await gateway.post(ask(model));
      expect(reply.status).toBe(502);
      expect(reply.text).not.toContain('key');
    },
  );

  test('an upstream 400 arrives as ours, without upstream model names and keys', async () => {
    const { model, first } = freshCase();
    const message = `The model ${first} takes no "top_k" (key ${upstreamKey}, or sk-proj-abcdef12)`;
    upstream.script(first, status(400, message));
    const reply = await gateway.post(ask(model));
    expect(reply.status).toBe(400);
    expect(reply.error).toEqual({
      message: `The model ${model} takes no "top_k" (key [key], or [key])`,
      type: 'invalid_request_error',
      code: 400,
      param: null,
    });
  });

  test('a failed request is in the log with its trail and costs nothing', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    upstream.script(second, status(503));
    const reply = await gateway.post(ask(model));
    const record = await gateway.record(reply.requestId);
    expect(record).toMatchObject({
      requestedModel: model,
      model: null,
      provider: null,
      status: 'error',
      error: 'upstream_error',
    });
    expect(record.charges.modelCharge).toBe(0);
    expect(record.attempts).toMatchObject([
      { provider: 'alpha', outcome: 'server', status: 500 },
      { provider: 'beta', outcome: 'overloaded', status: 503 },
    ]);
  });
});

describe('the circuit breaker', () => {
  test('five failures in a row move an offer to the end until it has recovered', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    for (let i = 0; i < 5; i++) expect(await firstTriedNow(model)).toBe(first);
    expect(await firstTriedNow(model)).toBe(second);
    expect(upstream.requests.slice(10).map((entry) => entry.model)).toEqual([second]);
  });

  test('an offer with an open circuit is still the last resort', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    for (let i = 0; i < 5; i++) await gateway.post(ask(model));
    upstream.reset();
    upstream.script(second, status500());
    const reply = await gateway.post(ask(model));
    expect(reply.status).toBe(200);
    expect(asked()).toEqual([second, first]);
  });

  test('five answers in a row that break off do so too, though each had begun', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, resetMidStream(2, chatAnswer('one two three')));
    for (let i = 0; i < 6; i++) await gateway.stream(ask(model));
    expect(asked()).toEqual([first, first, first, first, first, second]);
  });

  test('so does an offer that goes on breaking every second answer off', async () => {
    const { model, first, second } = freshCase();
    const broken = resetMidStream(2, chatAnswer('one two three'));
    const turns = Array.from({ length: 20 }, (_, i) => (i % 2 ? broken : chatAnswer('whole')));
    upstream.script(first, turns);
    for (let i = 0; i < 20; i++) await gateway.stream(ask(model));
    expect(asked().slice(-2)).toEqual([second, second]);
  });

  test('refusals of the request itself say nothing about the offer', async () => {
    const { model, first } = freshCase();
    upstream.script(first, status(400));
    for (let i = 0; i < 6; i++) await gateway.post(ask(model));
    upstream.reset();
    expect(await firstTried(model)).toBe(first);
  });

  test('nor does one that is refused in the middle of its answer', async () => {
    const { model, first } = freshCase();
    const words = { choices: [{ index: 0, delta: { content: 'Well' }, finish_reason: null }] };
    const error = { message: 'It was flagged.', code: 'content_policy_violation' };
    const told = [words, { error }].map((one) => `data: ${JSON.stringify(one)}\n\n`);
    upstream.script(first, replay(told.join('')));
    for (let i = 0; i < 6; i++) await gateway.stream(ask(model));
    expect(asked()).toEqual(Array(6).fill(first));
  });

  test('one broken model does not condemn the other models of its provider', async () => {
    const [bad, good] = [freshCase(), freshCase()];
    upstream.script(bad.first, status500());
    for (let i = 0; i < 6; i++) await gateway.post(ask(bad.model));
    expect(await firstTried(good.model)).toBe(good.first);
  });

  /** Like firstTried, but keeps the scripts. */
  async function firstTriedNow(model: string): Promise<string | undefined> {
    const before = upstream.requests.length;
    await gateway.post(ask(model));
    return upstream.requests[before]?.model;
  }
});

test('the answer of a chain names the alias that answered, in streams too', async () => {
  const { model, first, second } = freshCase();
  upstream.script(first, status500());
  upstream.script(second, status500());
  const reading = await gateway.stream(ask(model, { models: ['acme/other'] }));
  expect(new Set(reading.chunks.map((chunk) => chunk.model))).toEqual(new Set(['acme/other']));
});
