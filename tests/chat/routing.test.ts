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

// Which offers the gateway tries for a request, and in what order, over real sockets.

const upstreamKey = 'sk-upstream-0123456789abcdef';
const upstream = startFakeUpstream();
let gateway: InProcessGateway;

/** Each test that breaks an offer uses a new model, because circuits keep their state. */
const brokenModels = Array.from({ length: 80 }, (_, i) => `case-${i}`);
let nextCase = 0;

interface Case {
  readonly model: string;
  /** The upstream model at `alpha`, which has priority over `second` at `beta`. */
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
  const shortTimeouts = { timeout_ms: 600, idle_timeout_ms: 600 };
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 100_000 },
    providers: {
      alpha: { ...base, ...shortTimeouts, api_key: upstreamKey },
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
      // The endpoints are not listed in order of priority.
      chatModel('acme/three', [
        { provider: 'gamma', model: 'three-c', priority: 2, pricing: price('0.1', '0.1') },
        { provider: 'alpha', model: 'three-a', priority: 0, pricing: price('3', '9') },
        { provider: 'beta', model: 'three-b', priority: 1, pricing: price('1', '2') },
      ]),
      chatModel('acme/other', [{ provider: 'beta', model: 'other-b', pricing: price('0.5', '1') }]),
      chatModel('acme/long', [{ provider: 'calm', model: 'long-a' }]),
      chatModel('acme/lost', [{ provider: 'absent', model: 'lost-a' }]),
      // Gemini has no parameter for the end user.
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

function bodyFor(model: string, more: object = {}): Record<string, unknown> {
  return { model, messages: [{ role: 'user', content: 'hi' }], ...more };
}

const triedModels = () => upstream.requests.map((entry) => entry.model);

async function attemptsOf(requestId: string): Promise<string[]> {
  const { attempts } = await gateway.record(requestId);
  return attempts.map(({ provider, outcome }) => `${provider} ${outcome}`);
}

/** Sends a request and returns the upstream model that was tried first. */
async function firstTried(model: string, more: object = {}): Promise<string | undefined> {
  upstream.reset();
  const reply = await gateway.post(bodyFor(model, more));
  expect(reply.status).toBe(200);
  return upstream.requests[0]?.model;
}

describe('the candidate list', () => {
  test('is ordered by endpoint priority, not by position in the configuration', async () => {
    upstream.script('three-a', status500());
    upstream.script('three-b', status500());
    const reply = await gateway.post(bodyFor('acme/three'));
    expect(reply.status).toBe(200);
    expect(triedModels()).toEqual(['three-a', 'three-b', 'three-c']);
    expect(reply.json.provider).toBe('gamma');
  });

  test('starts with the providers in provider.order, followed by the other providers', async () => {
    upstream.script('three-c', status500());
    upstream.script('three-b', status500());
    await gateway.post(bodyFor('acme/three', { provider: { order: ['gamma', 'beta'] } }));
    expect(triedModels()).toEqual(['three-c', 'three-b', 'three-a']);
  });

  test('contains only the providers in provider.only', async () => {
    upstream.script('three-b', status500());
    const reply = await gateway.post(bodyFor('acme/three', { provider: { only: ['beta'] } }));
    expect(reply.status).toBe(502);
    expect(triedModels()).toEqual(['three-b']);
  });

  test('omits the providers in provider.ignore', async () => {
    const ignore = { provider: { ignore: ['alpha', 'beta'] } };
    expect(await firstTried('acme/three', ignore)).toBe('three-c');
  });

  test.each([
    ['provider.only lists an unknown provider', { only: ['nobody'] }],
    ['provider.ignore contradicts provider.only', { only: ['beta'], ignore: ['beta'] }],
    ['provider.ignore lists every provider', { ignore: ['alpha', 'beta', 'gamma'] }],
    ['provider.max_price is below every price', { max_price: { prompt: 0.01 } }],
    [
      'provider.order lists an unknown provider, without fallbacks',
      { order: ['nobody'], allow_fallbacks: false },
    ],
  ])('is empty, so the request fails with 404 and param provider: %s', async (_, provider) => {
    const reply = await gateway.post(bodyFor('acme/three', { provider }));
    expect(reply.status).toBe(404);
    for (const field of ['only', 'ignore', 'max_price', 'order']) {
      expect(String(reply.error.message).includes(`provider.${field}`)).toBe(field in provider);
    }
    expect(reply.error).toMatchObject({ type: 'invalid_request_error', param: 'provider' });
    expect(upstream.requests).toHaveLength(0);
  });

  test('starts with the cheapest offer if provider.sort is price', async () => {
    expect(await firstTried('acme/three', { provider: { sort: 'price' } })).toBe('three-c');
  });

  test('omits offers above provider.max_price for prompt or completion tokens', async () => {
    const withMaxPrice = (max_price: object) => ({ provider: { max_price } });
    expect(await firstTried('acme/three', withMaxPrice({ prompt: 1 }))).toBe('three-b');
    expect(await firstTried('acme/three', withMaxPrice({ completion: '1.99' }))).toBe('three-c');
    expect(await firstTried('acme/three', withMaxPrice({ prompt: 3, completion: 9 }))).toBe(
      'three-a',
    );
    expect(await firstTried('acme/three', withMaxPrice({ prompt: 5_000_000_000 }))).toBe('three-a');
  });

  test('starts with the fastest offer if provider.sort is latency', async () => {
    upstream.script('picky-p', gated('slow', 0, chatAnswer('at last')));
    const slow = gateway.post(bodyFor('acme/picky'));
    await upstream.until((requests) => requests.find(({ model }) => model === 'picky-p'));
    // This call starts and ends during the slow call, so it is faster even on a busy machine.
    await gateway.post(bodyFor('acme/picky', { provider: { only: ['beta'] } }));
    await Bun.sleep(80);
    upstream.open('slow');
    expect((await slow).status).toBe(200);
    expect(await firstTried('acme/picky', { provider: { sort: 'latency' } })).toBe('picky-b');
    expect(await firstTried('acme/picky')).toBe('picky-p');
  });

  test('follows the model chain if route is fallback and the price if route is sort', async () => {
    const chain = { models: ['acme/other'] };
    expect(await firstTried('acme/three', chain)).toBe('three-a');
    expect(await firstTried('acme/three', { ...chain, route: 'sort' })).toBe('three-c');
    upstream.reset();
    for (const name of ['three-a', 'three-b', 'three-c']) upstream.script(name, status500());
    const reply = await gateway.post(bodyFor('acme/three', { ...chain, route: 'sort' }));
    expect(triedModels()).toEqual(['three-c', 'other-b']);
    expect(reply.json.model).toBe('acme/other');
  });

  test('omits offers that would drop a parameter if require_parameters is set', async () => {
    const strict = { provider: { require_parameters: true } };
    expect(await firstTried('acme/picky', { seed: 7 })).toBe('picky-p');
    expect(upstream.requests[0]?.json).not.toHaveProperty('seed');
    expect(await firstTried('acme/picky', { seed: 7, ...strict })).toBe('picky-b');
    expect(upstream.requests[0]?.json).toHaveProperty('seed', 7);
    expect(await firstTried('acme/picky', { top_p: 1, ...strict })).toBe('picky-p');
    expect(await firstTried('acme/nameless', { user: 'ann', ...strict })).toBe('nameless-b');
    expect(upstream.requests[0]?.json).toHaveProperty('user', 'ann');
  });

  test('omits models that lack a feature the request needs', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    const chain = bodyFor('acme/plain', { models: ['acme/other'], tools });
    const reply = await gateway.post(chain);
    expect(reply.json.model).toBe('acme/other');
    expect(triedModels()).toEqual(['other-b']);
    const alone = await gateway.post(bodyFor('acme/plain', { tools }));
    expect(alone.status).toBe(400);
    expect(alone.error).toMatchObject({ type: 'model_capability_mismatch' });
  });

  test('omits unknown models if at least 1 model is known', async () => {
    const reply = await gateway.post(bodyFor('acme/unheard-of', { models: ['acme/other'] }));
    expect(reply.json.model).toBe('acme/other');
    const alone = await gateway.post(bodyFor('acme/othr'));
    expect(alone.status).toBe(404);
    expect(alone.error).toMatchObject({ type: 'invalid_request_error', param: 'model' });
    expect(alone.error.message).toContain('acme/other');
  });
});

