/** What an explanation says about a request is what the request then does. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { fieldsOf, objectsIn } from '../../src/core/json.ts';
import {
  type Behavior,
  chatAnswer,
  embeddings,
  gated,
  images,
  speech,
  startFakeUpstream,
  status500,
} from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';
import { fc } from '../support/random.ts';
import { waitUntil } from '../support/wait-until.ts';

const upstream = startFakeUpstream();
let gateway: InProcessGateway;

const price = (usd: string) => ({ prompt: usd, completion: usd });
const providers = ['open', 'picky', 'claude', 'newer'] as const;
const endpoints = providers.map((provider, priority) => ({
  ...{ provider, model: `${provider}-model`, priority, pricing: price(`${5 - priority}`) },
}));
/** The sorted providers of each model. */
const providersOf = new Map(
  Object.entries({
    'acme/chat': ['claude', 'newer', 'open', 'picky'],
    'acme/plain': ['claude', 'picky'],
    ...Object.fromEntries(
      ['embed', 'paint', 'say'].map((one) => [`acme/${one}`, ['open', 'picky']]),
    ),
  }),
);
const media = (name: string, features: string[], pricing: object, more: object) => ({
  ...{ id: `acme/${name}`, name, input_modalities: ['text'], output_modalities: ['text'] },
  ...{ features, ...more },
  endpoints: ['open', 'picky'].map((provider, priority) => ({
    ...{ provider, model: `${provider}-${name}`, priority, pricing },
  })),
});

beforeAll(async () => {
  const at = (dialect: string, quirks: object = {}) => ({
    ...{ dialect, base_url: `${upstream.url}/v1`, api_key: 'sk-operator', quirks },
  });
  gateway = await InProcessGateway.start({
    limits: { requests_per_minute: 1_000_000 },
    cache: { mode: 'off' },
    providers: {
      open: at('openai'),
      picky: at('openai', { drop_params: ['seed', 'logprobs', 'temperature', 'dimensions'] }),
      claude: at('anthropic'),
      newer: at('openai', { newer_tools: 'keep', output_limit: 'max_completion_tokens' }),
    },
    models: [
      chatModel('acme/chat', endpoints),
      chatModel('acme/plain', endpoints.slice(1, 3), { features: [], input_modalities: ['text'] }),
      media('embed', ['embeddings'], price('2'), {}),
      media(
        'paint',
        ['image_generation'],
        { output_image: '0.04' },
        {
          output_modalities: ['image'],
        },
      ),
      media(
        'say',
        ['speech'],
        { characters: '15' },
        {
          output_modalities: ['audio'],
          speech: { style: 'mapped', default_voice: 'alloy', input_characters_max: 100 },
        },
      ),
    ],
    aliases: {
      smart: {
        models: [
          { model: 'acme/plain', when: { tools: false, images: false } },
          { model: 'acme/chat', when: { input_tokens_above: 20 } },
          'acme/plain',
        ],
      },
    },
  });
});
afterAll(async () => {
  await gateway.stop();
  await upstream.stop();
});
beforeEach(() => upstream.reset());

interface Planned {
  readonly provider: string;
  readonly model: string;
  readonly dropped: readonly string[];
}

async function explain(endpoint: string, body: object) {
  const reply = await gateway.post(body, { path: `/v1/route/explain?endpoint=${endpoint}` });
  const data = fieldsOf(reply.json.data);
  return {
    reply,
    plan: objectsIn(data.plan) as unknown as readonly Planned[],
    hold: data.hold,
    models: Array.isArray(data.models) ? data.models.map(String) : [],
    maxCharge: Number(data.max_charge),
    error: data.error ? fieldsOf(data.error) : undefined,
    excluded: objectsIn(data.excluded),
  };
}

async function held(): Promise<number> {
  const { json } = await gateway.get('/v1/customer/credits');
  return Number(fieldsOf(json.balance).held);
}

const sorted = (names: readonly string[] = []) => [...names].sort();
let count = 0;

/** Explains a request and sends it. The first `failing` offers of the plan fail. */
async function check(endpoint: string, body: object, answer: Behavior, failing: number) {
  const { reply, models, plan, hold, maxCharge, error, excluded } = await explain(endpoint, body);
  const path = `/v1/${endpoint}`;
  for (const id of models) {
    const explained = [...plan, ...excluded].filter((offer) => offer.model === id);
    const isEntire = explained.some(({ provider }) => provider === null);
    const all = providersOf.get(id) ?? [];
    if (!isEntire) expect(explained.map(({ provider }) => String(provider)).sort()).toEqual(all);
  }
  if (reply.status !== 200 || error) {
    const sent = upstream.requests.length;
    const { status, error: sentError } = await gateway.post(body, { path });
    const expected = error ?? reply.error;
    expect([status, sentError.message]).toEqual([
      ...[error?.status ?? reply.status, expected.message],
    ]);
    expect(upstream.requests.length).toBe(sent);
    return;
  }
  const answering = Math.min(failing, plan.length - 1);
  const gate = `explained ${count++}`;
  const isChat = answer.answer.kind === 'chat';
  const names = plan.map(({ provider, model: id }) =>
    isChat ? `${provider}-model` : `${provider}-${id.replace('acme/', '')}`,
  );
  for (const name of new Set(names)) {
    const behaviors = names.flatMap((one, index) =>
      one !== name
        ? []
        : [index < answering ? status500() : isChat ? gated(gate, 0, answer) : answer],
    );
    upstream.script(name, behaviors);
  }
  const sending = gateway.fetch(body, { path });
  // The fake provider only stops in the middle of a chat.
  if (isChat) {
    await upstream.until((requests) => requests.find(({ outcome }) => outcome === 'open'));
    expect(await held()).toBe(Number(hold));
    upstream.open(gate);
  }
  const response = await sending;
  const text = await response.text();
  expect([response.status, text]).toEqual([200, text]);
  const record = await gateway.record(response.headers.get('x-request-id') ?? '');
  const tried = record.attempts.map((one) => `${one.provider} ${one.model}`);
  expect(tried).toEqual(plan.slice(0, answering + 1).map((one) => `${one.provider} ${one.model}`));
  expect(sorted(record.attempts.at(-1)?.dropped)).toEqual(sorted(plan[answering]?.dropped));
  expect(Object.values(record.charges).reduce((sum, n) => sum + n, 0)).toBeLessThanOrEqual(
    maxCharge,
  );
  const out = new Set(excluded.map(({ provider, model }) => `${provider} ${model}`));
  for (const { provider, model } of record.attempts) {
    expect(out.has(`${provider} ${model}`)).toBe(false);
  }
  await waitUntil(async () => (await held()) === 0);
}

