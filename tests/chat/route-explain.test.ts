/** Explanations of routes, and requests that must reach a provider without loss. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { makeByokTenant } from '../support/byok.ts';
import { type FakeUpstream, startFakeUpstream, status500 } from '../support/fake-upstream.ts';
import { chatModel, InProcessGateway } from '../support/in-process.ts';

let upstream: FakeUpstream;
let gateway: InProcessGateway;

beforeAll(async () => {
  upstream = startFakeUpstream();
  const at = (dialect: string, more = {}) => ({
    dialect,
    base_url: `${upstream.url}/v1`,
    api_key: 'sk-operator',
    ...more,
  });
  gateway = await InProcessGateway.start({
    providers: {
      north: at('openai'),
      south: at('anthropic'),
      west: at('openai'),
      private: at('openai', { shared: false }),
    },
    models: [
      chatModel('acme/chat', [
        { provider: 'north', model: 'north-1', priority: 0, pricing: price('3') },
        { provider: 'south', model: 'south-1', priority: 1, pricing: price('1') },
        { provider: 'west', model: 'west-1', priority: 2, pricing: price('2') },
        { provider: 'private', model: 'private-1', priority: 3, pricing: price('2') },
      ]),
      chatModel('acme/south', [{ provider: 'south', model: 'south-1', pricing: price('1') }]),
      chatModel('acme/embed', [{ provider: 'north', model: 'embed', pricing: price('1') }], {
        features: ['embeddings'],
      }),
    ],
  });
});
afterAll(async () => {
  await gateway.stop();
  upstream.stop();
});
beforeEach(() => upstream.reset());

const price = (usd: string) => ({ prompt: usd, completion: usd });
const messages = [{ role: 'user', content: 'Hello!' }];
const request = { model: 'acme/chat', messages, max_tokens: 1000 };

interface Explained {
  readonly models: readonly string[];
  readonly plan: readonly { readonly provider: string; readonly [field: string]: unknown }[];
  readonly excluded: readonly Readonly<Record<string, unknown>>[];
  readonly hold: number | null;
  readonly max_charge: number | null;
  readonly error: { readonly message: string } | null;
}

const path = '/v1/route/explain';
const adminPath = '/admin/v1/route/explain';

async function explain(body: object, options: { path?: string; key?: string } = {}) {
  const reply = await gateway.post(body, { path, ...options });
  expect(reply.status).toBe(200);
  return reply.json.data as unknown as Explained;
}

const providersOf = ({ plan }: Explained) => plan.map(({ provider }) => provider);

describe('POST /v1/route/explain', () => {
  test('lists the offers in the order in which the request then tries them', async () => {
    const body = { ...request, provider: { sort: 'price' } };
    const planned = providersOf(await explain(body));
    for (const name of ['north-1', 'south-1', 'west-1']) upstream.script(name, status500());
    const { headers } = await gateway.post(body);
    const record = await gateway.record(headers.get('x-request-id') ?? '');
    expect(record.attempts.map(({ provider }) => provider)).toEqual(planned);
    expect(planned).toEqual(['south', 'west', 'north']);
  });

  test('shows prices, the hold, the highest charge, and dropped fields of each offer', async () => {
    const { plan, hold, max_charge } = await explain({ ...request, logprobs: true, seed: 7 });
    expect(plan.map(({ provider, dropped }) => [provider, dropped])).toEqual([
      ['north', []],
      ['south', ['seed', 'logprobs']],
      ['west', []],
    ]);
    // 1,000 output tokens at $3 per million are 3,000 credits, and the prompt is 62 bytes long.
    const [north] = plan;
    expect(north).toMatchObject({
      ...{ model: 'acme/chat', traffic_mode: 'shared', priority: 0, circuit: 'closed' },
      pricing: price('3'),
    });
    expect(Number(north?.max_charge)).toBeWithin(3000, 3300);
    expect([hold, max_charge]).toEqual([Number(north?.hold), Number(north?.max_charge)]);
    expect(north).not.toHaveProperty('upstream_model');
  });

  test('says why each other offer would not be tried', async () => {
    const { excluded, plan } = await explain({
      ...request,
      models: ['acme/embed', 'acme/missing'],
      provider: { ignore: ['west'], max_price: { prompt: 2 } },
    });
    expect(plan.map(({ provider }) => provider)).toEqual(['south']);
    expect(excluded.map(({ model, provider, reason }) => [model, provider, reason])).toEqual([
      ['acme/chat', 'north', 'No provider of this model is within provider.max_price.'],
      ['acme/chat', 'west', 'No provider of this model matches provider.ignore.'],
      ['acme/chat', 'private', 'The tenant has no provider key for private.'],
      ['acme/embed', 'north', 'The model "acme/embed" is not a chat model.'],
      [
        'acme/missing',
        null,
        'There is no model "acme/missing"; GET /v1/models lists the available models.',
      ],
    ]);
  });

  test('names provider.allow_fallbacks if only it excludes an offer', async () => {
    const { excluded } = await explain({ ...request, provider: { allow_fallbacks: false } });
    const west = excluded.find(({ provider }) => provider === 'west');
    expect(west?.reason).toBe(
      'provider.allow_fallbacks is false, and another provider comes first.',
    );
  });

  test("includes the tenant's own provider keys, and only in its own view", async () => {
    const { key, id } = await explainTenant();
    const own = await explain(request, { key });
    expect(own.plan.map(({ provider, traffic_mode }) => [provider, traffic_mode])).toEqual([
      ['north', 'shared'],
      ['south', 'byok'],
      ['south', 'shared'],
      ['west', 'shared'],
    ]);
    const asAdmin = { key: gateway.keys.admin };
    const seen = await explain(request, { path: `${adminPath}?tenant=${id}`, ...asAdmin });
    expect(providersOf(seen)).toEqual(providersOf(own));
    expect(seen.plan[0]?.upstream_model).toBe('north-1');
    const anybody = await explain(request, { path: adminPath, ...asAdmin });
    expect(providersOf(anybody)).toEqual(['north', 'south', 'west']);
  });

  test("obeys the key's list of models, also in the operator's view of the key", async () => {
    const key = await gateway.makeKey({ models: ['acme/south'] });
    const { error, excluded } = await explain(request, { key });
    expect(error).toMatchObject({ status: 403, type: 'forbidden', param: 'model' });
    expect(excluded).toEqual([
      {
        model: 'acme/chat',
        provider: null,
        traffic_mode: null,
        reason: 'This API key may not use the model "acme/chat".',
      },
    ]);
    const id = (await gateway.get('/v1/key', { key })).json.data as { id: string };
    const view = `${adminPath}?tenant=default&api_key_id=${id.id}`;
    expect((await explain(request, { path: view, key: gateway.keys.admin })).error?.message).toBe(
      'This API key may not use the model "acme/chat".',
    );
  });

  test.each([
    ['messages', { model: 'acme/south', messages, max_tokens: 9 }],
    ['responses', { model: 'acme/south', input: 'Hello!' }],
    ['embeddings', { model: 'acme/embed', input: 'Hello!' }],
  ])('reads the body of the endpoint %s', async (endpoint, body) => {
    const { plan, error } = await explain(body, { path: `${path}?endpoint=${endpoint}` });
    expect([plan.length, error]).toEqual([1, null]);
  });

  test('calls no provider, writes no log row, and accepts management keys', async () => {
    const before = (await gateway.get('/v1/customer/logs')).json.pagination;
    await explain({ ...request, stream: true }, { key: gateway.keys.management });
    expect((await gateway.get('/v1/customer/logs')).json.pagination).toEqual(before);
    expect(upstream.requests).toEqual([]);
  });

  test.each([
    [path, { model: 'acme/chat' }, 400, 'messages'],
    [`${path}?endpoint=audio`, request, 400, 'endpoint'],
    [`${adminPath}?tenant=nobody`, request, 404, null],
    [`${adminPath}?api_key_id=key_a`, request, 400, 'tenant'],
    [`${adminPath}?tenant=default&api_key_id=key_a`, request, 404, 'api_key_id'],
  ])('POST %s with %j gets %i for %s', async (to, body, status, param) => {
    const key = to.startsWith('/admin') ? gateway.keys.admin : gateway.keys.routing;
    const reply = await gateway.post(body, { path: to, key });
    expect([reply.status, reply.json.error]).toMatchObject([status, { param }]);
  });

  test("is closed to tenants at the operator's path", async () => {
    for (const key of [gateway.keys.routing, gateway.keys.management])
      expect((await gateway.post(request, { path: adminPath, key })).status).toBe(403);
  });
});

async function explainTenant(): Promise<{ key: string; id: string }> {
  const tenant = await makeByokTenant(gateway, 'explained');
  await tenant.setProviderKey('south', { api_key: 'sk-own-0123456789' });
  return { key: tenant.key, id: 'explained' };
}

describe('provider.lossless', () => {
  test('excludes offers that would not receive every field', async () => {
    const body = { ...request, seed: 7, provider: { lossless: true, sort: 'price' } };
    const { plan, excluded } = await explain(body);
    expect(plan.map(({ provider }) => provider)).toEqual(['west', 'north']);
    expect(excluded.find(({ provider }) => provider === 'south')?.reason).toBe(
      'provider.lossless excludes every provider: acme/chat would lose seed.',
    );
  });

  test('rejects a request that no offer receives in full, and names the fields', async () => {
    const body = { model: 'acme/south', messages, seed: 7, logprobs: true };
    const reply = await gateway.post({ ...body, provider: { lossless: true } });
    expect([reply.status, reply.json.error]).toMatchObject([
      400,
      {
        message: 'provider.lossless excludes every provider: acme/south would lose seed, logprobs.',
        param: 'seed',
      },
    ]);
    expect(upstream.requests).toEqual([]);
  });

  test('is not needed to see in the receipt what was dropped', async () => {
    const { headers } = await gateway.post({ model: 'acme/south', messages, seed: 7 });
    const id = headers.get('x-request-id') ?? '';
    const { json } = await gateway.get(`/v1/customer/logs/${id}`);
    expect(json.data).toMatchObject({ attempts: [{ provider: 'south', dropped: ['seed'] }] });
  });
});