describe('fallback before the first byte', () => {
  const retryable: [string, Behavior, string][] = [
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
    ['silence after the headers', hangMidStream(0), 'timeout'],
    ['an error in the first event', errorInside200(0), 'server'],
    ['an error after the opening chunk', errorInside200(1), 'server'],
    ['a reset after the opening chunk', resetMidStream(1), 'unreachable'],
  ];
  for (const stream of [false, true]) {
    const form = stream ? 'streaming' : 'non-streaming';
    test.each(retryable)(
      `tries the next provider for a ${form} request after %s`,
      async (_, failure, outcome) => {
        const { model, first, second } = freshCase();
        upstream.script(first, failure);
        upstream.script(second, chatAnswer('from the second'));
        const body = bodyFor(model);
        const reply = stream ? await gateway.stream(body) : await gateway.post(body);
        expect(reply.status).toBe(200);
        expect('content' in reply ? reply.content : contentOf(reply)).toBe('from the second');
        expect(triedModels()).toEqual([first, second]);
        expect(await attemptsOf(reply.requestId)).toEqual([`alpha ${outcome}`, 'beta answered']);
      },
    );
  }

  test.each([
    ['400', status(400)],
    ['404', status(404)],
    ['413', status(413)],
    ['422', status(422)],
    [
      '400 with code model_not_found',
      json(400, { error: { message: 'No', code: 'model_not_found' } }),
    ],
    [
      '400 with code unsupported_parameter',
      json(400, { error: { message: 'No', code: 'unsupported_parameter' } }),
    ],
  ])(
    'skips the other providers of a model and tries the next model after %s',
    async (_, refusal) => {
      const [bad, good] = [freshCase(), freshCase()];
      upstream.script(bad.first, refusal);
      upstream.script(good.first, chatAnswer('another model'));
      const reply = await gateway.post(bodyFor(bad.model, { models: [good.model] }));
      expect(triedModels()).toEqual([bad.first, good.first]);
      expect(reply.json.model).toBe(good.model);
      expect(await attemptsOf(reply.requestId)).toEqual(['alpha request', 'alpha answered']);
    },
  );

  test('does not try a model at another provider after a 400 if route is sort', async () => {
    const [one, two] = [freshCase(), freshCase()];
    upstream.script(one.first, status(400, 'no'));
    upstream.script(two.first, status(400, 'no'));
    // This order puts both of alpha's offers before both of beta's.
    const provider = { order: ['alpha'] };
    const body = bodyFor(one.model, { models: [two.model], route: 'sort', provider });
    const reply = await gateway.post(body);
    expect(reply.status).toBe(400);
    expect(triedModels()).toEqual([one.first, two.first]);
  });

  test('tries the next model if the provider is unreachable, and logs both attempts', async () => {
    const reply = await gateway.post(bodyFor('acme/lost', { models: ['acme/other'] }));
    expect(reply.status).toBe(200);
    expect(reply.json).toMatchObject({ model: 'acme/other', provider: 'beta' });
    expect(await attemptsOf(reply.requestId)).toEqual(['absent unreachable', 'beta answered']);
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

  test('tries only 1 candidate if allow_fallbacks is false', async () => {
    const { model, first } = freshCase();
    upstream.script(first, status500());
    const provider = { allow_fallbacks: false };
    const reply = await gateway.post(bodyFor(model, { models: ['acme/other'], provider }));
    expect(reply.status).toBe(502);
    expect(triedModels()).toEqual([first]);
  });

  test('uses only the providers in provider.order if allow_fallbacks is false', async () => {
    const { model, second } = freshCase();
    const provider = { order: ['beta'], allow_fallbacks: false };
    expect(await firstTried(model, { provider })).toBe(second);
    const none = await gateway.post(
      bodyFor(model, { provider: { order: ['gamma'], allow_fallbacks: false } }),
    );
    expect(none.status).toBe(404);
    expect(none.error.param).toBe('provider');
  });

  test('stops after 16 attempts, even if there are more endpoints', async () => {
    upstream.script('*', status500());
    const reply = await gateway.post(bodyFor('acme/many'));
    expect(reply.status).toBe(502);
    expect(upstream.requests).toHaveLength(16);
    expect((await gateway.record(reply.requestId)).attempts).toHaveLength(16);
  });

  test('tries all 16 models of the longest allowed chain', async () => {
    upstream.script('*', status(400));
    upstream.script('link-15', chatAnswer('at last'));
    const chain = Array.from({ length: 16 }, (_, i) => `acme/link-${i}`);
    const reply = await gateway.post({ ...bodyFor(''), model: undefined, models: chain });
    expect(reply.status).toBe(200);
    expect(triedModels()).toEqual(chain.map((alias) => alias.slice('acme/'.length)));
  });

  test('tries and counts a repeated model of the chain only once', async () => {
    upstream.script('*', status500());
    for (const again of [2, 17]) {
      const models = Array.from({ length: again }, () => 'acme/other');
      expect((await gateway.post(bodyFor('acme/other', { models }))).status).toBe(502);
    }
    expect(upstream.requests).toHaveLength(2);
  });
});

describe('an answer after its first byte', () => {
  test.each([
    ['a reset', resetMidStream(3)],
    ['an error event', errorInside200(3)],
    ['silence', hangMidStream(3)],
  ])('ends with an error, without trying another provider, after %s', async (_, failure) => {
    const { model, first } = freshCase();
    upstream.script(first, failure);
    const stream = await gateway.stream(bodyFor(model, { models: ['acme/other'] }));
    expect(stream.status).toBe(200);
    expect(stream.content).toBe('w1 w2');
    expect(stream.error).toMatchObject({ type: 'upstream_error' });
    expect(triedModels()).toEqual([first]);
    expect(await attemptsOf(stream.requestId)).toEqual(['alpha answered']);
  });

  test.each([
    ['long', 300_000, 100_000],
    ['short', 100, 50],
  ])(
    'may take longer than the idle timeout if each piece arrives in time: %s answer',
    async (_, count, bytes) => {
      const words = 'word '.repeat(count);
      upstream.script('long-a', slowDrip(bytes, 150, chatAnswer(words)));
      const reply = await gateway.post(bodyFor('acme/long'));
      expect(reply.status).toBe(200);
      expect(contentOf(reply)).toBe(words);
    },
  );
});

describe('the error after every attempt failed', () => {
  test('is 429 with the shortest Retry-After if all providers are rate limited', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status429('30'));
    upstream.script(second, status429('7'));
    const reply = await gateway.post(bodyFor(model));
    expect(reply.status).toBe(429);
    expect(reply.error).toMatchObject({ type: 'upstream_error', code: 429, param: null });
    expect(reply.headers.get('x-tollgate-limited-by')).toBe('provider');
    expect(reply.headers.get('retry-after')).toBe('7');
    expect(reply.headers.get('retry-after-ms')).toBe('7000');
  });

  test('is a retryable 502 if one provider is rate limited and another fails', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status429('30'));
    upstream.script(second, status500());
    const reply = await gateway.post(bodyFor(model));
    expect(reply.status).toBe(502);
    expect(reply.headers.has('x-should-retry')).toBe(false);
    expect(reply.headers.has('retry-after')).toBe(false);
  });

  test('is 504 if the last provider does not answer in time', async () => {
    const { model, first } = freshCase();
    upstream.script(first, hangBeforeHeaders());
    using activeClock = new ActiveClock();
    const reply = await gateway.post(bodyFor(model, { provider: { only: ['alpha'] } }));
    expect(reply.status).toBe(504);
    expect(activeClock.ms).toBeLessThan(1_500);
  });

  test.each([401, 403])(
    "is 502 for an upstream %d, without the upstream's message",
    async (code) => {
      const { model, first, second } = freshCase();
      upstream.script(first, status(code, `Bad key ${upstreamKey}`));
      upstream.script(second, status(code, `Bad key ${upstreamKey}`));
      const reply = await gateway.post(bodyFor(model));
      expect(reply.status).toBe(502);
      expect(reply.text).not.toContain('key');
    },
  );

  test('is 400 for an upstream 400, with upstream model names and keys removed', async () => {
    const { model, first } = freshCase();
    const message = `The model ${first} takes no "top_k" (key ${upstreamKey}, or sk-proj-abcdef12)`;
    upstream.script(first, status(400, message));
    const reply = await gateway.post(bodyFor(model));
    expect(reply.status).toBe(400);
    expect(reply.error).toEqual({
      message: `The model ${model} takes no "top_k" (key [key], or [key])`,
      type: 'invalid_request_error',
      code: 400,
      param: null,
    });
  });

  test('is logged with all attempts and without a charge', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    upstream.script(second, status(503));
    const reply = await gateway.post(bodyFor(model));
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
  test('moves an offer to the end of the list after 5 consecutive failures', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    for (let i = 0; i < 5; i++) expect(await firstTriedNow(model)).toBe(first);
    expect(await firstTriedNow(model)).toBe(second);
    expect(upstream.requests.slice(10).map((entry) => entry.model)).toEqual([second]);
  });

  test('tries an offer with an open circuit as the last resort', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, status500());
    for (let i = 0; i < 5; i++) await gateway.post(bodyFor(model));
    upstream.reset();
    upstream.script(second, status500());
    const reply = await gateway.post(bodyFor(model));
    expect(reply.status).toBe(200);
    expect(triedModels()).toEqual([second, first]);
  });

  test('counts interrupted answers as failures', async () => {
    const { model, first, second } = freshCase();
    upstream.script(first, resetMidStream(2, chatAnswer('one two three')));
    for (let i = 0; i < 6; i++) await gateway.stream(bodyFor(model));
    expect(triedModels()).toEqual([first, first, first, first, first, second]);
  });

  test('opens if every second answer is interrupted', async () => {
    const { model, first, second } = freshCase();
    const broken = resetMidStream(2, chatAnswer('one two three'));
    const behaviors = Array.from({ length: 20 }, (_, i) => (i % 2 ? broken : chatAnswer('whole')));
    upstream.script(first, behaviors);
    for (let i = 0; i < 20; i++) await gateway.stream(bodyFor(model));
    expect(triedModels().slice(-2)).toEqual([second, second]);
  });

  test('ignores failures caused by the request', async () => {
    const { model, first } = freshCase();
    upstream.script(first, status(400));
    for (let i = 0; i < 6; i++) await gateway.post(bodyFor(model));
    upstream.reset();
    expect(await firstTried(model)).toBe(first);
  });

  test('ignores content policy errors in the middle of an answer', async () => {
    const { model, first } = freshCase();
    const chunk = { choices: [{ index: 0, delta: { content: 'Well' }, finish_reason: null }] };
    const error = { message: 'It was flagged.', code: 'content_policy_violation' };
    const events = [chunk, { error }].map((event) => `data: ${JSON.stringify(event)}\n\n`);
    upstream.script(first, replay(events.join('')));
    for (let i = 0; i < 6; i++) await gateway.stream(bodyFor(model));
    expect(triedModels()).toEqual(Array(6).fill(first));
  });

  test('does not affect other models of the same provider', async () => {
    const [bad, good] = [freshCase(), freshCase()];
    upstream.script(bad.first, status500());
    for (let i = 0; i < 6; i++) await gateway.post(bodyFor(bad.model));
    expect(await firstTried(good.model)).toBe(good.first);
  });

  /** Like `firstTried`, but keeps the scripted behaviors. */
  async function firstTriedNow(model: string): Promise<string | undefined> {
    const before = upstream.requests.length;
    await gateway.post(bodyFor(model));
    return upstream.requests[before]?.model;
  }
});

test('every chunk of a stream has the alias of the model that answered', async () => {
  const { model, first, second } = freshCase();
  upstream.script(first, status500());
  upstream.script(second, status500());
  const stream = await gateway.stream(bodyFor(model, { models: ['acme/other'] }));
  expect(new Set(stream.chunks.map((chunk) => chunk.model))).toEqual(new Set(['acme/other']));
});