const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const preferences = some(
  fc.record(
    {
      sort: fc.constantFrom('price'),
      order: fc.subarray([...providers]),
      ignore: fc.subarray([...providers], { maxLength: 2 }),
      allow_fallbacks: fc.boolean(),
      require_parameters: fc.boolean(),
      lossless: fc.boolean(),
      max_price: fc.record({ prompt: fc.integer({ min: 1, max: 6 }) }),
    },
    { requiredKeys: [] },
  ),
);
const model = fc.constantFrom('acme/chat', 'acme/plain', 'smart', 'acme/embed', 'acme/none');
const text = fc.constantFrom('Hello!', 'Hello! '.repeat(30));
const schema = { type: 'object', properties: {} };
const stream = fc.boolean();

const chat = fc.record(
  {
    model,
    messages: text.map((content) => [{ role: 'user', content }]),
    stream,
    provider: preferences,
    max_tokens: some(fc.integer({ min: 1, max: 500 })),
    models: some(fc.constant(['acme/plain'])),
    seed: some(fc.constant(7)),
    logprobs: some(fc.constant(true)),
    temperature: some(fc.constant(0.5)),
    top_k: some(fc.constant(5)),
    stop: some(fc.constant(['x'])),
    tools: some(fc.constant([{ type: 'function', function: { name: 'f', parameters: schema } }])),
    response_format: some(fc.constant({ type: 'json_object' })),
    unknown_field: some(fc.constant(1)),
  },
  { requiredKeys: ['model', 'messages'] },
);
const messages = fc.record(
  {
    model,
    messages: text.map((content) => [{ role: 'user', content }]),
    max_tokens: fc.integer({ min: 1, max: 500 }),
    stream,
    provider: preferences,
    temperature: some(fc.constant(0.5)),
    top_k: some(fc.constant(5)),
    stop_sequences: some(fc.constant(['x'])),
    tools: some(fc.constant([{ name: 'f', input_schema: schema }])),
    system: some(fc.constant('Be brief.')),
  },
  { requiredKeys: ['model', 'messages', 'max_tokens'] },
);
const responses = fc.record(
  {
    model,
    input: text,
    stream,
    provider: preferences,
    max_output_tokens: some(fc.integer({ min: 16, max: 500 })),
    temperature: some(fc.constant(0.5)),
    top_logprobs: some(fc.constant(2)),
    tools: some(fc.constant([{ type: 'function', name: 'f', parameters: schema }])),
    text: some(fc.constant({ format: { type: 'json_object' } })),
  },
  { requiredKeys: ['model', 'input'] },
);
const formats: [string, fc.Arbitrary<object>][] = [
  ['chat/completions', chat],
  ['messages', messages],
  ['responses', responses],
];

/** Removes undefined fields, as JSON does. */
const bodyOf = (body: object): object => JSON.parse(JSON.stringify(body));

test.each(formats)(
  'requests to /v1/%s are planned, held, and changed as explained',
  async (endpoint, bodies) => {
    const property = fc.asyncProperty(bodies, fc.nat(3), async (body, failing) => {
      await check(endpoint, bodyOf(body), chatAnswer('one two three'), failing);
    });
    await fc.assert(property, { numRuns: 40, endOnFailure: true });
  },
  120_000,
);

test.each<[string, object, Behavior]>([
  ['embeddings', { model: 'acme/embed', input: 'Hello!' }, embeddings()],
  ['embeddings', { model: 'acme/embed', input: ['a', 'b'], dimensions: 8 }, embeddings()],
  ['embeddings', { model: 'acme/chat', input: 'Hello!' }, embeddings()],
  ['images/generations', { model: 'acme/paint', prompt: 'A fox', n: 2 }, images()],
  ['images/generations', { model: 'acme/paint', prompt: 'A fox', size: '1024x1024' }, images()],
  ['images/generations', { model: 'acme/none', prompt: 'A fox' }, images()],
  ['audio/speech', { model: 'acme/say', input: 'Hello!', voice: 'alloy', speed: 1.5 }, speech()],
  ['audio/speech', { model: 'acme/embed', input: 'Hello!', voice: 'alloy' }, speech()],
])('requests to /v1/%s with %j are planned, held, and changed as explained', async (...args) => {
  const [endpoint, body, answer] = args;
  for (const failing of [0, 1]) await check(endpoint, body, answer, failing);
});
